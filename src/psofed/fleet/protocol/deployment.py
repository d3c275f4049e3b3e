"""What is deployed: an experiment with one method, and the table [deploy] of its file.

Rule 3: both ends must agree on the tables of the file with all options and their values, but for
those on which no number depends that the two ends exchange.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any, Literal

import numpy as np

from psofed import experiment as experiments
from psofed.core import conformal
from psofed.core.schedule import UniformCohorts
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.federation import plugins, schema, texts
from psofed.federation.contract import Method, Task
from psofed.federation.membership import FleetCohorts
from psofed.federation.plugins import written
from psofed.federation.round import relays
from psofed.federation.schema import inside
from psofed.fleet.protocol import signs, wire
from psofed.fleet.protocol.folding import BOUND
from psofed.fleet.protocol.members import (
    NAME_RIGHT,
    Awake,
    MemberTable,
    Names,
    Presence,
    RowCohorts,
    fits,
)
from psofed.fleet.protocol.server import refuse_policy
from psofed.fleet.protocol.store import SLOTS, Disk, Store, put, reader
from psofed.stages.attacks.contract import Options as Attack
from psofed.stages.checks import outliers
from psofed.stages.checks.contract import SampleCheck
from psofed.stages.defences import clip
from psofed.stages.mask import MOST_TOLD
from psofed.stages.surroundings import start
from psofed.streams.contract import about

PLAN = "run.toml"  # in a state folder
FEW = 5  # clients from which on a defence can tell who is wrong
# Fields of an experiment on which no number depends that the two ends exchange.
IRRELEVANT = (
    "rounds", "runs", "evaluate_every", "test_samples", "targets", "judge",
    "check", "mix",  # matters of each client
    "fleet",  # who comes and goes in a simulation; a server says it to its clients
)  # fmt: skip


@dataclass(frozen=True)
class Deploy:
    """The table [deploy]. Run, clock, wire and method must be the same at both ends, no other."""

    run: str = "p"  # the name in topics: short, because every message carries it
    clock: Literal["lockstep", "live"] = "lockstep"  # sample n belongs to round n, or comes anytime
    wire: Literal["float16", "float32", "float64"] = "float32"  # number format in messages
    bound: float = BOUND  # larger values are refused
    method: int | None = None  # which of the methods, if there are several
    qos: int = 0  # MQTT level: 0 takes the fewest bytes, and what is lost is asked for again
    every: float | None = None  # server: seconds between rounds; not set: lockstep 0, live 1
    deadline: float | None = None  # server: seconds a round waits; not set: lockstep all, live 10
    patience: float | None = None  # server: seconds of silence until a client is asleep (live)
    test: str = ""  # server: CSV of test samples; not set: lockstep the experiment's, live none
    log: Literal["text", "json", "quiet"] = "text"  # lines to read, to parse, or warnings only
    snapshots: int = 100  # server: rounds from one snapshot of the model to the next
    keep: int = 50  # server: snapshots that are kept; 0 makes none
    start: int = 1  # server: count this start as so high at least, if clients know a higher one
    origin: str = ""  # server: model to begin with: a state folder, or a file of `psofed fit`
    rate: float = 10.0  # client: samples per second from a stream or a file (live)
    save_every: float = 600.0  # client: seconds of learning that a power cut may cost (live)
    ahead: float = 86_400.0  # client: seconds by which a row may be ahead of this machine's clock
    interval: float = 0.9  # client: share of the labels that the interval of an answer holds
    report: bool = False  # client: report errors and coverage each minute, in 29 bytes
    names: tuple[str, ...] = ()  # of the clients, by number; not set: those of a table
    on_damage: Literal["stop", "restart"] = "stop"  # client: "restart" starts over without a record

    def __post_init__(self) -> None:
        schema.check(self)
        schema.positive(self, "bound", "deadline", "patience", "snapshots", "start", "rate",
                        "save_every", "ahead")  # fmt: skip
        schema.at_most(self, {"qos": 1, "start": wire.LAST_INCARNATION})
        for name in ("qos", "every", "keep"):
            value = getattr(self, name)
            schema.require(self, name, value is None or 0 <= value < inf, "use 0 or more")
        conformal.which(self.interval)
        good = self.run.isascii() and self.run.replace("-", "").replace("_", "").isalnum()
        if not good or len(self.run) > 40:
            raise InputError("run", f"is {self.run!r}", "use up to 40 letters, digits, - and _")
        for k, name in enumerate(self.names):
            if self.names.index(name) < k or not (fits(name) or name == str(k)):
                found = f"has {name!r}" + " twice" * (self.names.index(name) < k)
                raise InputError("names", found, NAME_RIGHT)

    @property
    def live(self) -> bool:
        """Whether samples come at any time."""
        return self.clock == "live"


@dataclass(frozen=True, eq=False)
class Deployment:
    """Both ends compute the same from the same file; the digest tells whether they did."""

    experiment: Experiment
    deploy: Deploy = field(default_factory=Deploy)

    def __post_init__(self) -> None:
        count, chosen = len(self.experiment.methods), self.deploy.method
        if chosen is None and count > 1:
            found = f"has {count} tables, but one method is deployed"
            right = f"leave one, or choose: method = 0 to {count - 1} under [deploy]"
            raise InputError("methods", found, right)
        if chosen is not None and not 0 <= chosen < count:
            raise InputError("deploy.method", f"is {chosen}", f"use 0 to {count - 1}")
        options = self.experiment.methods[chosen or 0]
        if options.simulated:
            found = f"is {options.name}, which cannot be deployed: {options.simulated}"
            raise InputError("method", found, "choose another, or simulate it with `psofed run`")
        if self.deploy.live and options.not_live:
            found = f"is {options.name}, which cannot run on a live clock: {options.not_live}"
            raise InputError("method", found, 'use clock = "lockstep", or another method')
        if options.policy is not None:
            refuse_policy(options.policy)
        refuse_omniscient(self.experiment.attack)
        privacy = self.experiment.privacy
        if self.deploy.report and privacy and (privacy.masks or privacy.epsilon is not None):
            found = "is true, but these numbers have no noise and no masks, as [privacy] asks for"
            raise InputError("deploy.report", found, "leave it out")
        if not self.deploy.live:
            if self.deploy.patience is not None:  # its simulation is the twin
                found = (
                    f"is {self.deploy.patience:g}, but in lockstep the whole cohort is waited for"
                )
                raise InputError("deploy.patience", found, 'leave it out, or use clock = "live"')
            self.experiment.check_simulated()
            if about(self.experiment.stream).gaps and relays(self._method):
                found = f"is {options.name}, which sends samples, and in some rounds there are none"
                raise InputError("method", found, 'use clock = "live", or another method')

    @cached_property
    def world(self) -> Experiment:
        """The experiment with the method that is deployed, and with no other.

        On the live clock it has a defence, unless the file says which or that there is none. In
        lockstep it is as in the file, because a simulation of the file is its twin.
        """
        alone = self.experiment.alone(self.experiment.methods[self.deploy.method or 0])
        alone = replace(alone, fleet=())  # who is a member is what the server has recorded
        if not self.deploy.live or alone.defence is not None:
            return alone
        try:
            return replace(alone, defence=clip.Options())
        except InputError:  # this method has no fold that a defence could change
            return alone

    @property
    def defence(self) -> str:
        """The defence in words, for the operator."""
        found = self.world.defence
        if found is not None:
            few = ", which cannot tell who is wrong where clients are fewer than five"
            more = few if self.experiment.clients < FEW else ""
            return f"Defence: {found.describe()}" + (more if found.acts else ", as the file says")
        if self.masked:
            told = self.world.counts[0].in_words()
            return f"Defence: none, under masks the server sees no single upload; {told}"
        if self.deploy.live:
            name = self.world.methods[0].name
            return f"Defence: none, the server of {name} has no fold that one could change"
        return "Defence: none, the file has no table [defence]"

    def device(self, measured: bool = False) -> Method:
        """The method of a client, whose noise nobody else can compute.

        A malicious one has a method of its own: it does not see the server's state.
        """
        privacy, check = self.experiment.privacy, self._check(measured)
        noisy = privacy is not None and privacy.noisy
        if not noisy and self.experiment.attack is None:
            return self.method(measured)
        return self._start(self._method.task, check=check, secret=noisy)

    def method(self, measured: bool = False) -> Method:
        """The method, bound to run 0 of the experiment: a simulation of that run is its twin.

        Samples that are `measured`, as all are on the live clock, are checked even if the file does
        not say so; those of the experiment's own stream as it says, or the twins would differ.
        """
        return self._method if self._check(measured) == self.world.check else self._checking

    def _check(self, measured: bool) -> SampleCheck | None:
        """What clients do not learn from."""
        privacy = self.experiment.privacy  # a check that remembers would tell of samples
        unstated = self.world.check is None and not (privacy and privacy.hides_samples)
        wanted = measured or self.deploy.live
        return outliers.Options() if unstated and wanted else self.world.check

    @cached_property
    def _method(self) -> Method:
        return self._start(self.world.task(0, self.deploy.wire, self.deploy.live))

    @cached_property
    def _checking(self) -> Method:
        return self._start(self._method.task, check=outliers.Options())

    def _start(self, task: Task, **more: Any) -> Method:
        around = replace(self.world.around, mix=self.world.mix, **more)
        return start(self.world.methods[0], task, around)

    def bind(self, table: MemberTable, presence: Presence) -> Method:
        """The method of a server whose fleet has changed: clients are named by their rows."""
        task = self._method.task
        seeds = replace(task.seeds, ids=np.maximum(table.ids, 0))
        size, awake = task.cohorts.size, Awake(table, presence)
        fleet = FleetCohorts(task.seeds, task.clients, size, history=awake)
        cohorts = RowCohorts((), task.clients, size, fleet, len(table.ids))
        return self._start(replace(task, seeds=seeds, cohorts=cohorts))

    @cached_property
    def names(self) -> Names:
        """The names of its clients; anything else in a table is skipped."""
        given = self.deploy.names or about(self.experiment.stream).clients_named()
        return Names(name if fits(name) else str(k) for k, name in enumerate(given))

    @property
    def settled(self) -> str:
        """Why clients can neither join nor leave; empty: they can."""
        return self.listed or self.world.methods[0].settled

    @property
    def masked(self) -> bool:
        """Whether uploads are masked, so that clients need each other's keys (rule 19)."""
        return self.experiment.privacy is not None and self.experiment.privacy.masks

    @property
    def listed(self) -> str:
        """Why nobody can take the place of another in a round; empty: others can be drawn."""
        task = self._method.task
        if self.masked:
            return "with masks, who is in a cohort follows from the seed alone"
        if type(task.cohorts) is not UniformCohorts:
            return "the stream says who is there in which round"
        if task.cohorts.absent:
            return "the file has clients that are absent"
        return ""

    @property
    def signed(self) -> bool:
        """Whether answers say how many samples were learned; a budget of privacy forbids it."""
        privacy = self.experiment.privacy
        return self.deploy.live and (privacy is None or privacy.epsilon is None)

    @property
    def wire(self) -> str:
        """The number format in messages: the method's own, or that of [deploy]."""
        return self._method.task.wire

    @property
    def largest(self) -> int:
        """Bytes of the largest frame in either direction, without a seal."""
        seeds = MOST_TOLD * self.world.cohort if self.masked else 0  # rule 19
        return wire.size(wire.INVITE, max(32 * self.world.dim + 64, seeds))

    def to_table(self) -> dict[str, Any]:
        """The tables of the file, as `read` reads it."""
        named = {"names": list(self.names.listed)} if self.names.listed else {}
        return self.experiment.to_table() | {"deploy": schema.values(self.deploy) | named}

    def keep(self, disk: Disk) -> None:
        """Put the file next to the state, so that a model can be taken from there."""
        made = written(self.to_table)
        for name, data in {**made.sources, PLAN: made.toml.encode()}.items():
            if disk.read(name) != data:
                put(disk, name, data, durable=False)

    @property
    def agreement(self) -> dict[str, Any]:
        """Rule 3: what must be the same at both ends."""
        ours = {"run": self.deploy.run, "clock": self.deploy.clock, "wire": self.deploy.wire}
        live, which = self.deploy.live, self.deploy.method or 0
        signed = {"signs": signs.SIZE} if self.signed else {}
        return {**ours, **signed, **agreed(self.experiment, which, live)}

    @cached_property
    def digest(self) -> int:
        """Rule 3: the four bytes that every message carries."""
        return wire.digest(self.agreement)

    def about(self, role: str) -> dict[str, Any]:
        """What a state folder records about its run."""
        return {"run": self.deploy.run, "role": role, "digest": f"{self.digest:08x}"}

    def store(self, disk: Disk, role: str, slots: Sequence[str] = SLOTS) -> Store:
        """The records of one of the ends, in a state folder."""
        over = role != "server" and not self.masked  # there, what is damaged must be known for sure
        return Store(disk, self.about(role), slots, over)


def agreed(experiment: Experiment, which: int, live: bool) -> dict[str, Any]:
    """What must be the same at both ends, from the experiment and the method that is deployed."""
    with plugins.naming(lambda plugin: plugin.digest, lenient=True):
        table = experiment.to_table()
    method = table.pop("methods")[which]
    method.pop("label", None)
    for key in IRRELEVANT:
        table.pop(key, None)
    if live:
        table.pop("defence", None)  # a matter of the server; in lockstep, of the twin too
    table["stream"].pop("file", None)  # the path of a table may differ
    return {"method": method, **table}


def refuse_omniscient(attack: Attack | None) -> None:
    """A client of its own does not know what others send, so its attack would be another one."""
    if attack is not None and attack.share and attack.omniscient:
        found = f"is {attack.name!r}, whose clients know what others send: no message tells them"
        raise InputError("attack.name", found, "use another attack, or simulate it: `psofed run`")


def read(path: str | Path, changes: Iterable[str] = ()) -> Deployment:
    """The plan in an experiment file; every mistake in it is an InputError that names it.

    With `changes` such as "every=0.5" to the table [deploy].
    """
    experiment, given = experiments.read(path), texts.settings(changes)
    changed = texts.assigned({"deploy": Deploy}, given)["deploy"]
    with inside(where=str(path)):
        deploy = settings(path)
    try:
        deploy = replace(deploy, **changed)
    except InputError as error:
        raise next(each.blame(error) for each in given if each.key in error.field) from None
    with inside(where=str(path)):
        return Deployment(experiment, deploy)


def kept(folder: Path, named: Path | None = None, right: str = "") -> Deployment:
    """The plan that lies in a state folder, or the file that its user has `named` instead.

    The folder may come from anybody, so no code is imported for it; `right` says what to do then.
    """
    if named is not None:
        return read(named)
    if reader(folder)(PLAN) is None:
        right = f"give the file with which the server was started: --plan {PLAN}"
        raise InputError("", f"is a folder without {PLAN}", right, str(folder))
    with plugins.refused(right or f"allow it by naming the file: --plan {folder / PLAN}"):
        return read(folder / PLAN)


def settings(path: str | Path) -> Deploy:
    """The table [deploy] of an experiment file."""
    table = experiments.load(path).get("deploy", {})
    try:
        return schema.build(Deploy, schema.convert("deploy", table, dict))
    except InputError as error:
        raise error if error.field == "deploy" else error.inside("deploy.") from None

"""What is deployed: an experiment with one method, and the table [deploy] of its file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from psofed import experiment as experiments
from psofed import schema
from psofed.core.fleet import FleetCohorts
from psofed.core.schedule import UniformCohorts
from psofed.core.several import PlacedSeeds
from psofed.defences import clip
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.methods.contract import Method, kind, start
from psofed.privacy.masks import MOST_TOLD
from psofed.protocol import wire
from psofed.protocol.agreement import EARLY, LATER, Came, agreed, flat
from psofed.protocol.seats import SeatedCohorts, Seats
from psofed.protocol.server import BOUND, refuse_omniscient, refuse_policy
from psofed.protocol.store import SLOTS, Disk, Store
from psofed.provenance import written
from psofed.sample_checks import outliers
from psofed.streams.contract import about

PLAN = "run.toml"  # in a state folder
NAMED = 4  # settings that an error names


@dataclass(frozen=True)
class Deploy:
    """The table [deploy]: the run's name in topics, the clock, the values' type and bound."""

    run: str = "p"  # the name in topics: short, because every message carries it
    clock: Literal["lockstep", "live"] = "lockstep"  # sample n belongs to round n, or comes anytime
    wire: Literal["float16", "float32", "float64"] = "float32"  # number format in messages
    bound: float = BOUND  # larger values are refused
    method: int | None = None  # which of the methods, if there are several

    def __post_init__(self) -> None:
        schema.check(self)
        schema.positive(self, "bound")
        good = self.run.isascii() and self.run.replace("-", "").replace("_", "").isalnum()
        if not good or len(self.run) > 40:
            raise InputError("run", f"is {self.run!r}", "use up to 40 letters, digits, - and _")


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
        if self.deploy.clock == "live" and options.not_live:
            found = f"is {options.name}, which cannot run on a live clock: {options.not_live}"
            raise InputError("method", found, 'use clock = "lockstep", or another method')
        if options.policy is not None:
            refuse_policy(options.policy)
        refuse_omniscient(self.experiment.attack)
        if self.deploy.clock == "lockstep":
            self.experiment.check_simulated()
            if about(self.experiment.stream).gaps and kind(options).relays:
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
        if self.deploy.clock != "live" or alone.defence is not None:
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
            return f"Defence: {found.describe()}" + ("" if found.acts else ", as the file says")
        if self.masked:
            return "Defence: none, under masks the server sees no single upload"
        if self.deploy.clock == "live":
            name = self.world.methods[0].name
            return f"Defence: none, the server of {name} has no fold that one could change"
        return "Defence: none, the file has no table [defence]"

    def device(self, measured: bool = False) -> Method:
        """The method of a client, whose noise nobody else can compute."""
        method = self.method(measured)
        if self.experiment.privacy is None or not self.experiment.privacy.noisy:
            return method
        return start(self.world.methods[0], replace(method.task, secret=True))

    def method(self, measured: bool = False) -> Method:
        """The method, bound to run 0 of the experiment: a simulation of that run is its twin.

        Samples that are `measured`, as all are on the live clock, are checked even if the file does
        not say so; those of the experiment's own stream as it says, or the twins would differ.
        """
        return self._checking if measured or self.deploy.clock == "live" else self._method

    @cached_property
    def _method(self) -> Method:
        task = self.world.task(0, self.deploy.wire, self.deploy.clock == "live")
        return self.world.start(task)[0]

    @cached_property
    def _checking(self) -> Method:
        privacy = self.experiment.privacy  # a check that remembers would tell of samples
        if self.experiment.check is not None or (privacy and privacy.hides_samples):
            return self._method
        return start(self.world.methods[0], replace(self._method.task, check=outliers.Options()))

    def seated(self, seats: Seats, more: int = 0) -> Method:
        """The method of a server whose fleet has changed: clients are named by their seats.

        `more`: with so many more seats, which tells arrays over clients from others.
        """
        task = self._method.task
        ids = np.concatenate([np.maximum(seats.ids, 0), np.zeros(more, np.int64)])
        seeds = PlacedSeeds(task.seeds.seed, task.seeds.run, task.seeds.shared_world, ids)
        size, spare = task.cohorts.size, seats.spare
        fleet = FleetCohorts(task.seeds, task.clients, size, roster=seats, spare=spare)
        cohorts = SeatedCohorts((), task.clients, task.cohorts.size, fleet)
        task = replace(task, seeds=seeds, cohorts=cohorts, room=len(ids))
        return start(self.world.methods[0], self.world.beset(task))

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
        if not isinstance(task.cohorts, UniformCohorts) or type(task.cohorts) is not UniformCohorts:
            return "the stream says who is there in which round"
        if task.cohorts.absent:
            return "the file has clients that are absent"
        return ""

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
        return self.experiment.to_table() | {"deploy": schema.values(self.deploy)}

    def to_toml(self) -> str:
        """The file."""
        import tomli_w

        return tomli_w.dumps(self.to_table())

    def keep(self, disk: Disk) -> None:
        """Put the file beside the state, so that a model can be taken from there."""
        made = written(self.to_table)
        for name, data in {**made.sources, PLAN: made.toml.encode()}.items():
            if disk.read(name) != data:
                disk.write(f"{name}.new", data)
                disk.rename(f"{name}.new", name)

    @property
    def agreement(self) -> dict[str, Any]:
        """Rule 3: what must be the same at both ends."""
        return self._agreed(LATER)

    def _agreed(self, *came: Came) -> dict[str, Any]:
        ours = {"run": self.deploy.run, "clock": self.deploy.clock, "wire": self.deploy.wire}
        live, which = self.deploy.clock == "live", self.deploy.method or 0
        return {**ours, **agreed(self.experiment, which, live, came)}

    @cached_property
    def digest(self) -> int:
        """Rule 3: the four bytes that every message carries."""
        return wire.digest(self.agreement)

    @cached_property
    def digests(self) -> tuple[str, str]:
        """The digest as records have it, now and in the oldest ones."""
        old = wire.digest(self._agreed(LATER, EARLY))
        return f"{self.digest:08x}", f"{old:08x}"

    def about(self, role: str) -> dict[str, Any]:
        """What a state folder records about its run."""
        return {"run": self.deploy.run, "role": role, "digest": self.digests[0]}

    def store(self, disk: Disk, role: str, slots: tuple[str, str] = SLOTS) -> Store:
        """The records of one of the ends, in a state folder."""
        return Store(disk, self.about(role), slots, self.digests, lambda: self._unlike(disk))

    def _unlike(self, disk: Disk) -> str:
        """What differs between this file and the one beside a state, in words."""
        try:
            theirs = flat(tomllib.loads((disk.read(PLAN) or b"").decode()))
        except ValueError:
            return ""
        ours = flat(self.to_table())
        found = [
            f"{key} is {ours.get(key, 'not set')}, there {theirs.get(key, 'not set')}"
            for key in sorted(theirs.keys() | ours.keys())
            if ours.get(key) != theirs.get(key)
        ]
        hint = " (`psofed fleet add` brings in new clients)" if "clients" in ours else ""
        hint *= bool(theirs) and ours["clients"] != theirs.get("clients")
        return ", ".join(found[:NAMED]) + hint if theirs else ""


def read(path: str | Path) -> Deployment:
    """The plan in an experiment file; every mistake in it is an InputError that names it."""
    experiment = experiments.read(path)
    try:
        return Deployment(experiment, settings(path))
    except InputError as error:
        raise error.inside(where=str(path)) from None


def settings(path: str | Path) -> Deploy:
    """The table [deploy] of an experiment file."""
    table = experiments.load(path).get("deploy", {})
    try:
        deploy: Deploy = schema.build(Deploy, schema.convert("deploy", table, dict))
        return deploy
    except InputError as error:
        raise error if error.field == "deploy" else error.inside("deploy.") from None

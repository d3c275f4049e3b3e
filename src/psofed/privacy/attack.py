"""The attacks of an honest-but-curious server, by method. They get a view, and nothing else.

What is not attacked is not safe: nobody has tried here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from psofed.core.seeds import Seeds
from psofed.federation import schema
from psofed.federation.round import relays
from psofed.federation.stage import around
from psofed.methods import memofed
from psofed.privacy.inversion import Guess
from psofed.privacy.reconstruction import Reader, Recovered, common_models, labelled
from psofed.privacy.view import ServerView, decoded
from psofed.rivals import structured, topk
from psofed.stages.code import Coded
from psofed.streams import contract
from psofed.streams.contract import measured
from psofed.streams.synthetic import Autoregressive, Independent, Synthetic
from psofed.streams.table import Options as TableStream

Gauge = Literal["readable", "partly", "not by our attacks"]
EXAMPLES = 400  # inputs by which the server learns what inputs look like
MOST_OF = 0.9  # share of the samples: a method of which more are read is readable
FOLLOWED, SUMS, SENT = "following the model", "sums over cohorts", "samples are sent"
UNTRIED = "too few equations for the unknowns, or changes lost in the noise"


@dataclass(frozen=True)
class ReadColumn:
    """One input, or y: how far what was read is off, in the units of the table."""

    name: str
    error: float  # median of |read - true| over samples that were read
    spread: float  # standard deviation of the true values
    read: tuple[float, ...]  # some of those that were read
    true: tuple[float, ...]


@dataclass(frozen=True)
class MethodAudit:
    """What an honest-but-curious server reads of a method's messages."""

    title: str = ""
    name: str = ""
    attack: str = ""  # in words; empty: not attacked
    note: str = ""  # why it was not attacked, or what else is to be said
    read: float = 0.0  # share of samples whose x and y are both read
    inputs: float = 0.0  # share of samples whose x is read
    error: float = float("nan")  # median over those of the largest error of x, in deviations
    chance: float = 0.0  # `inputs` of a server that guesses the mean
    samples: int = 0
    contacts: int = 0
    equations: float = 0.0  # numbers that come up in a contact
    unknowns: float = 0.0  # numbers that are new to the server in a contact
    fresh: float = 0.0  # of the equations, those of one round's samples alone
    bytes_up: float = 0.0  # in a round
    columns: tuple[ReadColumn, ...] = ()
    searches: int = 0  # 0: what was seen left nothing to try

    @property
    def margin(self) -> float:
        """Equations over unknowns: from 1 on everything can be read, by the counting rule."""
        return self.equations / self.unknowns if self.unknowns else 0.0

    @property
    def gauge(self) -> Gauge:
        """In words."""
        if self.read >= MOST_OF:
            return "readable"
        return "partly" if self.inputs > 2 * self.chance else "not by our attacks"


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """What an attack found: samples by client (-1: of a cohort), and how much it had to go by."""

    counts: MethodAudit
    learned: dict[int, list[int]]  # by client, the rounds whose samples messages depend on
    samples: dict[int, list[Recovered]] = field(default_factory=dict)


def attack(
    view: ServerView, clients: Sequence[int],
    report: Callable[[int, int], None] = lambda done, of: None,
) -> Reconstruction:  # fmt: skip
    """The strongest attack that there is on the method of this view."""
    if relays(view.method):
        return _sent(view, clients)
    if why := not_attacked(view):
        return Reconstruction(MethodAudit(note=why), {k: _rounds(view, k) for k in clients})
    return _sums(view, report) if view.masked else _followed(view, clients, report)


def not_attacked(view: ServerView) -> str:
    """Why the messages of a method are not attacked here; empty if they are."""
    options = view.plan.world.methods[0]
    if isinstance(options, memofed.Options):
        return "the attack on its first uploads is in examples/first_upload.py"
    if any(isinstance(stage, Coded) for stage in around(view.method)):
        return "values in few bits are not followed"
    entries = topk.Options, structured.Options
    if isinstance(options, topk.Options) and 0 < options.memory < 1:
        return "what it remembers in part is not followed"
    if isinstance(options, structured.Options) and options.form != "mask":
        return "coordinates in a space of their own are not followed"
    if not schema.companion(options, "Method").entrywise and not isinstance(options, entries):
        return "there is no attack on its messages yet"
    if not view.method.task.learner.linear:
        return "its model is not linear in features"
    return ""


def _rounds(view: ServerView, k: int) -> list[int]:
    """The rounds whose samples client k has learned from by its last contact."""
    met = [contact.n for contact in view.of(k)]
    return list(range(met[-1] + 1)) if met and view.method.idle else met


def _sent(view: ServerView, clients: Sequence[int]) -> Reconstruction:
    """Clients send their samples: there is nothing to attack."""
    found: dict[int, list[Recovered]] = {k: [] for k in clients}
    for k in clients:
        for contact in view.of(k):
            values = view.method.decode(contact.up, up=True) if contact.up else np.empty(0)
            if len(values):
                found[k].append(Recovered(contact.n, values[:-1], 0.0, float(values[-1])))
    numbers = view.method.task.taps + 1.0
    counts = MethodAudit(
        attack=SENT, contacts=sum(len(view.of(k)) for k in clients), equations=numbers,
        unknowns=numbers, fresh=numbers,
    )  # fmt: skip
    return Reconstruction(counts, {k: [sample.n for sample in found[k]] for k in clients}, found)


def guess(view: ServerView) -> Guess:
    """What the server expects inputs to be: the public law, or for a table its scaling."""
    stream, plan = view.plan.experiment.stream, view.plan.experiment
    if measured(stream):
        return Guess()
    other = Seeds(plan.seed, 2**31)  # the law, not the clients of this run
    return Guess.of(contract.snapshot(stream, other, "guess", EXAMPLES, EXAMPLES).x)


def _delayed(view: ServerView) -> bool:
    """Whether consecutive inputs are windows of one series, so that a sample brings one number."""
    stream = view.plan.experiment.stream
    source = stream.source if isinstance(stream, Synthetic) else None
    return isinstance(source, Autoregressive) and not isinstance(source, Independent)


def _followed(
    view: ServerView, clients: Sequence[int], report: Callable[[int, int], None]
) -> Reconstruction:
    """Each client by itself, from its first contact on."""
    prior, line, method, stream = guess(view), _delayed(view), view.method, view.plan.experiment
    # A table has a warm-up, as its file says, before clients learn.
    begin = stream.stream.first if isinstance(stream.stream, TableStream) else 0
    readers, samples = {}, {}
    total, done = sum(len(view.of(k)) for k in clients), 0
    for k in clients:
        # Whether nothing that came down is missing; in round 0 that is w_0, as it has.
        cohorts = method.task.cohorts
        known = not any(k in cohorts.cohort(n) for n in range(1, view.first))
        luck = Seeds(0).generator("audit", client=k)
        readers[k] = Reader(method, prior, luck, line, known, begin=begin)
        met = [decoded(method, contact, masked=False) for contact in view.of(k)]
        for exchanged in met:
            readers[k].meet(exchanged)
            done += 1
            report(done, total)
        models = common_models(view, [each.n for each in met])
        samples[k] = labelled(view, readers[k], met, models)
    return _reconstruction(FOLLOWED, samples, readers, total)


def _sums(view: ServerView, report: Callable[[int, int], None]) -> Reconstruction:
    """A cohort at once: of its sums, each client adds one term to each round's."""
    method, size = view.method, view.method.task.cohorts.size
    everyone = size == method.task.clients and view.first <= 1
    reader = Reader(method, guess(view), Seeds(0).generator("audit"), known=everyone, count=size)
    met, models = [], common_models(view, [each.n for each in view.contacts])
    for i, contact in enumerate(view.contacts):
        try:
            met.append(decoded(method, contact, masked=True))
        except ValueError:  # masks that do not cancel: somebody of the cohort is missing
            continue
        reader.meet(met[-1])
        report(i + 1, len(view.contacts))
        if not everyone:
            reader.against(met[-1], models[contact.n])
            reader.track.value[:] = np.nan  # the next cohort is another one
    samples = labelled(view, reader, met, models)
    found = _reconstruction(SUMS, {-1: samples}, {-1: reader}, len(met))
    members = {k for contact in view.contacts for k in contact.clients}
    return replace(found, learned={k: _rounds(view, k) for k in members})


def _reconstruction(
    name: str, samples: dict[int, list[Recovered]], readers: dict[int, Reader], contacts: int
) -> Reconstruction:
    each = max(contacts, 1)
    equations, unknowns = (np.sum([r.counted for r in readers.values()], axis=0) / each).tolist()
    fresh, searches, blind = (
        sum(getattr(reader, key) for reader in readers.values())
        for key in ("fresh", "searches", "blind")
    )
    rounds = {k: [s // r.count for s in r.slots] for k, r in readers.items()}
    learned = {k: [n for n in found if n <= readers[k].last] for k, found in rounds.items()}
    if not equations and not blind:
        return Reconstruction(MethodAudit(note="nothing has come up in these rounds"), learned)
    note = "" if searches else f"{UNTRIED}; {blind} searches were made anyway"
    counts = MethodAudit(
        attack=name, note=note, contacts=contacts, equations=equations, unknowns=unknowns,
        fresh=fresh / each, searches=searches,
    )  # fmt: skip
    return Reconstruction(counts, learned, samples)

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
from psofed.privacy.view import Contact, ServerView, decoded
from psofed.rivals import structured, topk
from psofed.stages.code import Coded
from psofed.stages.privacy import Count
from psofed.streams import contract
from psofed.streams.contract import measured, origins
from psofed.streams.table import Options as TableStream

Gauge = Literal["readable", "partly", "determined", "not by our attacks", "closed"]
EXAMPLES = 400  # inputs by which the server learns what inputs look like
SOME = 0.01  # share of the samples that are determined: if none is, some seem to be, by the guess
MOST_OF = 0.9  # share of the samples: a method of which more are read is readable
EACH = -1  # whose samples in a sum are found is not known
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
    determined: float = float("nan")  # share whose x follows from the equations; NaN: not computed
    count: Count | None = None  # the counting rule, for this method
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
        if self.inputs > 2 * self.chance:
            return "partly"
        if self.determined > SOME:
            return "determined"
        closed = self.attack in (FOLLOWED, SUMS) and self.count is not None and self.count.closed
        return "closed" if closed else "not by our attacks"


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """What an attack found: samples by client (EACH: of any), and how much it had to go by."""

    counts: MethodAudit
    learned: dict[int, list[int]]  # by client, the rounds whose samples messages depend on
    samples: dict[int, list[Recovered]] = field(default_factory=dict)
    readers: list[Reader] = field(default_factory=list)  # with the equations that there were


def attack(
    view: ServerView, clients: Sequence[int],
    report: Callable[[int, int], None] = lambda done, of: None,
) -> Reconstruction:  # fmt: skip
    """The strongest attack that there is on the method of this view."""
    if relays(view.method):
        return _sent(view, clients)
    if why := not_attacked(view):
        return Reconstruction(MethodAudit(note=why), {k: _rounds(view, k) for k in clients})
    return _followed(view, clients, report)


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


def _followed(
    view: ServerView, clients: Sequence[int], report: Callable[[int, int], None]
) -> Reconstruction:
    """Each client by itself from its first contact on; of sums, all who are in them at once."""
    method, stream = view.method, view.plan.experiment.stream
    # A table has a warm-up, as its file says, before clients learn.
    begin = stream.first if isinstance(stream, TableStream) else 0
    # Whether nothing that came down is missing; in round 0 that is w_0, as it has.
    missed = {int(k) for n in range(1, view.first) for k in method.task.cohorts.cohort(n)}
    known = np.array([k not in missed for k in range(method.task.clients)])
    groups: dict[int, tuple[Contact, ...]] = {k: view.of(k) for k in clients}
    if view.masked:
        groups = {EACH: view.contacts}
    count = method.task.cohorts.size if view.masked else 1
    total, done = sum(map(len, groups.values())), 0
    readers, samples = {}, {}
    for key, contacts in groups.items():
        luck, met = Seeds(0).generator("audit", client=max(key, 0)), []
        reader = Reader(method, guess(view), luck, origins(stream), known, count, begin)
        for contact in contacts:
            done += 1
            try:
                met.append(decoded(method, contact, view.masked))
            except ValueError:  # masks that do not cancel: somebody of the cohort is missing
                met.append(decoded(method, replace(contact, up=b""), view.masked))
            reader.meet(met[-1])
            report(done, total)
        models = common_models(view, [each.n for each in met])
        samples[key], readers[key] = labelled(view, reader, met, models), reader
    name = SUMS if view.masked else FOLLOWED
    return _reconstruction(name, samples, list(readers.values()), total)


def _reconstruction(
    name: str, samples: dict[int, list[Recovered]], readers: list[Reader], contacts: int
) -> Reconstruction:
    each = max(contacts, 1)
    equations, unknowns, fresh, searches, blind = (
        sum(getattr(reader, key) for reader in readers)
        for key in ("equations", "unknowns", "fresh", "searches", "blind")
    )
    learned: dict[int, list[int]] = {}
    for reader in readers:
        for k, n in reader.slots:
            if n <= reader.last.get(k, -1):
                learned.setdefault(k, []).append(n)
    if not equations:
        return Reconstruction(MethodAudit(note="nothing has come up in these rounds"), learned)
    note = "" if searches else f"{UNTRIED}; {blind} searches were made anyway"
    counts = MethodAudit(
        attack=name, note=note, contacts=contacts, equations=equations / each,
        unknowns=unknowns / each, fresh=fresh / each, searches=searches,
    )  # fmt: skip
    return Reconstruction(counts, learned, samples, readers)

"""The attacks of a curious server, by method. They get a view, and nothing else.

What is not attacked is not safe: nobody has tried here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed import schema
from psofed.audit import memo
from psofed.audit.following import Exchanged, exchanges, of_total, window
from psofed.audit.inversion import invert
from psofed.audit.puzzle import Guess
from psofed.audit.reader import MOST, Reader, Recovered
from psofed.audit.server_view import ServerView
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.methods import memofed, structured, topk
from psofed.methods.wired import Coded
from psofed.streams import drawing
from psofed.streams.contract import measured
from psofed.streams.inputs import Autoregressive, Independent
from psofed.streams.synthetic import Synthetic
from psofed.streams.table import Options as TableStream

Array = NDArray[Any]
EXAMPLES = 400  # inputs by which the server learns what inputs look like
FOLLOWED, SUMS, SENT = "following the model", "sums over cohorts", "samples are sent"
FIRST = "first uploads"
UNTRIED = "too few equations for the unknowns, or changes lost in the noise"


@dataclass(frozen=True, eq=False)
class Spoils:
    """What an attack found: samples by client (-1: of a cohort), and how much it had to go by."""

    attack: str  # in words; empty: not attacked
    why: str  # it was not attacked, or what else is to be said
    samples: dict[int, list[Recovered]]
    learned: dict[int, list[int]]  # by client, the rounds whose samples messages depend on
    equations: float = 0.0  # by contact
    unknowns: float = 0.0
    fresh: float = 0.0  # equations of the newest sample alone, by contact
    contacts: int = 0
    searches: int = 0


def attack(
    view: ServerView, clients: Sequence[int],
    told: Callable[[int, int], None] = lambda done, of: None,
) -> Spoils:  # fmt: skip
    """The strongest attack that there is on the method of this view."""
    method = view.method
    if method.relays:
        return _sent(view, clients)
    if isinstance(method, memofed.Method):
        return _first_uploads(view, clients, told)
    if why := not_attacked(view):
        return Spoils("", why, {}, {k: _rounds(view, k) for k in clients})
    if view.plan.experiment.privacy is not None and view.plan.experiment.privacy.masks:
        return _sums(view, told)
    return _followed(view, clients, told)


def not_attacked(view: ServerView) -> str:
    """Why the messages of a method are not attacked here; empty: they are."""
    options = view.plan.world.methods[0]
    if isinstance(view.method, Coded):
        return "values in few bits are not followed"
    entries = topk.Options, structured.Options
    if isinstance(options, topk.Options) and 0 < options.memory < 1:
        return "what it remembers in part is not followed"
    if isinstance(options, structured.Options) and options.form != "mask":
        return "coordinates in a space of their own are not followed"
    if not schema.beside(options, "Method").entrywise and not isinstance(options, entries):
        return "there is no attack on its messages yet"
    if not view.method.task.learner.linear:
        return "its model is not linear in features"
    return ""


def _rounds(view: ServerView, k: int) -> list[int]:
    """The rounds whose samples client k has learned from by its last contact."""
    met = [contact.n for contact in view.of(k)]
    return list(range(met[-1] + 1)) if met and view.method.idle else met


def _sent(view: ServerView, clients: Sequence[int]) -> Spoils:
    """Clients send their samples: there is nothing to attack."""
    found: dict[int, list[Recovered]] = {k: [] for k in clients}
    for k in clients:
        for contact in view.of(k):
            values = view.method.decode(contact.up, up=True) if contact.up else np.empty(0)
            if len(values):
                found[k].append(Recovered(contact.n, values[:-1], 0.0, float(values[-1])))
    taps = view.method.task.taps
    count = sum(len(view.of(k)) for k in clients)
    rounds = {k: [sample.n for sample in found[k]] for k in clients}
    return Spoils(SENT, "", found, rounds, taps + 1.0, taps + 1.0, taps + 1.0, count)


def guess(view: ServerView) -> Guess:
    """What the server expects inputs to be: the public law, or for a table its scaling."""
    stream, plan = view.plan.experiment.stream, view.plan.experiment
    if measured(stream):
        return Guess()
    other = Seeds(plan.seed, 2**31)  # the law, not the clients of this run
    x = drawing.snapshot(stream, other, "guess", EXAMPLES, EXAMPLES).x
    return Guess.of(x)


def delayed(view: ServerView) -> bool:
    """Whether consecutive inputs are windows of one series, so that a sample brings one number."""
    stream = view.plan.experiment.stream
    source = stream.source if isinstance(stream, Synthetic) else None
    return isinstance(source, Autoregressive) and not isinstance(source, Independent)


def _followed(view: ServerView, clients: Sequence[int], told: Callable[[int, int], None]) -> Spoils:
    """Each client by itself, from its first contact on."""
    prior, line = guess(view), delayed(view)
    readers, samples = {}, {}
    total = sum(len(view.of(k)) for k in clients)
    done = 0
    for k in clients:
        luck = Seeds(0).generator("audit", client=k)
        known, begin = from_start(view, k), first_sample(view)
        readers[k] = Reader(view.method, prior, luck, line, known, begin=begin)
        met = exchanges(view, k)
        for exchanged in met:
            readers[k].meet(exchanged)
            done += 1
            told(done, total)
        samples[k] = labelled(view, readers[k], met, _common(view, [each.n for each in met]))
    return _spoils(FOLLOWED, samples, readers, {k: len(view.of(k)) for k in clients})


def from_start(view: ServerView, k: int) -> bool:
    """Whether nothing that came down to client k is missing; in round 0 that is w_0, as it has."""
    cohorts = view.method.task.cohorts
    return not any(k in cohorts.cohort(n) for n in range(1, view.first))


def first_sample(view: ServerView) -> int:
    """The first round in which clients learn: a table has a warm-up, as its file says."""
    stream = view.plan.experiment.stream
    return stream.first if isinstance(stream, TableStream) else 0


def _sums(view: ServerView, told: Callable[[int, int], None]) -> Spoils:
    """A cohort at once: of its sums, each client adds one term to each round's."""
    method, size = view.method, view.method.task.cohorts.size
    everyone = size == method.task.clients and view.first <= 1
    prior, luck = guess(view), Seeds(0).generator("audit")
    reader = Reader(method, prior, luck, known=everyone, count=size)
    met, models = [], _common(view, [total.n for total in view.totals])
    for i, total in enumerate(view.totals):
        try:
            met.append(of_total(view, total))
        except ValueError:  # masks that do not cancel: somebody of the cohort is missing
            continue
        reader.meet(met[-1])
        told(i + 1, len(view.totals))
        if not everyone:
            reader.against(met[-1], models[total.n])
            reader.track.value[:] = np.nan  # the next cohort is another one
    samples = labelled(view, reader, met, models)
    learned: dict[int, list[int]] = {}
    for total in view.totals:
        for k in total.clients:
            learned.setdefault(k, []).append(total.n)
    if method.idle:
        learned = {k: list(range(rounds[-1] + 1)) for k, rounds in learned.items()}
    found = _spoils(SUMS, {-1: samples}, {-1: reader}, {-1: len(met)})
    return replace(found, learned=learned)


def _first_uploads(
    view: ServerView, clients: Sequence[int], told: Callable[[int, int], None]
) -> Spoils:
    """MEMO-Fed: the first gradient and moments of each client, of all its samples so far."""
    method: Any = view.method
    samples: dict[int, list[Recovered]] = {k: [] for k in clients}
    counts: list[tuple[int, int, int]] = []  # equations, unknowns and samples
    for done, k in enumerate(clients):
        for contact in view.of(k):
            reference = np.zeros(method.size)
            down = method.decode(contact.down, up=False) if contact.down else np.empty(0)
            if len(down):
                reference = method.values.restore(down[1 : 1 + method.values.entries])
            try:
                posed = memo.puzzle(method, method.decode(contact.up, up=True), contact.n + 1)
            except (InputError, ValueError, IndexError):
                continue  # it had nothing to say yet
            counts.append((posed.equations, posed.unknowns, contact.n + 1))
            if contact.n + 1 <= MOST:
                found = invert(posed, Seeds(0).generator("audit", client=k))
                y = memo.labels(method, found.x, found.a, reference)
                each = method.options.inputs == "signal"
                samples[k] = [
                    Recovered(n, found.x[t], float(found.a[t]), float(y[t]))
                    for t in range(contact.n + 1)
                    for n in ([t] if each else range(contact.n + 1))
                ]
            break
        told(done + 1, len(clients))
    rounds = {k: _rounds(view, k) for k in clients}
    if not counts:
        return Spoils("", "no client has had anything to say yet", {}, rounds)
    equations, unknowns, count = np.mean(counts, axis=0).tolist()
    why = f"first uploads are of {count:.0f} samples on average, later ones are not attacked"
    return Spoils(FIRST, why, samples, rounds, equations, unknowns, 0.0, len(counts))


def _spoils(
    name: str, samples: dict[int, list[Recovered]], readers: dict[int, Reader],
    contacts: dict[int, int],
) -> Spoils:  # fmt: skip
    count = sum(contacts.values())
    each = max(count, 1)
    told = np.sum([reader.told for reader in readers.values()], axis=0)
    fresh = sum(reader.fresh for reader in readers.values())
    rounds = {k: [s // r.count for s in r.slots] for k, r in readers.items()}
    learned = {k: [n for n in found if n <= readers[k].last] for k, found in rounds.items()}
    equations, unknowns = (float(value / each) for value in told)
    searches = sum(reader.searches for reader in readers.values())
    blind = sum(reader.blind for reader in readers.values())
    if not equations and not blind:
        return Spoils("", "nothing has come up in these rounds", {}, learned)
    why = "" if searches else f"{UNTRIED}; {blind} searches were made all the same"
    return Spoils(name, why, samples, learned, equations, unknowns, fresh / each, count, searches)


def _common(view: ServerView, rounds: Sequence[int]) -> dict[int, Array]:
    """The global model at these rounds, as far as it has gone down to anybody."""
    method, wanted = view.method, set(rounds)
    w = np.asarray(method.task.initial(), np.float64)
    found: dict[int, Array] = {}
    sent = [(c.n, c.client, c.down) for c in view.contacts]
    sent += [(t.n, t.clients[0], t.down) for t in view.totals]
    for n, k, down in sent:
        values = method.decode(down, up=False) if down else np.empty(0)
        entries = window(method, k, n, False)
        if len(values) == len(entries):
            w[entries] = values
        if n in wanted:
            found[n] = w.copy()
    return found


def labelled(
    view: ServerView, reader: Reader, met: list[Exchanged], common: dict[int, Array]
) -> list[Recovered]:
    """The samples with their y = e + w^T z: by the client's model, followed along.

    Entries of which nothing is known since some sample are taken from the global model.
    """
    method, count = view.method, reader.count
    learner, mu = method.task.learner, method.step
    w = np.asarray(method.task.initial(), np.float64)
    stale = np.full(len(w), not reader.known)
    by_round, now = {each.n: each for each in met}, w.copy()
    samples: list[Recovered] = []
    for n in dict.fromkeys(slot // count for slot in reader.slots):
        here = by_round.get(n)
        if here is not None:
            w[here.down], stale[here.down] = here.before / count, False
            now = common.get(n, now)
        slots = [n * count + m for m in range(count)]
        step = np.zeros_like(w)
        for slot in slots:
            sample = reader.found.get(slot)
            if sample is None or not sample.a:
                sample = reader.hints.get(slot)
            if sample is None or not sample.a:
                continue
            z = np.asarray(method.task.features(sample.x[None].astype(method.task.dtype))[0])
            z = z.astype(np.float64)
            unit = np.zeros_like(w)
            learner.learn(unit, z, np.float64(1.0), mu)
            gain = float(unit @ z / max(z @ z, 1e-300))
            y = sample.a / gain + float(np.where(stale, now, w) @ z)
            samples.append(replace(sample, y=y))
            step += sample.a * z / count
        w += step
        if any(slot not in reader.found for slot in slots):
            stale[:] = True
        if here is not None and not here.owed:
            w[here.up], stale[here.up] = here.after / count, False
    return samples

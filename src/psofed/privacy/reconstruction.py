"""Reconstruction of samples from what is known of clients: equations, from the newest back.

A sample that has been read is subtracted from all equations that it is in, so that later windows,
which still hold older samples, tell about the rest. Of a sum over c clients each round has c
samples, and what one round leaves open, several rounds together determine: consecutive inputs of a
delay line share all but one number, so that a round more brings M equations and 2 c unknowns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from psofed.federation.contract import Array, Method
from psofed.privacy import inversion
from psofed.privacy.inversion import Guess, InverseProblem, Inversion, invert, pose
from psofed.privacy.view import Equations, Exchanged, ServerView, Track, window
from psofed.streams.contract import Origin

Slot = tuple[int, int]  # a client and the round of one of its samples
SPARE = 1  # equations beyond the unknowns, at least: with fewer, anything fits
MOST, JOINT = 12, 4  # samples that are looked for at once, and rounds of a sum
SURE, SURER = 4, 25  # decades: a fit within the noise, or beyond it, that is no chance
AMPLE = 2  # equations of sums for an unknown, beyond which a fit beyond the noise is believed
SMALL = 1e-3  # of the size of a change: more may not be left of it
TRIES = 2  # sets of samples that are looked for after a contact
STARTS, BATCHES, MANY = 48, 2, 4  # of more samples than MOST, many starts end in valleys
NOTHING = 1.3  # times the noise: a smaller change is none
NEAR = 0.1  # farther a solution does not move when all inputs are free
SLOPE = 0.2  # of features, about: how much they change with inputs, over their size
LARGEST = 10  # samples of a search that no count justifies
KEPT = 4000  # equations that are remembered
BLIND, FEW = 8, 10  # searches that no count justifies, and their samples (or c), at most


@dataclass(frozen=True, eq=False)
class Recovered:
    """One sample, as the server reads it: of round n, with a = mu e."""

    n: int
    x: Array
    a: float
    y: float = float("nan")
    unsure: float = 0.0  # deviation of its inputs, in units of what was guessed of them


class Reader:
    """The attack on one client, or on all of whom sums are known, contact by contact."""

    def __init__(
        self, method: Method, guess: Guess, luck: np.random.Generator,
        origins: Sequence[Origin], known: Array, count: int = 1, begin: int = 0,
    ) -> None:  # fmt: skip
        """`origins`: what each input measures, and so many rounds ago; `known`: see `Track`."""
        self.method, self.guess, self.luck = method, guess, luck
        self.origins, self.count, self.known = origins, count, known
        self.track = Track(method, known, count)
        self.features = method.task.features
        self.slots: list[Slot] = []  # samples that have been learned
        self.last: dict[int, int] = {}  # by client, the last round in which anything came up
        self.found: dict[Slot, Recovered] = {}
        self.hints: dict[Slot, Recovered] = {}  # fits that are not the only ones
        self.received: Equations | None = None  # all equations, as they came
        self.unknowns = 0  # in all samples so far
        self.searches = 0  # none is made where there are too few equations, or noise alone
        self.blind = 0  # but for a few of these, to see whether that is right
        self.fresh = 0  # equations of one round's samples alone
        self._next = dict.fromkeys(range(len(known)), begin)  # whose sample may be new
        self._named: set[Any] = set()
        self._inputs: dict[Any, float] = {}
        self._failed: dict[Slot, int] = {}  # by the first sample looked for: equations, in vain

    def meet(self, exchanged: Exchanged) -> None:
        """One more contact."""
        n, new = exchanged.n, []
        for k in exchanged.who:
            rounds = range(self._next[k], n + 1) if self.method.idle else [n]
            new += [(k, r) for r in rounds]
            self._next[k] = n + 1
        self.slots += sorted(new, key=lambda slot: slot[1])
        fresh = self.track.meet(exchanged)
        keys = {key for slot in new for key in self._keys(slot)}
        self.unknowns += len(keys - self._named) + len(new)
        self._named |= keys
        if not len(fresh):
            return
        self.last |= dict.fromkeys(exchanged.who, n)
        self.fresh += int((fresh.since == n - 1).all(axis=1).sum())
        self.received = fresh if self.received is None else self.received.and_these(fresh)
        before = self.searches
        self._solve()
        if self.searches == before and self.blind < BLIND:
            self._best_fit(new, self._rest(fresh))

    @property
    def equations(self) -> int:
        """So far."""
        return 0 if self.received is None else len(self.received)

    def _best_fit(self, new: list[Slot], rows: Equations) -> None:
        """Too few equations for a certain solution; the best fit is reported anyway."""
        newest = sorted({r for _, r in new})[-max(FEW // self.count, 1) :]
        wanted = [slot for slot in new if slot[1] in newest]
        if len(wanted) > LARGEST:
            return
        self.blind += 1
        found = self._inverted(wanted, rows, {})
        for t, slot in enumerate(wanted):
            self.hints[slot] = Recovered(slot[1], found.x[t], float(found.a[t]))

    def _rest(self, rows: Equations, but: Collection[Slot] = ()) -> Equations:
        """What is left of these changes without the samples that are known, and how surely."""
        known = [s for s in self.found if s not in but and self.found[s].a]
        if not known:
            return rows
        x = np.array([self.found[s].x for s in known]).astype(self.method.task.dtype)
        a, unsure = np.array([(self.found[s].a, self.found[s].unsure) for s in known]).T
        z = np.asarray(self.features(x), np.float64)
        off = SLOPE * a * np.sqrt(np.square(z).mean(axis=1)) * unsure
        inside = rows.holding(*np.array(known).T)
        change = rows.change - np.vecdot(inside, (a[:, None] * z)[:, rows.entry].T)
        return replace(rows, change=change, noise=np.hypot(rows.noise, np.sqrt(inside @ off**2)))

    def _solve(self) -> None:
        """Look for the newest samples first, then for more and more of those before them."""
        assert self.received is not None
        received, tries, again = self.received[-KEPT:], 0, True
        while again and tries < TRIES:
            rows, unread, again = self._rest(received), self._unread(), False
            oldest = _oldest(rows, unread)
            for since in np.unique(oldest[oldest >= 0])[::-1]:
                chosen = rows[oldest >= since]
                wanted = _within(chosen, unread)
                if len(wanted) > self.most:
                    return
                if len(chosen) < self._free(wanted) + SPARE:
                    continue
                if len(chosen) > self._failed.get(wanted[0], 0):
                    tries, again = tries + 1, True
                    self._failed[wanted[0]] = 0 if self._look(wanted, chosen) else len(chosen)
                    break

    def _unread(self) -> dict[int, Array]:
        """By client, the rounds of the samples that are not known."""
        found: dict[int, list[int]] = {}
        for k, n in self.slots:
            if (k, n) not in self.found:
                found.setdefault(k, []).append(n)
        return {k: np.array(rounds) for k, rounds in found.items()}

    def _free(self, wanted: list[Slot]) -> int:
        keys = {key for s in wanted for key in self._keys(s)}
        return len(keys - self._inputs.keys()) + len(wanted)

    def _keys(self, slot: Slot) -> list[Any]:
        """The inputs of a sample by name: in a delay line, consecutive samples share some."""
        k, n = slot
        return [(k, name, n - (lag or 0)) for name, lag in self.origins]

    def _look(self, wanted: list[Slot], rows: Equations) -> bool:
        """Look for these samples in these equations; whether that fits, and nothing else does."""
        size = np.sqrt(np.square(rows.change / rows.noise).mean())
        if size <= NOTHING:  # there was no sample, or it is lost in the noise
            nothing = np.zeros(self.method.task.taps)
            self.found |= {s: Recovered(s[1], nothing, 0.0) for s in wanted}
            return True
        self.searches += 1
        found = self._inverted(wanted, rows, self._inputs)
        sure, slots = no_chance(found, rows, self._free(wanted)), wanted
        if self._inputs.keys() & self.names(wanted):
            slots, rows, found = self._jointly(wanted, found)
            free = len(self.names(slots)) + len(slots)
            sure = no_chance(found, rows, free)
            if not sure and len(rows) >= free + SPARE and len(slots) <= self.most:
                found = self._inverted(slots, rows, {})  # an older sample may have been misread
                sure = no_chance(found, rows, free)
        if not sure:
            return False
        for t, slot in enumerate(slots):
            unsure = float(found.spread[t])
            sample = Recovered(slot[1], found.x[t], float(found.a[t]), unsure=unsure)
            self.hints[slot] = sample
            if not found.rivals:
                self.found[slot] = sample
                self._inputs |= dict(zip(self._keys(slot), found.x[t].tolist(), strict=True))
        return not found.rivals

    def _jointly(
        self, wanted: list[Slot], found: Inversion
    ) -> tuple[list[Slot], Equations, Inversion]:
        """With the samples of the last rounds: what was known of their inputs need not be exact."""
        assert self.received is not None
        known = sorted((s for s in self.found if self.found[s].a), key=lambda s: s[1])
        slots = [*known[-2 * self.most :], *wanted]
        unread = {k: np.array(sorted(set(n.tolist()) - {r for i, r in wanted if i == k}))
                  for k, n in self._unread().items()}  # fmt: skip
        rows = self.received[-KEPT:]
        rows = rows[(_oldest(rows, unread) < 0) & rows.holding(*np.array(slots).T).any(axis=1)]
        rows = self._rest(rows, slots)
        here, new = self.names(slots), self.names(wanted)
        u = np.array([[self._inputs.get(key, 0.0) for key in here]] * len(found.ends))
        u[:, [here[key] for key in new]] = found.ends
        problem = self.posed(slots, rows, {})
        with np.errstate(all="ignore"):
            return slots, rows, inversion.refined(problem, u)

    def posed(
        self, wanted: list[Slot], rows: Equations, inputs: dict[Any, float]
    ) -> InverseProblem:
        """These samples in these equations, as a problem; some inputs may be known."""
        names = self.names(wanted)
        layout = np.array([[names[key] for key in self._keys(s)] for s in wanted])
        known = np.array([inputs.get(key, np.nan) for key in names])
        terms = rows.holding(*np.array(wanted).T)
        return pose(
            self.features, rows.entry, rows.change, layout, self.guess, rows.noise, terms, known
        )

    def names(self, slots: list[Slot]) -> dict[Any, int]:
        """The inputs of some samples, each once."""
        return {
            key: i for i, key in enumerate(dict.fromkeys(k for s in slots for k in self._keys(s)))
        }

    def _inverted(self, wanted: list[Slot], rows: Equations, inputs: dict[Any, float]) -> Inversion:
        batches = BATCHES if len(wanted) <= MOST else MANY
        with np.errstate(all="ignore"):
            return invert(self.posed(wanted, rows, inputs), self.luck, STARTS, batches)

    @property
    def most(self) -> int:
        """Samples that are looked for at once."""
        return max(MOST, JOINT * self.count)


def no_chance(found: Inversion, rows: Equations, unknowns: int) -> bool:
    """Whether so good a fit cannot be chance, even if there is more noise than was reckoned with.

    Each equation beyond the unknowns is met by chance with a probability of about what is left of
    it over its size.
    """
    size = np.sqrt(np.square(rows.change / rows.noise).mean())
    share = max(found.misfit, 1.0) / max(size, 1e-300)
    decades = (len(rows) - unknowns) * -np.log10(min(share, 1.0))
    if found.fits:
        return bool(decades >= SURE)
    # Of many clients' unknowns, a search may end in a valley that is no solution.
    ample = rows.who.shape[1] == 1 or len(rows) >= AMPLE * unknowns
    return bool(ample and decades >= SURER and share < SMALL)


def _oldest(rows: Equations, unread: dict[int, Array]) -> Array:
    """The oldest round of an unread sample in each equation [E]; -1: there is none."""
    far = np.iinfo(np.int64).max
    oldest = np.full(len(rows), far)
    for k, rounds in unread.items():
        here, place = np.nonzero(rows.who == k)
        at = np.searchsorted(rounds, rows.since[here, place], "right")
        first = np.append(rounds, far)[at]
        inside = first <= rows.until[here]
        oldest[here[inside]] = np.minimum(oldest[here], first)[inside]
    return np.where(oldest == far, -1, oldest)


def _within(rows: Equations, unread: dict[int, Array]) -> list[Slot]:
    """The unread samples that are in any of these equations, oldest first."""
    found: list[Slot] = []
    for k, rounds in unread.items():
        here, place = np.nonzero(rows.who == k)
        if len(here):
            since, until = rows.since[here, place].min(), rows.until[here].max()
            found += [(k, n) for n in rounds[(rounds > since) & (rounds <= until)].tolist()]
    return sorted(found, key=lambda slot: slot[1])


def common_models(view: ServerView, rounds: Sequence[int]) -> dict[int, Array]:
    """The global model at these rounds, as far as it has gone down to anybody."""
    method, wanted = view.method, set(rounds)
    w = np.asarray(method.task.initial(), np.float64)
    found: dict[int, Array] = {}
    for each in view.contacts:
        values = method.decode(each.down, up=False) if each.down else np.empty(0)
        entries = window(method, each.clients[0], each.n, False)
        if len(values) == len(entries):
            w[entries] = values
        if each.n in wanted:
            found[each.n] = w.copy()
    return found


def labelled(
    view: ServerView, reader: Reader, met: list[Exchanged], common: dict[int, Array]
) -> list[Recovered]:
    """The samples with their y = e + w^T z: by the clients' models, followed along.

    Entries of which nothing is known since some sample are taken from the global model.
    """
    method, count = view.method, reader.count
    learner, mu = method.task.learner, method.step
    # Whose sample of a sum is whose is known only if they have something in common with others.
    mixed = count > 1 and not any(lag for _, lag in reader.origins)
    now = np.asarray(method.task.initial(), np.float64)
    w = np.tile(now, (len(reader.known), 1))
    stale = np.repeat(~reader.known[:, None], len(now), axis=1)
    by_round = {each.n: each for each in met}
    due: dict[int, list[int]] = {}
    for k, n in reader.slots:
        due.setdefault(n, []).append(k)
    samples: list[Recovered] = []
    for n in sorted(due.keys() | by_round.keys()):
        here, clients = by_round.get(n), due.get(n, [])
        if here is not None:
            place = np.ix_(np.array(here.who), here.down)
            w[place], stale[place] = here.before, False
            now = common.get(n, now)
        for k in clients:
            sample = _read(reader, (k, n))
            if sample is None or (k, n) not in reader.found:
                stale[k] = True
            if sample is None:
                continue
            z = np.asarray(method.task.features(sample.x[None].astype(method.task.dtype))[0])
            z = z.astype(np.float64)
            unit = np.zeros_like(now)
            learner.learn(unit, z, np.float64(1.0), mu)
            gain = float(unit @ z / max(z @ z, 1e-300))
            y = sample.a / gain + float(np.where(stale[k], now, w[k]) @ z)
            samples.append(replace(sample, y=y))
            step = sample.a * z
            w[clients if mixed else k] += step / (len(clients) if mixed else 1)
        if here is not None and not here.owed and len(here.who) == 1:
            k = here.who[0]
            w[k, here.up], stale[k, here.up] = here.after, False
    return samples


def _read(reader: Reader, slot: Slot) -> Recovered | None:
    """What was found of a sample, or else its best fit."""
    for found in (reader.found, reader.hints):
        if slot in found and found[slot].a:
            return found[slot]
    return None

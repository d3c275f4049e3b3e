"""Reconstruction of samples from what is known of a client: its equations, from the newest back.

A sample that has been read is subtracted from all equations that it is in, so that later windows,
which still hold older samples, tell about the rest. Of a sum over c clients each round has c
samples instead of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from psofed.federation.contract import Array, Method
from psofed.privacy import inversion
from psofed.privacy.inversion import Guess, InverseProblem, Inversion, invert, pose
from psofed.privacy.view import Column, Exchanged, ServerView, Track, window

SPARE = 1  # equations beyond the unknowns, at least: with fewer, anything fits
MOST = 12  # samples that are looked for at once
SURE, SURER = 4, 25  # decades: a fit within the noise, or beyond it, that is no chance
SMALL = 1e-3  # of the size of a change: more may not be left of it
TRIES = 2  # sets of samples that are looked for after a contact
STARTS, BATCHES = 48, 2
NOTHING = 1.3  # times the noise: a smaller change is none
NEAR = 0.1  # farther a solution does not move when all inputs are free
SLOPE = 0.2  # of features, about: how much they change with inputs, over their size
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
    """The attack on one client, or on a cohort of which sums are known, contact by contact."""

    def __init__(
        self, method: Method, guess: Guess, luck: np.random.Generator, delayed: bool = False,
        known: bool = True, count: int = 1, begin: int = 0,
    ) -> None:  # fmt: skip
        self.method, self.guess, self.luck = method, guess, luck
        self.delayed, self.count = delayed and count == 1, count
        self.known = known  # whether its model is known at the start
        self.track = Track(method, known, count)
        self.features = method.task.features
        self.slots: list[int] = []  # samples that have been learned, c for each round
        self.found: dict[int, Recovered] = {}
        self.hints: dict[int, Recovered] = {}  # fits that are not the only ones
        self.counted = 0, 0  # equations and unknowns so far
        self.searches = 0  # none is made where there are too few equations, or noise alone
        self.blind = 0  # but for a few of these, to see whether that is right
        self.last = -1  # the last round in which anything came up: it tells of no later sample
        self.fresh = 0  # equations of one sample alone
        self._next = begin  # the first round whose sample may be new
        self._named: set[Any] = set()
        self._inputs: dict[Any, float] = {}
        self._rows = np.empty((0, 5))  # equations, with what is left of the change
        self._failed: dict[int, int] = {}  # by the oldest sample looked for: equations, in vain

    def meet(self, exchanged: Exchanged) -> None:
        """One more contact."""
        n = exchanged.n
        rounds = range(self._next, n + 1) if self.method.idle else [n]
        self._next = n + 1
        new = [r * self.count + m for r in rounds for m in range(self.count)]
        self.slots += new
        fresh = self.track.meet(exchanged)
        keys = {key for slot in new for key in self._keys(slot)}
        unknown = len(keys - self._named) + len(new)
        self._named |= keys
        self.counted = self.counted[0] + len(fresh), self.counted[1] + unknown
        self.fresh += int((fresh[:, Column.SINCE] == n - 1).sum())
        if not len(fresh):
            return
        self.last = n
        for sample in self.found.values():
            self._subtract(fresh, sample)
        self._rows = np.vstack([self._rows, fresh])[-KEPT:]
        before = self.searches
        self._solve()
        if self.searches == before and self.blind < BLIND:
            self._best_fit(new, fresh)

    def against(self, exchanged: Exchanged, w: Array) -> None:
        """A sum whose members' models are not known: the best fit is reported anyway."""
        if self.blind < BLIND and not self.found:
            new = [exchanged.n * self.count + m for m in range(self.count)]
            self._best_fit(new, self.track.against(exchanged, w, self.count))

    def _best_fit(self, new: list[int], rows: Array) -> None:
        """Too few equations for a certain solution; the best fit is reported anyway."""
        wanted = new[-max(FEW // self.count, 1) * self.count :]
        if wanted and len(rows):
            self.blind += 1
            found = self._inverted(wanted, rows, {})
            for t, slot in enumerate(wanted):
                self.hints[slot] = Recovered(slot // self.count, found.x[t], float(found.a[t]))

    def _subtract(self, rows: Array, sample: Recovered) -> None:
        """Without what a sample has added to each of these equations, as far as that is known."""
        inside = (rows[:, Column.SINCE] < sample.n) & (sample.n <= rows[:, Column.UNTIL])
        if not inside.any() or not sample.a:
            return
        z = self.features(sample.x[None].astype(self.method.task.dtype))[0].astype(np.float64)
        rows[inside, Column.CHANGE] -= sample.a * z[rows[inside, Column.ENTRY].astype(int)]
        off = SLOPE * sample.a * np.sqrt(np.square(z).mean()) * sample.unsure
        rows[inside, Column.NOISE] = np.hypot(rows[inside, Column.NOISE], off)

    def _solve(self) -> None:
        """Look for the newest samples first, then for more and more of those before them."""
        tries = 0
        for since in np.unique(self._rows[:, Column.SINCE])[::-1].tolist():
            wanted = [s for s in self.slots if s // self.count > since and s not in self.found]
            if len(wanted) > max(MOST, self.count) or tries >= TRIES:
                return
            rows = self._about(wanted, int(since))
            if not len(rows) or len(rows) <= self._failed.get(wanted[0], 0):
                continue
            if len(rows) >= self._unknowns(wanted) + SPARE:
                tries += 1
                self._failed[wanted[0]] = 0 if self._look(wanted, rows) else len(rows)

    def _about(self, wanted: list[int], since: int) -> Array:
        """The equations in which of all unread samples only these are."""
        if not wanted:
            return self._rows[:0]
        unread = [s // self.count for s in self.slots if s not in self.found]
        before = np.array([r for r in unread if r <= since])
        rows = self._rows
        older = np.searchsorted(before, rows[:, Column.SINCE], "right")
        others = np.searchsorted(before, rows[:, Column.UNTIL], "right") - older
        rounds = np.array(wanted) // self.count
        ours = contained(rounds, rows).any(axis=1)
        return rows[(others == 0) & ours]

    def _unknowns(self, wanted: list[int]) -> int:
        keys = {key for s in wanted for key in self._keys(s)}
        return len(keys - self._inputs.keys()) + len(wanted)

    def _keys(self, slot: int) -> list[Any]:
        """The inputs of a sample by name: in a delay line, consecutive samples share some."""
        taps = range(self.method.task.taps)
        return [slot - tap if self.delayed else (slot, tap) for tap in taps]

    def _look(self, wanted: list[int], rows: Array) -> bool:
        """Look for these samples in these equations; whether that fits, and nothing else does."""
        size = np.sqrt(np.square(rows[:, Column.CHANGE] / rows[:, Column.NOISE]).mean())
        if size <= NOTHING:  # there was no sample, or it is lost in the noise
            nothing = np.zeros(self.method.task.taps)
            self.found |= {s: Recovered(s // self.count, nothing, 0.0) for s in wanted}
            return True
        self.searches += 1
        found = self._inverted(wanted, rows, self._inputs)
        sure = no_chance(found, rows, self._unknowns(wanted))
        free = len({key for s in wanted for key in self._keys(s)}) + len(wanted)
        if not sure and self._inputs and len(rows) >= free + SPARE:
            found = self._inverted(wanted, rows, {})  # an older sample may have been read wrongly
            sure = no_chance(found, rows, free)
        if not sure:
            return False
        for t, slot in enumerate(wanted):
            unsure = float(found.spread[t])
            sample = Recovered(slot // self.count, found.x[t], float(found.a[t]), unsure=unsure)
            self.hints[slot] = sample
            if found.rivals:
                continue
            self.found[slot] = sample
            self._inputs |= dict(zip(self._keys(slot), found.x[t].tolist(), strict=True))
            self._subtract(self._rows, sample)
        return not found.rivals

    def _inverted(self, wanted: list[int], rows: Array, inputs: dict[Any, float]) -> Inversion:
        names: dict[Any, int] = {}
        layout = np.array(
            [[names.setdefault(key, len(names)) for key in self._keys(s)] for s in wanted]
        )
        known = np.array([inputs.get(key, np.nan) for key in names])
        rounds = np.array(wanted) // self.count
        entries, change = rows[:, Column.ENTRY].astype(int), rows[:, Column.CHANGE]
        noise, terms = rows[:, Column.NOISE], contained(rounds, rows)
        problem = pose(self.features, entries, change, layout, self.guess, noise, terms, known)
        with np.errstate(all="ignore"):
            found = invert(problem, self.luck, STARTS, BATCHES)
            if np.isnan(known).all() or len(rows) < len(names) + len(wanted) + SPARE:
                return found
            return self._polished(found, replace(problem, known=np.full(len(names), np.nan)))

    def _polished(self, found: Inversion, problem: InverseProblem) -> Inversion:
        """From a solution on, with all inputs free: what was known of some need not be exact."""
        u = np.zeros(len(problem.known))
        u[problem.layout] = found.x
        point = inversion.search(problem, u[None])
        if point.misfit[0] > max(found.misfit, inversion.FIT):
            return found
        x, a, misfit = point.u[0][problem.layout], point.a[0], float(point.misfit[0])
        if np.abs(x - found.x).max() > NEAR:
            return found
        return replace(
            found, x=x, a=a, misfit=misfit, spread=inversion.spread(problem, point.u[0], a)
        )


def no_chance(found: Inversion, rows: Array, unknowns: int) -> bool:
    """Whether so good a fit cannot be chance, even if there is more noise than was reckoned with.

    Each equation beyond the unknowns is met by chance with a probability of about what is left of
    it over its size.
    """
    size = np.sqrt(np.square(rows[:, Column.CHANGE] / rows[:, Column.NOISE]).mean())
    share = max(found.misfit, 1.0) / max(size, 1e-300)
    decades = (len(rows) - unknowns) * -np.log10(min(share, 1.0))
    return bool(decades >= (SURE if found.fits else SURER) and (found.fits or share < SMALL))


def contained(rounds: Array, rows: Array) -> Array:
    """Which of these samples are in each equation [E, T]."""
    after: Array = rounds > rows[:, [Column.SINCE]]
    return after & (rounds <= rows[:, [Column.UNTIL]])


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

"""Reading samples out of what is known of a client: its equations, solved from the newest back.

A sample that has been read is subtracted from all equations that it is in, so that later windows,
which still hold older samples, tell about the rest. Of a sum over c clients each round has c
samples instead of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.audit.following import Exchanged, Track, rounding
from psofed.audit.inversion import FIT, Inversion, invert
from psofed.audit.puzzle import Guess, Window, pose
from psofed.methods.contract import Method

Array = NDArray[Any]
SPARE = 1  # equations beyond the unknowns, at least: with fewer, anything fits
MOST = 8  # samples that are looked for at once
TRIES = 2  # sets of samples that are looked for after a contact
STARTS, BATCHES = 48, 2
KEPT = 4000  # equations that are remembered


@dataclass(frozen=True, eq=False)
class Recovered:
    """One sample, as the server reads it: of round n, with a = mu e."""

    n: int
    x: Array
    a: float
    y: float = float("nan")


class Reader:
    """The attack on one client, or on a cohort of which sums are known, contact by contact."""

    def __init__(
        self, method: Method, guess: Guess, luck: np.random.Generator, delayed: bool = False,
        known: bool = True, count: int = 1, begin: int = 0,
    ) -> None:  # fmt: skip
        self.method, self.guess, self.luck = method, guess, luck
        self.delayed, self.count = delayed and count == 1, count
        self.known = known  # whether its model is known at the start
        self.track = Track(method, known, rounding(method), count)
        self.features = method.task.features
        self.slots: list[int] = []  # samples that have been learned, c for each round
        self.found: dict[int, Recovered] = {}
        self.hints: dict[int, Recovered] = {}  # fits that are not the only ones
        self.told = 0, 0  # equations and unknowns so far
        self.fresh = 0  # equations of one sample alone
        self._next = begin  # the first round whose sample may be new
        self._named: set[Any] = set()
        self._inputs: dict[Any, float] = {}
        self._rows = np.empty((0, 5))  # entry, since, n, what is left of the change, noise
        self._tried: tuple[int, int] = (0, 0)

    def meet(self, exchanged: Exchanged) -> None:
        """One more contact."""
        n = exchanged.n
        rounds = range(self._next, n + 1) if self.method.idle else [n]
        self._next = n + 1
        new = [r * self.count + m for r in rounds for m in range(self.count)]
        self.slots += new
        told = self.track.meet(exchanged)
        keys = {key for slot in new for key in self._keys(slot)}
        unknown = len(keys - self._named) + len(new)
        self._named |= keys
        self.told = self.told[0] + len(told.entries), self.told[1] + unknown
        self.fresh += int((told.since == n - 1).sum())
        if not len(told.entries):
            return
        columns = told.entries, told.since, np.full(len(told.entries), n), told.change, told.noise
        fresh = np.column_stack(columns)
        for slot in self.found.values():
            fresh[:, 3] -= self._share(fresh, slot)
        self._rows = np.vstack([self._rows, fresh])[-KEPT:]
        self._solve()

    def _share(self, rows: Array, sample: Recovered) -> Array:
        """What one sample has added to each of these equations."""
        inside = (rows[:, 1] < sample.n) & (sample.n <= rows[:, 2])
        z = np.zeros(len(rows))
        if inside.any():
            entries = rows[inside, 0].astype(int)
            z[inside] = self.features(sample.x[None].astype(self.method.task.dtype))[0, entries]
        return sample.a * z

    def _solve(self) -> None:
        """Look for the newest samples first, then for more and more of those before them."""
        tries = 0
        for since in np.unique(self._rows[:, 1])[::-1].tolist():
            wanted = [s for s in self.slots if s // self.count > since and s not in self.found]
            if len(wanted) > max(MOST, self.count) or tries >= TRIES:
                return
            rows = self._about(wanted, int(since))
            if not len(rows) or self._tried == (len(wanted), len(rows)):
                continue
            if len(rows) >= self._unknowns(wanted) + SPARE:
                tries += 1
                self._look(wanted, rows)

    def _about(self, wanted: list[int], since: int) -> Array:
        """The equations in which of all unread samples only these are."""
        if not wanted:
            return self._rows[:0]
        older = [s // self.count for s in self.slots if s not in self.found]
        before = np.array([r for r in older if r <= since])
        rows = self._rows
        others = np.searchsorted(before, rows[:, 2], "right") - np.searchsorted(
            before, rows[:, 1], "right"
        )
        rounds = np.array(wanted) // self.count
        ours = ((rounds > rows[:, 1:2]) & (rounds <= rows[:, 2:3])).any(axis=1)
        return rows[(others == 0) & ours]

    def _unknowns(self, wanted: list[int]) -> int:
        keys = {key for s in wanted for key in self._keys(s)}
        return len(keys - self._inputs.keys()) + len(wanted)

    def _keys(self, slot: int) -> list[Any]:
        """The inputs of a sample by name: in a delay line, consecutive samples share some."""
        taps = range(self.method.task.taps)
        return [slot - tap if self.delayed else (slot, tap) for tap in taps]

    def _look(self, wanted: list[int], rows: Array) -> None:
        if (np.abs(rows[:, 3]) <= FIT * rows[:, 4]).all():  # there was no sample, or none counted
            nothing = np.zeros(self.method.task.taps)
            self.found |= {s: Recovered(s // self.count, nothing, 0.0) for s in wanted}
            return
        found = self._inverted(wanted, rows, self._inputs)
        free = len({key for s in wanted for key in self._keys(s)}) + len(wanted)
        if not found.fits and self._inputs and len(rows) >= free + SPARE:
            found = self._inverted(wanted, rows, {})  # an older sample may have been read wrongly
        if not found.fits:
            return
        for t, slot in enumerate(wanted):
            sample = Recovered(slot // self.count, found.x[t], float(found.a[t]))
            self.hints[slot] = sample
            if found.rivals:
                continue
            self.found[slot] = sample
            self._inputs |= dict(zip(self._keys(slot), found.x[t].tolist(), strict=True))
            self._rows[:, 3] -= self._share(self._rows, sample)

    def _inverted(self, wanted: list[int], rows: Array, inputs: dict[Any, float]) -> Inversion:
        names: dict[Any, int] = {}
        layout = np.array(
            [[names.setdefault(key, len(names)) for key in self._keys(s)] for s in wanted]
        )
        known = np.array([inputs.get(key, np.nan) for key in names])
        if not np.isnan(known).any():
            known[-1] = np.nan  # a search needs something to search for
        rounds = np.array(wanted) // self.count
        uses = (rounds > rows[:, 1:2]) & (rounds <= rows[:, 2:3])
        window = Window(rows[:, 0].astype(int), rows[:, 3], uses, rows[:, 4])
        puzzle = pose(self.features, [window], layout, self.guess, known)
        with np.errstate(all="ignore"):
            return invert(puzzle, self.luck, STARTS, BATCHES)

"""Clients that come and go: when each is switched on, as a function of the seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed import schema
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.streams.contract import Samples
from psofed.streams.synthetic import Synthetic

Array = NDArray[Any]
TIMES = 64  # how long a client stays on and off, drawn at once


@dataclass(frozen=True, kw_only=True)
class Switching(Synthetic):
    """A stream whose clients are switched off and on again; what is off measures nothing.

    The times on and off are geometric: in every round a client goes or comes with the same
    probability, whatever was before.
    """

    away: float = 0.0  # share of the time that a client is off, on average
    stay: float = 100.0  # rounds that it stays on, on average
    late: int = 0  # the last round in which a client comes for the first time; all have even odds

    def check_ranges(self) -> None:
        """Refuse also shares and times that cannot be."""
        super().check_ranges()
        for key in ("away", "stay", "late"):
            schema.convert(key, getattr(self, key), int if key == "late" else float)
        if not 0 <= self.away < 1:
            raise InputError(
                "away", f"is {self.away}", "use a share of the time, from 0 to below 1"
            )
        if not 1 <= self.stay < np.inf:
            raise InputError("stay", f"is {self.stay}", "use 1 round or more")
        if self.away and self._off < 1:
            found = f"is {self.stay}: with away = {self.away} clients would be off for less than a"
            least = np.ceil((1 - self.away) / self.away)
            raise InputError("stay", f"{found} round at a time", f"use {least:.0f} or more")
        if self.late < 0:
            raise InputError("late", f"is {self.late}", "use the number of a round")

    @property
    def _off(self) -> float:
        """Rounds that a client stays off, on average."""
        return self.stay * self.away / (1 - self.away)

    @property
    def switches(self) -> bool:
        """Whether anybody is ever off."""
        return self.away > 0 or self.late > 0

    @property
    def gaps(self) -> bool:  # type: ignore[override]
        """Who is off has no sample."""
        return self.switches

    def to_table(self) -> dict[str, Any]:
        """What is set, as plain values; nothing about switching where all is on."""
        found = super().to_table()
        return found if self.switches else {k: v for k, v in found.items() if k not in SWITCHES}

    def awake(self, seeds: Seeds, clients: Array, first: int, stop: int) -> Array:
        """Whether each client is on in rounds first..stop-1: [client, round]."""
        rounds = np.arange(first, stop)
        on = np.ones((len(clients), len(rounds)), bool)
        if self.away:
            on = self._switched(seeds, clients, rounds)
        if self.late:
            u = seeds.uniforms("late", client=clients, count=1)
            on &= np.floor(u * (self.late + 1)) <= rounds
        return on

    def _switched(self, seeds: Seeds, clients: Array, rounds: Array) -> Array:
        on = seeds.uniforms("awake", client=clients, count=1) >= self.away  # as in the long run
        means = np.where(on, (self.stay, self._off), (self._off, self.stay))
        flips, end, part = np.zeros((len(clients), len(rounds)), np.intp), 0 * clients, 0
        stop = rounds[-1] + 1
        while (end < stop).any():  # each client's times, one after another
            u = seeds.uniforms("switch", client=clients, round=part, count=TIMES)
            times = end[:, None] + np.cumsum(geometric(u, np.tile(means, TIMES // 2)), axis=1)
            k, i = np.nonzero(times < stop)
            np.add.at(flips, (k, np.maximum(times[k, i] - rounds[0], 0)), 1)
            end, part = times[:, -1], part + 1
        return on ^ (np.cumsum(flips, axis=1) % 2 == 1)

    def samples(
        self, seeds: Seeds, clients: Array, first: int, stop: int, dtype: Any = np.float64,
        memory: Any = None,
    ) -> Samples:  # fmt: skip
        """Those of a client that is always on, without y where it is off."""
        found = super().samples(seeds, clients, first, stop, dtype, memory)
        if self.switches:
            found.noise[~self.awake(seeds, clients, first, stop)] = np.nan
        return found


SWITCHES = ("away", "stay", "late")


def geometric(u: Array, mean: Array) -> Array:
    """Numbers of rounds, 1 at least, of these means, from uniforms.

    >>> geometric(np.array([0.0, 0.6, 0.9]), np.array([2.0, 2.0, 1.0])).tolist()
    [1, 2, 1]
    """
    again = np.log1p(-1 / np.maximum(mean, 1 + 1e-12))
    return 1 + np.where(mean > 1, np.log1p(-u) / again, 0).astype(np.intp)

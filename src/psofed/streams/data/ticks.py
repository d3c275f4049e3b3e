"""Ticks: the rounds of a table's times, in seconds, by the calendar, or in a unit of their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from psofed.core.native import Array

DAY = 86400.0
YEAR = 365.2425 * DAY
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "day": DAY, "month": YEAR / 12, "year": YEAR}
MONTHS = {"month": 1, "year": 12}  # whose lengths in seconds differ
SHORTEST = 27 * DAY  # a month, or nearly
SPREAD = 0.12  # of a month: first and last working days are not always the same days
JITTER = 0.2  # of a tick: times that are off by less were meant to be on it
NEAR = 0.125  # of a tick: nearer to the border of two ticks, a time may fall into either
INTERVALS = 256  # of each client, from which the tick is guessed
PHASES = 8  # times of each client, from which the borders are
ROUND = (DAY, 3600.0, 900.0, 600.0, 300.0, 60.0, 30.0, 10.0, 5.0, 1.0, 0.1, 0.01)


@dataclass(frozen=True)
class Ticks:
    """The length of a round, and when round 0 is."""

    length: float  # in units
    unit: str  # empty: seconds if times are dates; nobody knows if they are numbers
    dates: bool  # whether times are seconds since 1970
    start: float = 0.0

    def __call__(self, times: Any) -> Array:
        """The rounds of these times: the nearest tick."""
        length, start = self.length, self.start
        if self.dates and self.unit in MONTHS:
            times, start = months(np.asarray(times)), float(months(np.array(start)))
            length *= MONTHS[self.unit]
        elif self.dates:
            length *= UNITS[self.unit or "s"]
        # Half a tick is always rounded up, so that no two in a row become one.
        return np.asarray(np.floor((times - start) / length + 0.5).astype(np.int64))

    @property
    def known_unit(self) -> str:
        """What the length counts; empty if nobody knows."""
        return self.unit or ("s" if self.dates else "")

    @property
    def days(self) -> float:
        """The length in days; NaN if nobody knows."""
        return self.length * UNITS.get(self.known_unit, float("nan")) / DAY

    def __str__(self) -> str:
        several = "s" if self.length != 1 and self.known_unit in ("day", *MONTHS) else ""
        return f"{self.length:g} {self.known_unit}{several}".strip()


def months(times: Array) -> Array:
    """Months since 1970, with the part of the month that has passed."""
    moments = np.rint(np.asarray(times) * 1e6).astype("datetime64[us]")
    month = moments.astype("datetime64[M]")
    begin, end = month.astype("datetime64[us]"), (month + 1).astype("datetime64[us]")
    return np.asarray(month.astype(np.int64) + (moments - begin) / (end - begin))


def guess(clients: Iterable[Array], dates: bool, start: float) -> Ticks:
    """From the first times of each client: the usual interval of the fastest one."""
    fastest, least, some = np.empty(0), np.inf, []
    for times in clients:
        some.append(times[:PHASES])
        if len(times) > 1 and (middle := float(np.median(np.diff(times)))) < least:
            fastest, least = times, middle
    if not len(fastest):
        return Ticks(1.0, "", dates, start)
    if dates and least >= SHORTEST and (count := _by_calendar(fastest)):
        return Ticks(float(count), "month", dates, start)
    length = _length(np.diff(fastest), least)
    return Ticks(length, "", dates, start + length * _shift(np.concatenate(some), start, length))


def _by_calendar(times: Array) -> int:
    """The usual interval in months, if times are on about the same day of their months; else 0."""
    position, gaps = months(times), np.diff(times)
    phase = (position - position[0] + 0.5) % 1 - 0.5
    day = times.astype("datetime64[s]").astype("datetime64[D]")
    of_month = day - day.astype("datetime64[M]").astype("datetime64[D]")
    fixed = (gaps == gaps[0]).all() and (of_month != of_month[0]).any()  # such as four weeks
    if np.ptp(phase) > SPREAD or fixed:
        return 0
    return int(np.rint(np.median(np.diff(position))))


def _length(gaps: Array, middle: float) -> float:
    """The median interval; where times are a little off their ticks, the one that all agree on.

    A tick that is wrong by a second would be off by an hour after 3600 rows.
    """
    steps = np.maximum(np.rint(gaps / middle), 1)
    off = np.abs(gaps - steps * middle)
    if np.mean(gaps == middle) > 0.5 or np.mean(off <= JITTER * middle) < 0.9:
        return middle
    good = off <= JITTER * middle
    mean = float(gaps[good].sum() / steps[good].sum())
    sure = 2 * float(off[good].max()) / int(steps[good].sum()) + 1e-6 * mean
    candidates = (float(np.rint(mean / unit)) * unit for unit in ROUND)
    return next((c for c in candidates if c > 0 and abs(c - mean) <= sure), mean)


def _shift(times: Array, start: float, length: float) -> float:
    """In ticks: by how much round 0 is moved, so that no client's times are at a border."""
    phase = np.unique((times - start) / length % 1)
    if not (np.abs(phase - 0.5) < NEAR).any():
        return 0.0
    gaps = np.diff(phase, append=phase[0] + 1)
    widest = int(np.argmax(gaps))
    return float((phase[widest] + gaps[widest] / 2) % 1 - 0.5)

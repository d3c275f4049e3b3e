"""How long a job still takes: arithmetic on times that it is given, without a clock of its own.

A job is a number of equal units (runs, rounds, steps), of which `workers` are in work at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

RECENT = 10.0  # seconds, or a third of the job so far: the units that ended in it tell the time,
LEAST = 10  # and at least so many of the last ones
ENOUGH = 0.05  # of a unit by each worker, to judge by parts while none is finished
MANY, MERGE = 200, 0.05  # if there are more, those that end within some seconds are one step


@dataclass(frozen=True)
class Standing:
    """Where a job stands."""

    done: int
    total: int | None  # None until it is known
    elapsed: float  # seconds since the job began
    left: float | None  # seconds; None if nothing is known yet
    rough: bool = False  # from first units, which also load and start things, or from parts

    def words(self, unit: str = "runs") -> str:
        """For a person.

        >>> Standing(100, 500, 20.0, 80.0).words()
        '100 of 500 runs, about 1 min 20 s left'
        >>> Standing(0, 500, 3.0, None).words()
        '0 of 500 runs, 3 s so far'
        """
        count = f"{self.done}" if self.total is None else f"{self.done} of {self.total}"
        if self.left is None:
            return f"{count} {unit}, {duration(self.elapsed)} so far"
        about = "roughly" if self.rough else "about"
        return f"{count} {unit}, {about} {duration(self.left)} left"


def duration(seconds: float | None) -> str:
    """A time as people say it, no finer than it is known.

    >>> [duration(s) for s in (0.2, 59.6, 154, 601, 5025, 200_000)]
    ['1 s', '1 min', '2 min 35 s', '10 min', '1 h 25 min', '2 d 7 h']
    """
    if seconds is None:
        return "?"
    whole = max(round(seconds), 1)
    whole = whole if whole < 60 else round(whole / 5) * 5
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return _two(whole, 60, "min", "s")
    minutes = round(whole / 60)
    if minutes < 60:
        return f"{minutes} min"
    return _two(round(minutes / 5) * 5 if minutes < 1440 else minutes, 60, "h", "min", days=True)


def _two(whole: int, size: int, large: str, small: str, days: bool = False) -> str:
    many, few = divmod(whole, size)
    if days and many >= 48:
        return _two(many, 24, "d", "h")
    return f"{many} {large}" + (f" {few} {small}" if few else "")


class Pace:
    """The time left of a job, from its last units only.

    `already` units were finished before the job began.
    The time of a unit is that between its end and the end of the one that was `workers` before it:
    with two workers whose units end together, every other one would seem to take no time. Where
    many units end together, `by_parts`, the work on all of them is what counts.

    >>> pace = Pace(0.0, workers=2, total=6)
    >>> pace.advance(10.0, 1); pace.advance(10.1, 2); pace.advance(20.0, 3)
    >>> round(pace.standing(20.0).left)
    10
    """

    def __init__(
        self, begin: float, workers: int = 1, total: int | None = None, already: int = 0
    ) -> None:
        self.workers, self.total, self.already = workers, total, already
        self.begin, self.done = begin, already
        self._ends: list[tuple[float, int]] = [(begin, already)]
        self._first = True  # whether the first entry is the start of the job
        self._work, self.by_parts = 0.0, False

    def work(self, units: float) -> None:
        """So much was done in this job, with the parts of units that are not finished."""
        self._work = units

    def advance(self, now: float, done: int, total: int | None = None) -> None:
        """So many units are finished, with those from before."""
        self.total = self.total if total is None else total
        self.done = max(done, self.done)
        if done <= self._ends[-1][1]:
            return
        ends = self._ends
        if len(ends) > MANY and now - ends[-2][0] < MERGE:
            ends.pop()
        ends.append((max(now, ends[-1][0]), done))
        self._forget(now)

    def standing(self, now: float) -> Standing:
        """Where the job stands."""
        left, rough = self._left(now)
        return Standing(self.done, self.total, now - self.begin, left, rough)

    def _left(self, now: float) -> tuple[float | None, bool]:
        """All workers go on as before: the last unit ends in the turn of the worker that gets it.

        With equal times they end in the order in which they began, so this is a closed form.
        """
        if self.total is None:
            return None, False
        rest = self.total - self.done
        if rest <= 0:
            return 0.0, False
        if self.by_parts:
            return self._left_of_parts(now)
        unit, rough = self._unit(now)
        if unit is None:
            return None, False
        workers = min(self.workers, self.total - self.already)
        turns, last = divmod(rest - 1, workers)
        begun = self._begun(workers)[last]
        return max(begun + unit - now, 0.0) + turns * unit, rough

    def _left_of_parts(self, now: float) -> tuple[float | None, bool]:
        """What is left of all units, at the speed at which parts of them were done so far."""
        if self.total is None or self._work < ENOUGH * self.workers:
            return None, False
        rest = max(self.total - self.already - self._work, 0.0)
        return rest * (now - self.begin) / self._work, self.done == self.already

    def _unit(self, now: float) -> tuple[float | None, bool]:
        """Seconds that one worker needs for one unit, and whether only first ones are known."""
        ends, time, units, j = self._ends, 0.0, 0, 0
        spans: list[tuple[float, int]] = []
        for at, done in ends[1:]:
            while ends[j + 1][1] <= done - self.workers:
                j += 1
            span, count = at - ends[j][0], done - ends[j][1]
            spans.append((span, count))
            if count >= self.workers and (j > 0 or not self._first):
                time, units = time + span, units + count
        if units:
            return self.workers * time / units, False
        if spans:  # each of these is the first of its worker
            return max(span / -(-count // self.workers) for span, count in spans), True
        if self._work < ENOUGH * self.workers:
            return None, False
        return self.workers * (now - ends[0][0]) / self._work, True

    def _begun(self, workers: int) -> list[float]:
        """When each worker began its present unit, the earliest first: when it ended its last."""
        found: list[float] = []
        for (at, done), (_, before) in zip(self._ends[:0:-1], self._ends[-2::-1], strict=True):
            found += [at] * min(done - before, workers - len(found))
        found += [self._ends[0][0]] * (workers - len(found))
        return sorted(found)

    def _forget(self, now: float) -> None:
        """Keep what the next estimate needs: the last units, and one more turn to start from."""
        ends, keep = self._ends, max(LEAST, 2 * self.workers) + self.workers
        recent, drop = now - min(RECENT, (now - self.begin) / 3), 0
        while drop + 1 < len(ends) and (
            ends[drop + 1][0] < recent and ends[drop + 1][1] <= ends[-1][1] - keep
        ):
            drop += 1
        if drop:
            del ends[:drop]
            self._first = False

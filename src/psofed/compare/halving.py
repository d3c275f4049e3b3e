"""A search by successive halving: all settings in a few runs, the better ones in more.

Every run has the whole length, so that nobody is judged by how fast it starts. Steps are on a
geometric grid that grows until the best of them is inside it. The lowest error and the fewest bytes
to a target are two searches, because they have different winners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Literal, NamedTuple

from psofed.compare.lattice import bare
from psofed.compare.pilot import OnPart, Pilot, Scored
from psofed.methods.contract import Options

Aim = Literal["error", "bytes"]
AIMS: tuple[Aim, ...] = ("error", "bytes")
ABOUT = 1.02  # where bytes depend on the data, a budget is met about so well
SMALLEST, LARGEST = 1e-6, 1e4  # steps at which a grid stops growing
ROOT = 2**0.5


class Rung(NamedTuple):
    """One part of the search: its runs, the settings that go on from it, and its steps."""

    runs: int
    keep: int  # settings of each method and aim
    around: tuple[float, ...]  # steps to try, over the best so far; none: the grid of the learner
    apart: float  # from one step to the next, where the grid grows
    near: bool = False  # it tries the settings beside the best, in the runs of the rung before


PLAIN = (
    Rung(2, 3, (), 2.0),
    Rung(2, 3, (1 / ROOT, 1.0, ROOT), ROOT, near=True),
    Rung(6, 1, (1 / ROOT, 1.0, ROOT), ROOT),
)
GIFTED = (
    Rung(2, 2, (0.5, 1.0, 2.0), 2.0),
    Rung(6, 1, (1 / ROOT, 1.0, ROOT), ROOT),
)


class Winner(NamedTuple):
    """The best of a method, and the trials of its setting: other steps, averaged or not."""

    score: Scored
    trials: tuple[Scored, ...]


Who = tuple[str, Aim]  # the title of a method, and what it is tuned for
Steps = dict[Options, dict[float | None, None]]  # those to try with each setting, in order


def key(aim: Aim, score: Scored) -> tuple[float, float]:
    """By this, smaller is better."""
    return (score.error, score.share) if aim == "error" else (score.bytes, score.error)


class _Parts:
    """Counts the parts of a rung, whose number grows with its grids."""

    def __init__(self, told: OnPart) -> None:
        self.told, self.before, self.done, self.total = told, 0, 0, 0

    def begin(self) -> OnPart:
        """What to call with (done, of all) of some more parts."""
        self.before, known = self.done, self.total

        def count(done: int, total: int) -> None:
            self.done, self.total = self.before + done, known + total
            self.told(self.done, self.total)

        return count


class Search:
    """The best settings of several methods, each named by its title."""

    def __init__(
        self, pilot: Pilot, told: Callable[..., OnPart], name: str, rungs: Sequence[Rung] = PLAIN
    ) -> None:
        self.pilot, self.told, self.name, self.rungs = pilot, told, name, rungs
        self.known: dict[Options, list[Scored]] = {}  # of these runs, by setting

    def best(
        self,
        contestants: Mapping[Who, Sequence[Options]],
        first: Mapping[Who, float | None] | None = None,
    ) -> dict[Who, Winner]:
        """The winner of each method for each aim; none of one that exceeds the budget.

        `first` are steps around which the first rung searches, if it has no grid.
        """
        alive = {who: list(some) for who, some in contestants.items()}
        best = dict(first or {})
        for i, rung in enumerate(self.rungs, 1):
            name = f"{self.name}, {i} of {len(self.rungs)}"
            on_part = _Parts(self.told(name, self.pilot.workers.workers))
            if rung.near:
                alive = {who: [*some, *self._beside(some)] for who, some in alive.items()}
            else:
                self.known = {}
            self._measure(self._steps(alive, rung, best), rung.runs, on_part)
            alive = {who: self._ranked(who[1], some)[: rung.keep] for who, some in alive.items()}
            self._grow(alive, rung, on_part)
            alive = {who: self._ranked(who[1], some) for who, some in alive.items()}
            best = {
                who: self._top(who[1], some[0]).options.step for who, some in alive.items() if some
            }
        return {
            who: Winner(self._top(who[1], some[0]), tuple(self.known[some[0]]))
            for who, some in alive.items()
            if some
        }

    def _beside(self, some: Sequence[Options]) -> list[Options]:
        """Settings beside the best: options that were varied one by one may go together."""
        near = self.pilot.near(some[0]) if some else ()
        return [setting for setting in near if setting not in self.known]

    def _steps(
        self, alive: Mapping[Who, Sequence[Options]], rung: Rung, best: Mapping[Who, float | None]
    ) -> Steps:
        """The steps to try with each setting that has none in these runs."""
        found: Steps = {}
        for who, some in alive.items():
            for setting in some:
                if setting in self.known:
                    continue
                found.setdefault(setting, {}).update(
                    dict.fromkeys(self._tried(setting, rung, best.get(who)))
                )
        return found

    def _tried(self, setting: Options, rung: Rung, best: float | None) -> Iterable[float | None]:
        if not setting.steps:
            return (None,)
        if not rung.around or best is None:
            return self._grid(setting)
        return (_plain(best * factor) for factor in rung.around)

    def _grid(self, setting: Options) -> Iterator[float]:
        """From the smallest step that is worth trying to the largest, each twice the last."""
        learner = self.pilot.experiment.learner if setting.learner is None else setting.learner
        step, last = learner.steps[0], learner.steps[-1]
        while step <= ROOT * last:
            yield _plain(step)
            step *= 2

    def _measure(self, steps: Steps, runs: int, on_part: _Parts) -> None:
        trials = [
            replace(setting, step=mu, average=averaged)
            for setting, some in steps.items()
            for mu in some
            for averaged in ((False, True) if setting.serves else (False,))
        ]
        for score in self.pilot.scores(trials, runs, on_part.begin()):
            self.known.setdefault(bare(score.options), []).append(score)

    def _affordable(self, setting: Options) -> list[Scored]:
        """Its trials that kept to the budget; nobody asks that of controls and of the reference."""
        most = ABOUT * self.pilot.allowed.budget
        free = setting.role != "method"
        return [score for score in self.known[setting] if free or score.share <= most]

    def _top(self, aim: Aim, setting: Options) -> Scored:
        return min(self._affordable(setting), key=lambda score: key(aim, score))

    def _ranked(self, aim: Aim, some: Sequence[Options]) -> list[Options]:
        """The best first, without those that exceed the budget."""
        able = [setting for setting in some if self._affordable(setting)]
        return sorted(able, key=lambda setting: key(aim, self._top(aim, setting)))

    def _grow(self, alive: Mapping[Who, Sequence[Options]], rung: Rung, on_part: _Parts) -> None:
        """More steps, until the best of each setting is none at the end."""
        while True:
            more: Steps = {}
            for (_, aim), some in alive.items():
                for setting in some:
                    if (step := self._beyond(aim, setting, rung.apart)) is not None:
                        more.setdefault(setting, {})[step] = None
            if not more:
                return
            self._measure(more, rung.runs, on_part)

    def _beyond(self, aim: Aim, setting: Options, apart: float) -> float | None:
        """The step beyond the end of the grid, if the best stands there."""
        top = self._top(aim, setting)
        best, diverged = top.options.step, not isfinite(top.error)
        if best is None:
            return None
        tried = [s for score in self.known[setting] if (s := score.options.step) is not None]
        if best == max(tried) < LARGEST and not diverged:
            return _plain(best * apart)
        low = min(tried)  # where all have diverged, a smaller step has to be found
        return _plain(low / apart) if (best == low or diverged) and low > SMALLEST else None


def _plain(step: float) -> float:
    """A step with as many digits as are worth printing.

    >>> _plain(0.1 * 2**0.5)
    0.1414
    """
    return float(f"{step:.4g}")

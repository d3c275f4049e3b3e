"""One experiment at many settings, all on the same draws: a table, a figure and every curve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from os import PathLike
from typing import Any

from psofed import extras
from psofed.compare.addresses import Axis, axes, experiments
from psofed.curves import Curves
from psofed.errors import InputError
from psofed.experiment import Experiment, given
from psofed.extras import need
from psofed.simulate import montecarlo

MOST_POINTS = 1000


@dataclass(frozen=True, eq=False)
class SweepPlan:
    """A sweep before it runs: an experiment for each combination of what all methods share."""

    base: Experiment
    axes: tuple[Axis, ...]
    parts: tuple[tuple[dict[str, Any], Experiment], ...]  # its settings, and the experiment

    @property
    def curves(self) -> int:
        """How many curves there will be."""
        return sum(len(experiment.methods) for _, experiment in self.parts)


def plan(experiment: Experiment, settings: Mapping[str, Any]) -> SweepPlan:
    """What a sweep would run, or an InputError: nothing is computed yet."""
    found = axes(experiment, settings)
    count = prod(len(axis.values) for axis in found)
    if count > MOST_POINTS:
        right = f"give fewer values: {MOST_POINTS:,} points are the most"
        raise InputError("settings", f"give {count:,} points", right)
    return SweepPlan(experiment, tuple(found), tuple(experiments(experiment, found)))


@dataclass(frozen=True, eq=False, repr=False)
class SweepResult:
    """A finished sweep: `to_frame` is its table, `plot` its figure."""

    plan: SweepPlan
    curves: tuple[Curves, ...]  # one for each part of the plan, with all variants of the methods

    def titles(self, part: int) -> list[str]:
        """The curves of a part by name, with the settings that make it differ from others."""
        settings, _ = self.plan.parts[part]
        here = [axis for axis in self.plan.axes if axis.place.key in settings]
        where = "".join(f", {a.place.field} {a.shown(settings[a.place.key])}" for a in here)
        return [title + where for title in self.curves[part].titles]

    def rows(self) -> Iterator[dict[str, Any]]:
        """The table: one row for each method at each point."""
        for i, curves in enumerate(self.curves):
            settings, _ = self.plan.parts[i]
            for j, options in enumerate(curves.options()):
                steady = curves.point(j, "steady")
                yield {
                    **settings, **options, "method": self.titles(i)[j],
                    "steady_db": steady.value, "stderr_db": steady.stderr,
                    "kilobytes": float(curves.cumulative[j, -1] / 1000), "runs": curves.runs,
                    **({f"samples {n}": c for n, c in curves.checked[j].items()}
                       if curves.checked else {}),
                }  # fmt: skip

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame: settings, options, steady MSE, bytes (extra `frame`)."""
        return need("pandas", "frame", "frames").DataFrame(list(self.rows()))

    def plot(self, path: str | PathLike[str] | None = None, *, heat: bool = False) -> Any:
        """The steady MSE against the first setting that has numbers, or a map of two settings."""
        need("matplotlib", "plot", "figures")
        sweeps = extras.report("sweeps")
        sheet = sweeps.heat(self) if heat else sweeps.sheet(self)
        return extras.report("figures").drawn(sheet, path)

    def _axes(self) -> str:
        shown = (f"{a.place.key} {', '.join(map(a.shown, a.values))}" for a in self.plan.axes)
        return "; ".join(shown)

    def __repr__(self) -> str:
        count = sum(len(curves.titles) for curves in self.curves)
        return f"<SweepResult of {self._axes()}: {extras.counted(count, 'curve')}>"

    def _repr_html_(self) -> str:
        """For notebooks."""
        grid = extras.report("sweeps").grid(self)
        return extras.table(f"Sweep of {self._axes()}", grid.rows[0], grid.rows[1:], grid.note)


def sweep(
    experiment: Experiment,
    settings: Mapping[str, Any] | None = None,
    /,
    *,
    jobs: int | None = None,
    progress: bool | None = None,
    **more: Any,
) -> SweepResult:
    """Run an experiment at every combination of some settings, all on the same draws.

    A setting is a key of the experiment (`step`), an option of its methods (`shared`) or a key of
    its tables; names with a dot go into a dict: `{"features.width": [1.0, 2.0]}`. Methods without
    an option are run once. See `psofed.run` for `jobs`, `progress` and what an interrupt keeps.

    >>> import psofed
    >>> small = psofed.Experiment(clients=5, rounds=10, runs=2, test_samples=50,
    ...                           methods=(psofed.OnlineFed(), psofed.PSOFed()))
    >>> psofed.sweep(small, shared=[1, 40], step=[0.5, 0.75])
    <SweepResult of methods.shared 1, 40; step 0.5, 0.75: 6 curves>
    """
    made = plan(given(experiment), _together(settings or {}, more))
    done: list[Curves] = []
    for _, part in made.parts:
        try:
            done.append(montecarlo.run(part, jobs, progress=progress))
        except montecarlo.Interrupted as stop:
            kept = [*done, stop.curves] if stop.curves is not None else done
            some = replace(made, parts=made.parts[: len(kept)])
            raise montecarlo.Interrupted(stop.curves, SweepResult(some, tuple(kept))) from None
    return SweepResult(made, tuple(done))


def _together(settings: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(settings, Mapping):
        found = f"are {settings!r}, without a name"
        raise InputError("settings", found, 'give a dict such as {"methods.shared": [1, 5]}')
    for key in more:
        if key in settings:
            raise InputError(key, "is given twice", "give it once")
    return {**settings, **more}

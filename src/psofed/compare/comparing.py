"""Methods at equal bytes, from an experiment to a finished comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from os import PathLike
from typing import Any, Literal

import numpy as np

from psofed import meter, notebook
from psofed.compare import budget as budgets
from psofed.compare.budget import Fitted
from psofed.compare.target import Reached, bytes_to_target, default_target
from psofed.compare.tuning import PILOT_RUNS, Entry, tune, untuned
from psofed.curves import Curves
from psofed.errors import InputError
from psofed.experiment import Experiment, given
from psofed.extras import need
from psofed.simulate import montecarlo
from psofed.simulate.pools import threads
from psofed.simulate.watched import counted

PICTURES = {"bytes": "over_bytes", "rounds": "over_rounds"}


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """A finished comparison, with its options."""

    curves: Curves
    entries: list[Entry]
    left_out: list[tuple[str, str]]  # title, why
    budget: float
    target: float
    total: str
    sort: str
    tuned: bool
    command: str
    average: bool = False

    def reached(self, j: int) -> Reached:
        """Bytes of method j to the target."""
        return bytes_to_target(self.curves, j, self.target, self.total)

    def order(self) -> list[int]:
        """The methods in the order that was asked for; those that miss the target come last."""
        steady = [self.curves.point(j, "steady").value for j in range(len(self.entries))]
        steady = [value if np.isfinite(value) else np.inf for value in steady]
        if self.sort == "mse":
            return sorted(range(len(steady)), key=lambda j: steady[j])
        return sorted(range(len(steady)), key=lambda j: (self.reached(j).bytes, steady[j]))

    def rows(self) -> Iterator[dict[str, Any]]:
        """The table: one row for each method, the best first."""
        options = self.curves.options()
        for j in self.order():
            steady, reached = self.curves.point(j, "steady"), self.reached(j)
            entry = self.entries[j]
            yield {
                **options[j], "role": entry.options.role, "step": entry.step,
                "traffic_share": entry.share, "longest_message": entry.cost.largest,
                "steady_db": steady.value, "stderr_db": steady.stderr,
                "bytes_to_target": reached.bytes, "low": reached.low, "high": reached.high,
                "round": reached.round,
            }  # fmt: skip

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame, with every option (extra `frame`)."""
        return need("pandas", "frame", "frames").DataFrame(list(self.rows()))

    def plot(
        self,
        path: str | PathLike[str] | None = None,
        over: Literal["bytes", "rounds"] = "bytes",
    ) -> Any:
        """The error over the bytes sent, or over the rounds (extra `plot`)."""
        if over not in PICTURES:
            raise InputError("over", f"is {over!r}", 'use "bytes" or "rounds"')
        need("matplotlib", "plot", "figures")
        pictures = import_module("psofed.report.comparison_figures")
        figure = getattr(pictures, PICTURES[over])(self)
        if path is not None:
            import_module("psofed.report.figures").save(figure, path)
        return figure

    def __repr__(self) -> str:
        best = self.curves.titles[self.order()[0]]
        return f"<Comparison of {len(self.entries)} methods {self._where()}; first: {best}>"

    def _where(self) -> str:
        return f"at {100 * self.budget:g} % of Online-Fed's traffic"

    def _repr_html_(self) -> str:
        """For notebooks."""
        rows = []
        for row in self.rows():
            sent = row["bytes_to_target"]
            rows.append([
                row["method"], "-" if row["step"] is None else f"{row['step']:g}",
                f"{100 * row['traffic_share']:.3g} %",
                notebook.estimate(row["steady_db"], row["stderr_db"]),
                f"{sent / 1000:,.4g}" if np.isfinite(sent) else "not reached",
            ])  # fmt: skip
        head = ["method", "step", "traffic", "steady, dB", f"kB to {self.target:g} dB"]
        why = "".join(f" Left out: {title}, {reason}." for title, reason in self.left_out)
        note = f"{notebook.counted(self.curves.runs, 'run')}, ± one standard error.{why}"
        return notebook.table(f"Methods {self._where()}", head, rows, note)


def fit_all(
    experiment: Experiment,
    budget: float,
    field: str = "budget",
    on_step: Callable[[int, int], None] = lambda done, total: None,
) -> list[tuple[str, Fitted]]:
    """Each method, by title, with its knob at the budget."""
    fitted = []
    for i, (title, each) in enumerate(zip(experiment.titles, experiment.methods, strict=True)):
        on_step(i, len(experiment.methods))
        fitted.append((title, budgets.fit(experiment, each, budget)))
    if sum(f.options is not None for _, f in fitted) < 2:
        why = ", ".join(f"{title} {f.why}" for title, f in fitted if f.options is None)
        found = f"is {budget:g}, which no method fits: {why}"
        raise InputError(field, found, "give a larger share, or more rounds")
    return fitted


def compare_methods(
    experiment: Experiment,
    *,
    budget: float = 0.2,
    target: float | None = None,
    total: Literal["unicast", "up", "multicast"] = "unicast",
    sort: Literal["bytes", "mse"] = "bytes",
    tuned: bool = True,
    average: bool = False,
    jobs: int | None = None,
    progress: bool | None = None,
) -> Comparison:
    """The experiment's methods, with Online-Fed and FedAvg, at an equal share of the traffic.

    As `psofed compare` does: each method's knob is set to `budget`, a share of Online-Fed's bytes,
    and its step is found in a pilot on another seed. `target` is the test MSE in dB to which bytes
    are counted; without it, 1 dB above Online-Fed's end.

    >>> from psofed.methods import psofed
    >>> few = Experiment(clients=8, rounds=120, runs=2, test_samples=50,
    ...                  methods=(psofed.Options(shared=40),))
    >>> compare_methods(few, tuned=False).curves.titles
    ['Online-Fed', 'PSO-Fed M=40 uncoordinated', 'FedAvg E=5']
    """
    _check(budget, target, total, sort)
    if given(experiment).runs < 2:
        raise InputError("runs", "is 1, which has no standard error", "use 2 or more")
    methods = budgets.completed(experiment.methods, experiment.features.dim)
    every = experiment.evaluate_every or max(experiment.rounds // 1000, 1)
    experiment = replace(experiment, methods=methods, evaluate_every=every)
    fitted = fit_all(experiment, budget)
    kept = [f for _, f in fitted]
    shown = meter.interactive() if progress is None else progress
    entries = _tuned(experiment, kept, jobs, average, shown) if tuned else untuned(experiment, kept)
    experiment = replace(experiment, methods=tuple(entry.options for entry in entries))
    curves = montecarlo.run(experiment, jobs, progress=shown)
    goal = default_target(curves) if target is None else target
    left_out = [(title, f.why) for title, f in fitted if f.options is None]
    return Comparison(
        curves, entries, left_out, budget, goal, total, sort, tuned, "psofed.compare_methods",
        average,
    )  # fmt: skip


def _tuned(
    experiment: Experiment, kept: list[Fitted], jobs: int | None, average: bool, shown: bool
) -> list[Entry]:
    """Each method with its best step; how far that is can be seen where it is wanted."""
    if not shown:
        return tune(experiment, kept, lambda _: threads(jobs), lambda done, total: None, average)
    with meter.metered("tuning steps", "pilot runs", total=PILOT_RUNS) as told:
        return tune(experiment, kept, lambda _: counted(threads(jobs), told), told.advance, average)


def _check(budget: float, target: float | None, total: str, sort: str) -> None:
    if not _number(budget) or not 0 < budget <= 1:
        raise InputError("budget", f"is {budget!r}", "use a share of Online-Fed's traffic, 0 to 1")
    if target is not None and (not _number(target) or not abs(target) < 1000):
        raise InputError("target", f"is {target!r}", "use a number of dB, such as -11")
    for name, value, known in (
        ("total", total, ("unicast", "up", "multicast")),
        ("sort", sort, ("bytes", "mse")),
    ):
        if value not in known:
            raise InputError(name, f"is {value!r}", "use " + " or ".join(f'"{k}"' for k in known))


def _number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)

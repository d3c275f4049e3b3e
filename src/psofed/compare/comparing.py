"""Methods at equal bytes, from an experiment to a finished comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from os import PathLike
from typing import Any, Literal

import numpy as np

from psofed import extras
from psofed.compare import budget as budgets
from psofed.compare.budget import Allowance, Fitted
from psofed.compare.search import (
    Aim,
    OnPart,
    Pilot,
    Reached,
    bytes_to_target,
    cumulative_bytes,
    default_target,
)
from psofed.compare.tuning import QUICK_RUNS, Entry, Tuned, tune, tune_quickly, untuned
from psofed.curves import Curves
from psofed.errors import InputError
from psofed.experiment import Experiment, given
from psofed.extras import need
from psofed.federation.options import Options
from psofed.federation.progress import in_turn, interactive, showing
from psofed.simulate import montecarlo
from psofed.simulate.pools import threads

PICTURES = ("bytes", "rounds")
TOTALS = ("unicast", "up", "multicast")
HOW = ("fair", "quick", "none")
How = Literal["fair", "quick", "none"]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """A finished comparison: the lowest error at a budget, and the fewest bytes to a target."""

    curves: Curves
    entries: list[Entry]
    left_out: list[tuple[str, str]]  # title, why
    budget: float
    target: float
    total: str
    tuning: How  # how methods were tuned
    command: str

    def reached(self, j: int) -> Reached:
        """Bytes of method j to the target."""
        return bytes_to_target(self.curves, j, self.target, self.total)

    def share(self, j: int) -> float:
        """Bytes of method j over those of the reference, as they were sent."""
        sent, first = cumulative_bytes(self.curves, self.total), self.reference
        whole = sent[first, -1] / self.entries[first].share
        return float(sent[j, -1] / whole)

    @property
    def reference(self) -> int:
        """The method whose traffic is the unit: as it is, without a policy or a gift."""
        plain = (j for j, e in enumerate(self.entries) if e.options.role == "reference")
        return next(j for j in plain if not self.entries[j].gifted and self._bare(j))

    def _bare(self, j: int) -> bool:
        return self.entries[j].options.policy is None

    def order(self, aim: Aim = "bytes") -> list[int]:
        """The methods of a table, the best first; those that miss the target come last."""
        steady = [self.curves.point(j, "steady").value for j in range(len(self.entries))]
        steady = [value if np.isfinite(value) else np.inf for value in steady]
        rows = [j for j, entry in enumerate(self.entries) if aim in entry.aims]
        if aim == "error":
            return sorted(rows, key=lambda j: steady[j])
        return sorted(rows, key=lambda j: (self.reached(j).bytes, steady[j]))

    def ranking(self) -> list[int]:
        """All methods, by bytes to the target."""
        steady = [self.curves.point(j, "steady").value for j in range(len(self.entries))]
        ends = np.nan_to_num(steady, nan=np.inf)
        return sorted(range(len(ends)), key=lambda j: (self.reached(j).bytes, ends[j]))

    def rows(self) -> Iterator[dict[str, Any]]:
        """All methods, one row for each, by bytes to the target."""
        options = self.curves.options()
        for j in self.ranking():
            steady, reached = self.curves.point(j, "steady"), self.reached(j)
            entry = self.entries[j]
            yield {
                **options[j], "role": entry.options.role, "step": entry.step,
                "aims": "+".join(entry.aims), "gifted": entry.gifted,
                "traffic_share": self.share(j), "longest_message": entry.cost.largest,
                "steady_db": steady.value, "stderr_db": steady.stderr,
                "bytes_to_target": reached.bytes, "low": reached.low, "high": reached.high,
                "round": reached.round,
            }  # fmt: skip

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame, with every option (extra `frame`)."""
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
        sheet = import_module("psofed.report.comparisons").sheet(self, over)
        figure = import_module("psofed.report.figures").draw(sheet)
        if path is not None:
            import_module("psofed.report.figures").save(figure, path)
        return figure

    def __repr__(self) -> str:
        best = self.curves.titles[self.ranking()[0]]
        return f"<Comparison of {len(self.entries)} methods {self._where()}; first: {best}>"

    def _where(self) -> str:
        return f"at {100 * self.budget:g} % of Online-Fed's traffic"

    def _repr_html_(self) -> str:
        """For notebooks."""
        rows = []
        for row in self.rows():
            sent = row["bytes_to_target"]
            rows.append([
                row["method"], "-" if row["step"] is None else f"{row['step']:.3g}",
                f"{100 * row['traffic_share']:.3g} %",
                extras.estimate(row["steady_db"], row["stderr_db"]),
                f"{sent / 1000:,.4g}" if np.isfinite(sent) else "not reached",
            ])  # fmt: skip
        head = ["method", "step", "traffic", "steady, dB", f"kB to {self.target:g} dB"]
        why = "".join(f" Left out: {title}, {reason}." for title, reason in self.left_out)
        note = f"{extras.counted(self.curves.runs, 'run')}, ± one standard error.{why}"
        return extras.table(f"Methods {self._where()}", head, rows, note)


def fit_all(
    experiment: Experiment,
    allowed: Allowance,
    field: str = "budget",
    on_step: OnPart = lambda done, total: None,
) -> list[tuple[str, Fitted]]:
    """Each method, by title, with its knob at the budget."""
    fitted = []
    for i, (title, each) in enumerate(zip(experiment.titles, experiment.methods, strict=True)):
        on_step(i, len(experiment.methods))
        fitted.append((title, budgets.fit(experiment, each, allowed.budget, allowed.total)))
    left_out = [(title, f.why) for title, f in fitted if f.options is None]
    enough([f.options for _, f in fitted if f.options is not None], left_out, allowed, field)
    return fitted


def enough(
    kept: Sequence[Options], left_out: Sequence[tuple[str, str]], allowed: Allowance, field: str
) -> None:
    """Refuse a budget at which there is nothing to compare."""
    if all(options.role != "method" for options in kept):
        why = ", ".join(f"{title} {reason}" for title, reason in left_out)
        found = f"is {allowed.budget:g}, which no method fits: {why}"
        raise InputError(field, found, "give a larger share, or more rounds")


def compare_methods(
    experiment: Experiment,
    *,
    budget: float = 0.2,
    target: float | None = None,
    total: Literal["unicast", "up", "multicast"] = "unicast",
    tuning: How = "fair",
    gifts: bool = True,
    jobs: int | None = None,
    progress: bool | None = None,
) -> Comparison:
    """The experiment's methods, with Online-Fed and FedAvg, at an equal share of the traffic.

    As `psofed compare` does: options, step and averaging of each method are searched on other
    seeds, within `budget`, a share of Online-Fed's bytes. With `gifts`, coded values and a whitened
    basis with normalised LMS are tried, too. `tuning="quick"` sets each knob to the budget and
    tries a few steps, `"none"` tries nothing. `target` is the test MSE in dB to which bytes are
    counted; without it, 1 dB above Online-Fed at its best.

    >>> from psofed.methods import psofed
    >>> few = Experiment(clients=8, rounds=120, runs=2, test_samples=50,
    ...                  methods=(psofed.Options(shared=40),))
    >>> compare_methods(few, tuning="none").curves.titles
    ['Online-Fed', 'PSO-Fed M=40 uncoordinated', 'FedAvg E=5']
    """
    _check(budget, target, total, tuning)
    if given(experiment).runs < 2:
        raise InputError("runs", "is 1, which has no standard error", "use 2 or more")
    methods = budgets.completed(experiment.methods, experiment.features.dim)
    methods, unfit = budgets.attacked(experiment, methods)
    every = experiment.evaluate_every or max(experiment.rounds // 1000, 1)
    experiment = replace(experiment, methods=methods, evaluate_every=every)
    shown = interactive() if progress is None else progress
    allowed = Allowance(budget, total)
    if tuning == "fair":
        found = _searched(experiment, allowed, target, gifts, jobs, shown)
        enough([entry.options for entry in found.entries], found.left_out, allowed, "budget")
    else:
        found = _short(experiment, allowed, target, tuning, jobs, shown)
    found = found._replace(left_out=[*unfit, *found.left_out])
    experiment = replace(experiment, methods=tuple(entry.options for entry in found.entries))
    curves = montecarlo.run(experiment, jobs, progress=shown)
    return finished(curves, found, allowed, tuning, "psofed.compare_methods")


def finished(
    curves: Curves, found: Tuned, allowed: Allowance, tuning: How, command: str
) -> Comparison:
    """The comparison of these curves; without a target, 1 dB above the reference."""
    made = Comparison(
        curves, found.entries, found.left_out, allowed.budget, found.target or 0.0, allowed.total,
        tuning, command,
    )  # fmt: skip
    if found.target is not None:
        return made
    return replace(made, target=default_target(curves.point(made.reference, "steady").value))


def _searched(
    experiment: Experiment, allowed: Allowance, target: float | None, gifts: bool,
    jobs: int | None, shown: bool,
) -> Tuned:  # fmt: skip
    """Each method at its best; how far that is can be seen where it is wanted."""
    with threads(jobs) as workers, _in_turn(shown) as told:
        return tune(experiment, Pilot(experiment, allowed, workers), target, gifts, told)


@contextmanager
def _in_turn(shown: bool) -> Iterator[Callable[..., OnPart]]:
    """The progress of one part after another, if it is wanted."""
    with in_turn() as told:
        yield told if shown else lambda *_, **__: lambda done, total: None


def _short(
    experiment: Experiment, allowed: Allowance, target: float | None, tuning: str,
    jobs: int | None, shown: bool,
) -> Tuned:  # fmt: skip
    fitted = fit_all(experiment, allowed)
    kept = [f for _, f in fitted]
    left_out = [(title, f.why) for title, f in fitted if f.options is None]
    if tuning == "none":
        return Tuned(untuned(experiment, kept), target, left_out)
    if not shown:
        entries = tune_quickly(experiment, kept, lambda _: threads(jobs), lambda done, total: None)
        return Tuned(entries, target, left_out)
    with showing("tuning steps", "pilot runs", total=QUICK_RUNS, runs=True) as job:
        entries = tune_quickly(experiment, kept, lambda _: threads(jobs), job.advance)
    return Tuned(entries, target, left_out)


def _check(budget: float, target: float | None, total: str, tuning: str) -> None:
    if not _number(budget) or not 0 < budget <= 1:
        raise InputError("budget", f"is {budget!r}", "use a share of Online-Fed's traffic, 0 to 1")
    if target is not None and (not _number(target) or not abs(target) < 1000):
        raise InputError("target", f"is {target!r}", "use a number of dB, such as -11")
    for name, value, known in (("total", total, TOTALS), ("tuning", tuning, HOW)):
        if value not in known:
            raise InputError(name, f"is {value!r}", "use " + " or ".join(f'"{k}"' for k in known))


def _number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)

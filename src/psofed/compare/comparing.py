"""Methods at equal bytes, from an experiment to a finished comparison."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Literal

import numpy as np

from psofed import extras
from psofed.compare import budget as budgets
from psofed.compare.search import Aim, Reached, bytes_to_target, default_target
from psofed.compare.tuning import HOW, Entry, How, Tuned, silent, tune
from psofed.curves import Curves
from psofed.errors import InputError
from psofed.experiment import Experiment, given
from psofed.extras import need, table
from psofed.federation.progress import in_turn, interactive
from psofed.simulate import montecarlo
from psofed.simulate.montecarlo import threads

PICTURES = ("bytes", "rounds")


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """A finished comparison: the lowest error at a budget, and the fewest bytes to a target."""

    curves: Curves
    entries: list[Entry]
    left_out: list[tuple[str, str]]  # title, why
    budget: float
    target: float
    tuning: How  # how methods were tuned
    command: str

    def reached(self, j: int) -> Reached:
        """Bytes of method j to the target."""
        return bytes_to_target(self.curves, j, self.target)

    def share(self, j: int) -> float:
        """Bytes of method j over those of the reference, as they were sent."""
        sent, first = self.curves.cumulative, self.reference
        whole = sent[first, -1] / self.entries[first].cost.share
        return float(sent[j, -1] / whole)

    @property
    def reference(self) -> int:
        """The method whose traffic is the unit: as it is, without a policy or a gift."""
        return next(
            j for j, entry in enumerate(self.entries)
            if entry.options.role == "reference" and entry.options.policy is None
            and not entry.gifted
        )  # fmt: skip

    def order(self, aim: Aim) -> list[int]:
        """The methods of a table, the best first; those that miss the target come last."""
        rows = [j for j in self.ranking() if aim in self.entries[j].aims]
        return rows if aim == "bytes" else sorted(rows, key=self._steady)

    def ranking(self) -> list[int]:
        """All methods, by bytes to the target."""
        rows = range(len(self.entries))
        return sorted(rows, key=lambda j: (self.reached(j).bytes, self._steady(j)))

    def _steady(self, j: int) -> float:
        value = self.curves.point(j, "steady").value
        return value if np.isfinite(value) else np.inf

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
        sheet = extras.report("comparisons").sheet(self, over)
        return extras.report("figures").drawn(sheet, path)

    def __repr__(self) -> str:
        best = self.curves.titles[self.ranking()[0]]
        where = f"at {100 * self.budget:g} % of Online-Fed's traffic"
        return f"<Comparison of {len(self.entries)} methods {where}; first: {best}>"

    def _repr_html_(self) -> str:
        """For notebooks."""
        words = extras.report("comparisons")
        note = " ".join([words.sentence(self), *words.left_out(self)])
        grids = words.tables(self)
        return "".join(table(g.title, g.rows[0], g.rows[1:], note) for g in grids)


def compare_methods(
    experiment: Experiment,
    *,
    budget: float = 0.2,
    target: float | None = None,
    tuning: How = "fair",
    jobs: int | None = None,
    progress: bool | None = None,
) -> Comparison:
    """The experiment's methods, with Online-Fed and FedAvg, at an equal share of the traffic.

    As `psofed compare` does: options, step and averaging of each method are searched on other
    seeds, within `budget`, a share of Online-Fed's bytes. `tuning="fair"` also tries coded values
    and a whitened basis with normalised LMS, `"plain"` does not; `"none"` sets each knob to the
    budget and tries nothing. `target` is the test MSE in dB to which bytes are counted; without it,
    1 dB above Online-Fed at its best.
    """
    check(budget, target, tuning)
    if given(experiment).runs < 2:
        raise InputError("runs", "is 1, which has no standard error", "use 2 or more")
    experiment.check_simulated()
    methods = budgets.completed(experiment.methods, experiment.features.dim)
    methods, unfit = budgets.attacked(experiment, methods)
    every = experiment.evaluate_every or max(experiment.rounds // 1000, 1)
    experiment = replace(experiment, methods=methods, evaluate_every=every)
    shown = interactive() if progress is None else progress
    with threads(jobs) as workers, in_turn() as report:
        found = tune(experiment, budget, tuning, target, workers, report if shown else silent)
    found = found._replace(left_out=[*unfit, *found.left_out])
    experiment = replace(experiment, methods=tuple(entry.options for entry in found.entries))
    curves = montecarlo.run(experiment, jobs, progress=shown)
    return finished(curves, found, budget, tuning, "psofed.compare_methods")


def finished(curves: Curves, found: Tuned, budget: float, tuning: How, command: str) -> Comparison:
    """The comparison of these curves; without a target, 1 dB above the reference."""
    made = Comparison(
        curves, found.entries, found.left_out, budget, found.target or 0.0, tuning, command
    )
    if found.target is not None:
        return made
    return replace(made, target=default_target(curves.point(made.reference, "steady").value))


def check(budget: float, target: float | None, tuning: str) -> None:
    """Refuse an invalid budget, target or way to tune."""
    if not _number(budget) or not 0 < budget <= 1:
        raise InputError("budget", f"is {budget!r}", "use a share of Online-Fed's traffic, 0 to 1")
    if target is not None and (not _number(target) or not abs(target) < 1000):
        raise InputError("target", f"is {target!r}", "use a number of dB, such as -11")
    if tuning not in HOW:
        right = "use " + " or ".join(f'"{known}"' for known in HOW)
        raise InputError("tuning", f"is {tuning!r}", right)


def _number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)

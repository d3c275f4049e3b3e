"""What a simulation returns: learning curves with standard errors, and traffic."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from psofed import extras
from psofed.core.native import Array
from psofed.errors import InputError
from psofed.experiment import TABLE_ROUNDS, Experiment
from psofed.extras import need
from psofed.federation.options import settings
from psofed.stages.checks.contract import by_name

STEADY_SHARE = 0.2  # "steady" is the mean over this last part of the rounds
PER_DB = float(10 / np.log(10))  # dB per unit of relative change
PER_METHOD = ("mse", "stderr", "uplink", "downlink", "multicast", "points")
OWN = ("shared", "scheme")  # columns that every table has
LATEX = str.maketrans({char: f"\\{char}" for char in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"})  # fmt: skip
PM = r"\pm "
SHOWN = {True: ", ± one standard error", False: ""}


class Estimate(NamedTuple):
    """A value and its standard error."""

    value: float
    stderr: float


@dataclass(frozen=True, eq=False, repr=False)
class Curves:
    """Learning curves of all methods of an experiment; MSE is linear, dB only at the edge."""

    experiment: Experiment
    runs: int
    rounds: Array  # [mark]: the n of w_n
    mse: Array  # [method, mark]: mean over the runs
    stderr: Array  # [method, mark]: of that mean
    uplink: Array  # [method, mark]: bytes since the mark before
    downlink: Array
    multicast: Array  # the downlink where equal messages are sent once
    points: Array  # [method, point]: mean MSE at `point_names`
    covariance: Array  # [point, method, method]: of a single run
    floors: dict[str, Estimate] = field(default_factory=dict)
    counts: Array | None = None  # [method, verdict]: samples of all runs, if there is a check
    # [method, mark]: of the global model, where `mse` is that of clients' own models.
    global_mse: Array | None = None
    each: Array | None = None  # [run, method, mark]: the MSE of each run, if it was asked for

    @property
    def titles(self) -> list[str]:
        """The methods' names."""
        return self.experiment.titles

    @property
    def point_names(self) -> list[str]:
        """The rounds of the table and "steady", in the order of `points`."""
        return [*map(str, table_rounds(self.experiment)), "steady"]

    @property
    def mse_db(self) -> Array:
        """Mean test MSE in dB: averaged first, converted last."""
        return to_db(self.mse)

    @property
    def global_steady_db(self) -> list[float]:
        """Where clients' own models are judged: the global model's MSE over the last fifth."""
        if self.global_mse is None:
            return []
        late = self.rounds >= self.rounds[-1] * (1 - STEADY_SHARE)
        return to_db(self.global_mse[:, late].mean(axis=1)).tolist()

    @property
    def stderr_db(self) -> Array:
        """The standard error of `mse_db`, to first order."""
        with np.errstate(invalid="ignore"):
            return PER_DB * self.stderr / self.mse

    @property
    def cumulative(self) -> Array:
        """Bytes exchanged before round n: uplink and unicast downlink."""
        return np.cumsum(self.uplink + self.downlink, axis=1)

    def row(self, method: int | str) -> int:
        """The row of a method: its number, its title, or a beginning that only it has."""
        titles = self.titles
        if not isinstance(method, str):
            if type(method) is int and -len(titles) <= method < len(titles):
                return method
            right = f"use a title, or a number from 0 to {len(titles) - 1}"
            raise InputError("method", f"is {method!r}", right)
        found = [j for j, title in enumerate(titles) if title == method]
        found = found or [j for j, title in enumerate(titles) if title.startswith(method)]
        if len(found) == 1:
            return found[0]
        these = "; ".join(titles[j] for j in found or range(len(titles)))
        told = f"which {'may be any' if found else 'is none'} of {these}"
        raise InputError("method", f"is {method!r}, {told}", "give a title")

    def point(self, method: int | str, name: str | int = "steady") -> Estimate:
        """Mean MSE in dB of a method at a point, with its standard error."""
        j, p = self.row(method), self._place(name)
        mean, variance = self.points[j, p], self.covariance[p, j, j]
        with np.errstate(over="ignore", invalid="ignore"):
            return Estimate(float(to_db(mean)), self._error(variance / mean**2))

    def difference(
        self, method: int | str, other: int | str, name: str | int = "steady"
    ) -> Estimate:
        """dB of `method` minus dB of `other` at a point; paired, since both saw the same draws."""
        rows, p = [self.row(method), self.row(other)], self._place(name)
        a, b = self.points[rows, p]
        among = self.covariance[p][np.ix_(rows, rows)]
        with np.errstate(over="ignore", invalid="ignore"):
            relative = among[0, 0] / a**2 + among[1, 1] / b**2 - 2 * among[0, 1] / (a * b)
            return Estimate(float(to_db(a) - to_db(b)), self._error(relative))

    def _place(self, name: str | int) -> int:
        known = self.point_names
        if str(name) not in known:
            raise InputError("point", f"is {name!r}", "use one of " + ", ".join(known))
        return known.index(str(name))

    def _error(self, relative: float) -> float:
        """The standard error in dB of a mean whose runs have this relative variance."""
        return float(PER_DB * np.sqrt(max(relative, 0.0) / self.runs)) if self.runs > 1 else np.nan

    def traffic_share(self, method: int | str, other: int | str) -> float:
        """Total bytes of `method`, up and down, over those of `other`."""
        sent = self.cumulative[:, -1]
        return float(sent[self.row(method)] / sent[self.row(other)])

    @property
    def checked(self) -> list[dict[str, int]]:
        """What the check of samples made of them, by method; nothing without a check.

        All runs together: samples seen, learned, clipped, and refused by reason.
        """
        return [] if self.counts is None else [by_name(each) for each in self.counts]

    def only(self, which: Sequence[int | str]) -> Curves:
        """The curves of some of the methods."""
        rows = [self.row(method) for method in which]
        kept = {name: getattr(self, name)[rows] for name in PER_METHOD}
        kept["counts"] = None if self.counts is None else self.counts[rows]
        kept["global_mse"] = None if self.global_mse is None else self.global_mse[rows]
        kept["each"] = None if self.each is None else self.each[:, rows]
        among = self.covariance[:, rows][:, :, rows]
        return replace(self, experiment=self.experiment.only(rows), covariance=among, **kept)

    def options(self) -> list[dict[str, Any]]:
        """Every option of each method, all with the same keys; None where a method has none."""
        step, methods = self.experiment.step, self.experiment.methods
        found = [settings(options, step) for options in methods]
        keys = dict.fromkeys(key for each in found for key in each if key not in OWN)
        return [
            {
                "method": title, "name": options.name,
                "shared": options.sharing[0], "scheme": options.sharing[1] or None,
                **{key: each.get(key) for key in keys},
            }
            for title, options, each in zip(self.titles, methods, found, strict=True)
        ]  # fmt: skip

    def rows(self) -> Iterator[dict[str, Any]]:
        """The curves as a long table: what `curves.csv` and `to_frame` hold."""
        every = {
            "mse": self.mse, "mse_db": self.mse_db, "stderr_db": self.stderr_db,
            "uplink_bytes": self.uplink, "downlink_bytes": self.downlink,
            "multicast_bytes": self.multicast, "cumulative": self.cumulative,
        }  # fmt: skip
        if self.global_mse is not None:
            every["global_mse"] = self.global_mse
        for j, about in enumerate(self.options()):
            columns = {"round": self.rounds} | {key: each[j] for key, each in every.items()}
            for values in zip(*(column.tolist() for column in columns.values()), strict=True):
                yield about | dict(zip(columns, values, strict=True))

    def to_frame(self) -> Any:
        """The curves as a pandas DataFrame, a row per method and round (extra `frame`).

        Every option is a column: `frame[frame["step"] == 0.5]`.
        """
        return need("pandas", "frame", "frames").DataFrame(list(self.rows()))

    def summary(self) -> Any:
        """A DataFrame: where each method ends, in dB, what it sent, and both against a baseline."""
        return need("pandas", "frame", "frames").DataFrame(list(self._ends()))

    def to_latex(self) -> str:
        """The same as a table for a paper, with standard errors; it needs the package booktabs."""
        head, *rows = ([_latex(cell) for cell in row] for row in self._cells())
        lines = [" & ".join(row) + r" \\" for row in rows]
        top = [rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", r"\toprule"]
        top += [" & ".join(head) + r" \\", r"\midrule"]
        return "\n".join([*top, *lines, r"\bottomrule", r"\end{tabular}", ""])

    def _ends(self) -> Iterator[dict[str, Any]]:
        base = self.experiment.baseline
        for j, (title, sent) in enumerate(zip(self.titles, self.cumulative[:, -1], strict=True)):
            steady, error = self.point(j)
            row: dict[str, Any] = {"method": title, "steady_db": steady, "stderr_db": error}
            if base is not None:
                row["difference_db"], row["difference_stderr_db"] = self.difference(j, base)
            row["kilobytes"] = float(sent / 1000)
            if base is not None and self.cumulative[base, -1] > 0:
                row["traffic_share"] = self.traffic_share(j, base)
            yield row

    def _cells(self) -> Iterator[list[str]]:
        """The same for readers, with a head."""
        base = None if self.experiment.baseline is None else self.titles[self.experiment.baseline]
        more = ["kB up and down"]
        yield ["method", "steady, dB", *([] if base is None else [f"to {base}, dB"]), *more]
        for row in self._ends():
            cells = [row["method"], extras.estimate(row["steady_db"], row["stderr_db"])]
            if base is not None:
                apart = row["difference_db"], row["difference_stderr_db"]
                cells.append(extras.estimate(*apart, "+"))
            yield [*cells, f"{row['kilobytes']:,.4g}"]

    def plot(
        self,
        path: str | PathLike[str] | None = None,
        ax: Any = None,
        *,
        floors: bool = True,
        math: bool = False,
    ) -> Any:
        """A figure of the curves (extra `plot`), saved if a path is given; a notebook shows it.

        With `ax`, an axes of matplotlib, they are drawn there, with its settings and styles, and it
        is returned; the legend stands below it, where the figure needs room for it. `floors` are
        the levels of ridge regression and noise; with `math`, `$M = 5$` in a label is a formula.
        """
        need("matplotlib", "plot", "figures")
        figures = extras.report("figures")
        shown = self if floors else replace(self, floors={})
        drawn = figures.learning_curves(shown) if ax is None else figures.drawn_in(ax, shown)
        if math:
            figures.with_formulas(drawn if ax is not None else drawn.axes[0])
        if path is not None:
            figures.save(drawn if ax is None else ax.get_figure(), path)
        return drawn

    def __repr__(self) -> str:
        names = self.titles[0] if len(self.titles) == 1 else f"{len(self.titles)} methods"
        return f"<Curves of {names}: {self.counted_runs()}>"

    def counted_runs(self) -> str:
        """How many runs of how many rounds, in words."""
        asked = self.experiment.runs
        runs = extras.counted(self.runs, "run")
        some = f"{self.runs:,} of {asked:,} runs" if self.runs < asked else runs
        return f"{some} of {extras.counted(int(self.rounds[-1]), 'round')}"

    def __str__(self) -> str:
        """With the numbers at the end, a method in a line."""
        rows = list(self._cells())
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [[row[0].ljust(wide[0]), *map(str.rjust, row[1:], wide[1:])] for row in rows]
        return "\n".join([repr(self)[1:-1], *("  ".join(line) for line in lines)])

    def _repr_html_(self) -> str:
        """For notebooks: where each method ends, and what it has sent."""
        steady = f"Steady: mean test MSE of the last fifth of the rounds{SHOWN[self.runs > 1]}"
        note = f"{steady}, on {self.experiment.judged}."
        head, *rows = self._cells()
        return extras.table(f"Curves: {self.counted_runs()}", head, rows, note)


def table_rounds(experiment: Experiment) -> list[int]:
    """The rounds that the table shows."""
    return [n for n in TABLE_ROUNDS if n <= experiment.rounds]


def to_db(mse: Any) -> Any:
    """10 log10 of a mean-square error; NaN stays NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return 10 * np.log10(mse)


def _latex(cell: str) -> str:
    r"""A cell as LaTeX has it; formulas stay what they are.

    >>> print(_latex("-11.25 ±0.12"), _latex("5 % of $"), _latex("$M = 5$ & more"))
    $-11.25 \pm 0.12$ 5 \% of \$ $M = 5$ \& more
    """
    if re.fullmatch(r"[+-]?[\d.,]+( ±[\d.]+)?", cell):
        return f"${cell.replace('±', PM).replace(',', '{,}')}$"
    parts = re.split(r"(\$[^$]+\$)", cell)
    return "".join(part if i % 2 else part.translate(LATEX) for i, part in enumerate(parts))

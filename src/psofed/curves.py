"""What a simulation returns: learning curves with standard errors, and traffic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psofed.experiment import TABLE_ROUNDS, Experiment

Array = NDArray[Any]
STEADY_SHARE = 0.2  # "steady" is the mean over this last part of the rounds
PER_DB = float(10 / np.log(10))  # dB per unit of relative change


class Estimate(NamedTuple):
    """A value and its standard error."""

    value: float
    stderr: float


@dataclass(frozen=True, eq=False)
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

    @property
    def titles(self) -> list[str]:
        """The methods' names."""
        return [options.title() for options in self.experiment.methods]

    @property
    def point_names(self) -> list[str]:
        """The rounds of the table and "steady", in the order of `points`."""
        return [*map(str, table_rounds(self.experiment)), "steady"]

    @property
    def mse_db(self) -> Array:
        """Mean test MSE in dB: averaged first, converted last."""
        return to_db(self.mse)

    @property
    def stderr_db(self) -> Array:
        """The standard error of `mse_db`, to first order."""
        with np.errstate(invalid="ignore"):
            return PER_DB * self.stderr / self.mse

    @property
    def cumulative(self) -> Array:
        """Bytes exchanged before round n: uplink and unicast downlink."""
        return np.cumsum(self.uplink + self.downlink, axis=1)

    def point(self, method: int, name: str) -> Estimate:
        """Mean MSE in dB of a method at a point, with its standard error."""
        p = self.point_names.index(name)
        mean, variance = self.points[method, p], self.covariance[p, method, method]
        with np.errstate(over="ignore", invalid="ignore"):
            return Estimate(float(to_db(mean)), self._error(variance / mean**2))

    def difference(self, method: int, other: int, name: str) -> Estimate:
        """dB of `method` minus dB of `other` at a point; paired, since both saw the same draws."""
        p = self.point_names.index(name)
        a, b = self.points[[method, other], p]
        among = self.covariance[p][np.ix_([method, other], [method, other])]
        with np.errstate(over="ignore", invalid="ignore"):
            relative = among[0, 0] / a**2 + among[1, 1] / b**2 - 2 * among[0, 1] / (a * b)
            return Estimate(float(to_db(a) - to_db(b)), self._error(relative))

    def _error(self, relative: float) -> float:
        """The standard error in dB of a mean whose runs have this relative variance."""
        return float(PER_DB * np.sqrt(max(relative, 0.0) / self.runs)) if self.runs > 1 else np.nan

    def traffic_share(self, method: int, other: int) -> float:
        """Total bytes of `method`, up and down, over those of `other`."""
        return float(self.cumulative[method, -1] / self.cumulative[other, -1])

    def rows(self) -> Iterator[dict[str, Any]]:
        """The curves as a long table: what `curves.csv` and `to_frame` hold."""
        for j, options in enumerate(self.experiment.methods):
            shared, scheme = options.sharing
            about = {
                "method": options.title(),
                "name": options.name,
                "shared": "" if shared is None else shared,
                "scheme": scheme,
            }
            columns = {
                "round": self.rounds,
                "mse": self.mse[j],
                "mse_db": self.mse_db[j],
                "stderr_db": self.stderr_db[j],
                "uplink_bytes": self.uplink[j],
                "downlink_bytes": self.downlink[j],
                "multicast_bytes": self.multicast[j],
                "cumulative": self.cumulative[j],
            }
            for values in zip(*(column.tolist() for column in columns.values()), strict=True):
                yield about | dict(zip(columns, values, strict=True))

    def to_frame(self) -> Any:
        """The curves as a pandas DataFrame (needs the extra `frame`)."""
        return import_module("pandas").DataFrame(list(self.rows()))

    def plot(self, path: str | None = None) -> Any:
        """A figure of the curves (needs the extra `plot`), saved if a path is given."""
        # The report layer is above this one, so it is imported by name, only when needed.
        figure = import_module("psofed.report.figures").learning_curves(self)
        if path is not None:
            figure.savefig(path)
        return figure


def table_rounds(experiment: Experiment) -> list[int]:
    """The rounds that the table shows."""
    return [n for n in TABLE_ROUNDS if n <= experiment.rounds]


def to_db(mse: Any) -> Any:
    """10 log10 of a mean-square error; NaN stays NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return 10 * np.log10(mse)

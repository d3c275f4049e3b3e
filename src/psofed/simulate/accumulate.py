"""Curves from runs that are added in order; nothing grows with the number of runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.curves import PER_DB, STEADY_SHARE, Curves, Estimate, table_rounds, to_db
from psofed.experiment import Experiment
from psofed.sample_checks.contract import VERDICTS

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class OneRun:
    """The outcome of one Monte-Carlo run."""

    mse: Array  # [method, mark]
    traffic: Array  # [up, down, multicast down; method; mark], bytes since the mark before
    floors: Array  # [ridge, noise], or empty: only the first runs compute them
    # [method, verdict]: samples of all clients, if there is a check; else zeros, or of old runs 0.
    counts: Array = field(default_factory=lambda: np.zeros((), np.int64))


class RunningMoments:
    """Mean and sum of squared deviations of arrays that are added one by one: Welford's rule."""

    def __init__(self, *shape: int) -> None:
        self.count, self.mean, self.squares = 0, np.zeros(shape), np.zeros(shape)

    def add(self, value: Array) -> None:
        """The next array."""
        self.count += 1
        deviation = value - self.mean
        self.mean += deviation / self.count
        self.squares += deviation * (value - self.mean)

    def stderr(self) -> Array:
        """The standard error of the mean; one value has no spread to estimate it from."""
        n = self.count
        return np.sqrt(self.squares / (n * (n - 1))) if n > 1 else np.full_like(self.mean, np.nan)


class Accumulator:
    """The sums over the runs so far."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        rounds, names = experiment.evaluated, table_rounds(experiment)
        methods = len(experiment.methods)
        self.mse = RunningMoments(methods, len(rounds))
        self.traffic = RunningMoments(3, methods, len(rounds))
        self.floors = RunningMoments(2)
        self.points = np.zeros((methods, len(names) + 1))
        self.products = np.zeros((len(names) + 1, methods, methods))
        self.counts = np.zeros((methods, len(VERDICTS)), np.int64)
        self._marks = np.searchsorted(rounds, names)
        self._steady = rounds >= rounds[-1] * (1 - STEADY_SHARE)

    @property
    def runs(self) -> int:
        """How many runs have been added."""
        return self.mse.count

    def add(self, run: OneRun) -> None:
        """Add the next run. A method that has diverged has an infinite or NaN mean from then on."""
        with np.errstate(over="ignore", invalid="ignore"):
            self._add(run)

    def _add(self, run: OneRun) -> None:
        self.mse.add(run.mse)
        self.traffic.add(run.traffic)
        self.counts += run.counts
        if run.floors.size:
            self.floors.add(run.floors)
        steady = run.mse[:, self._steady].mean(axis=1, keepdims=True)
        points = np.hstack([run.mse[:, self._marks], steady])
        before = points - self.points
        self.points += before / self.runs
        self.products += before.T[:, :, None] * (points - self.points).T[:, None, :]

    def steady(self) -> tuple[Array, Array]:
        """The steady MSE of each method in dB, and its standard error."""
        mean, n = self.points[:, -1], self.runs
        with np.errstate(invalid="ignore"):
            variance = np.diagonal(self.products[-1]) / max(n * (n - 1), 1)
            return to_db(mean), PER_DB * np.sqrt(variance) / mean

    def curves(self) -> Curves:
        """The curves of the runs so far."""
        up, down, multicast = self.traffic.mean.copy()
        floors = to_db(self.floors.mean)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = PER_DB * self.floors.stderr() / self.floors.mean
        estimates = map(Estimate, floors.tolist(), relative.tolist())
        return Curves(
            experiment=self.experiment,
            runs=self.runs,
            rounds=self.experiment.evaluated,
            mse=self.mse.mean.copy(),
            stderr=self.mse.stderr(),
            uplink=up,
            downlink=down,
            multicast=multicast,
            points=self.points.copy(),
            covariance=self.products / max(self.runs - 1, 1),
            floors=dict(zip(("ridge", "noise"), estimates, strict=True))
            if self.floors.count
            else {},
            counts=self.counts.copy() if self.experiment.check is not None else None,
        )

    def to_arrays(self) -> dict[str, Array]:
        """The sums as arrays, for a checkpoint."""
        arrays: dict[str, Array] = {"points": self.points, "products": self.products}
        if self.experiment.check is not None:
            arrays["counts"] = self.counts
        for name in ("mse", "traffic", "floors"):
            moments: RunningMoments = getattr(self, name)
            arrays |= {
                f"{name}_count": np.array(moments.count),
                f"{name}_mean": moments.mean,
                f"{name}_squares": moments.squares,
            }
        return arrays

    def load(self, arrays: dict[str, Array]) -> None:
        """The inverse of `to_arrays`; raises ValueError if the shapes do not fit the experiment."""
        for name, array in self.to_arrays().items():
            if arrays[name].shape != array.shape:
                raise ValueError(f"{name} has shape {arrays[name].shape}")
        self.points, self.products = arrays["points"], arrays["products"]
        self.counts = arrays.get("counts", self.counts)
        for name in ("mse", "traffic", "floors"):
            moments: RunningMoments = getattr(self, name)
            moments.count = int(arrays[f"{name}_count"])
            moments.mean, moments.squares = arrays[f"{name}_mean"], arrays[f"{name}_squares"]

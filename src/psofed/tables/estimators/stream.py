"""RFF-KLMS for River: one sample at a time, features by name, new ones at any time."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
from river import base

from psofed.core import conformal
from psofed.core.equations import lms
from psofed.core.native import Array
from psofed.core.seeds import Seeds


class RFFKLMSStream(base.Regressor):
    """w <- w + mu z (y - w^T z) with z = sqrt(2/D) cos(W x + b), for x a dict of named numbers.

    The column of W of a feature is drawn from the seed and the feature's name, when it is first
    seen: so a feature may come late or be absent (it then counts as 0), and the order does not
    matter. Scale inputs before, e.g. with River's StandardScaler. The mean of the targets so far is
    subtracted. `predict_interval_one` gives an interval whose radius follows the errors.

    >>> model = RFFKLMSStream(dim=50, seed=1)
    >>> for i in range(500):
    ...     model.learn_one({"x": (i % 20) / 10}, 2.0 * ((i % 20) / 10 > 1))
    >>> round(model.predict_one({"x": 0.5})), round(model.predict_one({"x": 1.6}))
    (0, 2)
    """

    def __init__(
        self, dim: int = 200, width: float = 1.0, step: float = 0.5, seed: int = 0
    ) -> None:
        self.dim, self.width, self.step, self.seed = dim, width, step, seed
        self.w = np.zeros(dim)
        self.mean, self.count = 0.0, 0
        self.theta: Array | None = None  # log of the radii, once an error is known
        self.labels = np.zeros(())
        self._columns: dict[Any, Array] = {}
        draw = Seeds(seed).generator("features")
        self._b = draw.uniform(0, 2 * np.pi, dim)

    def _column(self, name: Any) -> Array:
        if name not in self._columns:
            draw = Seeds(self.seed).generator(f"feature {name!r}")
            self._columns[name] = draw.standard_normal(self.dim) / self.width
        return self._columns[name]

    def _features(self, x: dict[Any, Any]) -> Array:
        phase = self._b.copy()
        for name, value in x.items():
            phase += self._column(name) * float(value)
        z: Array = np.cos(phase, out=phase)
        z *= np.sqrt(2 / self.dim)
        return z

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Eq. (5), after the mean of the targets is updated."""
        z = self._features(x)
        self._judge(float(y) - self.mean - float(self.w @ z))
        self.count += 1
        self.mean += (float(y) - self.mean) / self.count
        lms(self.w, z, float(y) - self.mean, self.step)

    def _judge(self, error: float) -> None:
        """The radii learn from the error that a prediction has just before its label is learned."""
        if not self.count:  # the mean of the targets is not known: this error says nothing
            return
        if self.theta is None:
            self.theta = conformal.start(scale=abs(error) if isfinite(error) else 1.0)
        size = error if isfinite(error) else np.inf  # a model that diverged
        conformal.follow(self.theta, self.labels, np.array([size]))

    def predict_one(self, x: dict[Any, Any]) -> float:
        """w^T z(x)."""
        return float(self.w @ self._features(x)) + self.mean

    def predict_interval_one(self, x: dict[Any, Any], level: float = 0.9) -> tuple[float, float]:
        """The low and the high end of the interval that holds this share of the targets.

        Before the second label nothing is known of the errors, and it is infinite.
        """
        j, value = conformal.which(level, "level"), self.predict_one(x)
        radius = float("inf") if self.theta is None else float(conformal.radius(self.theta)[j])
        return value - radius, value + radius

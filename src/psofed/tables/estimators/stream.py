"""For River: RFF-KLMS on one stream, and on those of a federation. New features at any time."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
from river import base

from psofed.core import conformal
from psofed.core.equations import lms
from psofed.core.native import Array
from psofed.core.seeds import Seeds
from psofed.federation.feature_table import Features
from psofed.methods import psofed
from psofed.simulate.client_model import label
from psofed.simulate.online import Federation, check_step


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
        check_step(step, stacklevel=3)
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
            phase += self._column(name) * number(f"x[{name!r}]", value)
        z: Array = np.cos(phase, out=phase)
        z *= np.sqrt(2 / self.dim)
        return z

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Eq. (5), after the mean of the targets is updated."""
        z, y = self._features(x), number("y", y)
        self._judge(y - self.mean - float(self.w @ z))
        self.count += 1
        self.mean += (y - self.mean) / self.count
        lms(self.w, z, y - self.mean, self.step)

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


def number(field: str, value: Any) -> float:
    """A finite number; what is none would be in all later answers."""
    found = label(value, "float64", field)
    return float(found[0])


def _given(z: Array) -> Array:
    """Features that are computed already."""
    return z


class FederatedStream(RFFKLMSStream):
    """The same in a federation: the feature `client` of a sample says whose it is.

    Clients learn RFF-KLMS on their own samples and exchange `shared` of the D numbers by PSO-Fed;
    each subtracts the mean of its own targets. `federation` is the `psofed.Federation` underneath,
    which has the bytes and the round. In a pipeline, let the name of the client pass by what scales
    the numbers.

    >>> from river import compose, preprocessing
    >>> numbers = compose.Discard("device") | preprocessing.StandardScaler()
    >>> model = (numbers + compose.Select("device")) | FederatedStream("device", dim=50)
    >>> for i in range(600):
    ...     model.learn_one({"x": i % 7, "device": "ab"[i % 2]}, float(i % 7 > 3))
    >>> round(model.predict_one({"x": 6, "device": "a"}))
    1
    """

    def __init__(
        self, client: str = "client", shared: int | None = None, dim: int = 200, width: float = 1.0,
        step: float = 0.5, cohort: int = 4, every: int | None = None, seed: int = 0,
        clients: list[Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(dim, width, step, seed)
        self.client, self.shared, self.cohort, self.every = client, shared, cohort, every
        self.clients = clients
        method = psofed.Options(max(dim // 5, 1) if shared is None else shared)
        self.federation = Federation(
            dim, clients or (), method, cohort=cohort, every=every, step=step, seed=seed,
            features=Features(_given, dim=dim),
        )  # fmt: skip
        self.means: dict[Any, tuple[float, int]] = {}  # of each client's targets, and their number

    def _of(self, x: dict[Any, Any]) -> tuple[Any, Array]:
        """Whose sample it is, and its features."""
        return x.get(self.client, ""), self._features(
            {k: v for k, v in x.items() if k != self.client}
        )

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """A sample of its client, after the mean of the client's targets is updated."""
        (who, z), y = self._of(x), number("y", y)
        mean, count = self.means.get(who, (0.0, 0))
        self.mean, self.count = mean, count
        self._judge(y - mean - self.federation.predict_one(who, z))
        mean += (y - mean) / (count + 1)
        self.federation.learn_one(who, z, y - mean)
        self.means[who] = mean, count + 1

    def predict_one(self, x: dict[Any, Any]) -> float:
        """What the client answers; one that is not known has the model of all."""
        who, z = self._of(x)
        return self.federation.predict_one(who, z) + self.means.get(who, (0.0, 0))[0]

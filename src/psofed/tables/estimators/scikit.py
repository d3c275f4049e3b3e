"""For scikit-learn: RFF-KLMS, eq. (5), on one stream; and a federation over groups of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from psofed.core import conformal
from psofed.core.equations import lms
from psofed.core.features import Cosines, cosine
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.federation import schema
from psofed.federation.contract import Array
from psofed.federation.feature_table import Features
from psofed.federation.options import Options
from psofed.simulate.online import Federation, check_step

BLOCK = 256  # samples whose features are computed at once


class RFFKLMSRegressor(RegressorMixin, BaseEstimator):
    """Online kernel regression: w <- w + mu z (y - w^T z), z the random Fourier features of x.

    If `scale` is true, inputs and target are centred and scaled by the first batch. The scaling
    then stays fixed, so that it is the same for later batches.

    `predict(X, interval=0.9)` returns (y, low, high), as scikit-learn's Gaussian process returns
    (y, spread) on request. The radius is a quantile of the errors that samples had in the last pass
    of `fit` just before they were learned (again, if there are several epochs: new data may then
    need a slightly wider one); `partial_fit` lets it follow the errors.

    >>> X = np.random.default_rng(0).uniform(-2, 2, (400, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> bool(RFFKLMSRegressor(dim=50, random_state=0).fit(X, y).score(X, y) > 0.8)
    True
    """

    def __init__(
        self, dim: int = 200, width: float = 1.0, step: float = 0.5, epochs: int = 10,
        scale: bool = True, random_state: Any = None,
    ) -> None:  # fmt: skip
        self.dim, self.width, self.step = dim, width, step
        self.epochs, self.scale, self.random_state = epochs, scale, random_state

    def fit(self, X: Any, y: Any) -> RFFKLMSRegressor:
        """Learn from scratch, `epochs` times over the samples in their order."""
        X, y = self._samples(X, y, reset=True)
        self._begin(X, y)
        errors = np.empty(0)
        for _ in range(self.epochs):
            errors = self._learn(X, y)
        if len(errors):
            self.theta_, self.labels_ = conformal.settled(errors), np.array(float(len(errors)))
        return self

    def partial_fit(self, X: Any, y: Any) -> RFFKLMSRegressor:
        """Continue to learn, once over the samples."""
        first = not hasattr(self, "coef_")
        X, y = self._samples(X, y, reset=first)
        if first:
            self._begin(X, y)
        conformal.follow(self.theta_, self.labels_, self._learn(X, y))
        return self

    def predict(self, X: Any, interval: float | None = None) -> Any:
        """w^T z(x), in the units of the target; with an interval, (y, low, high)."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        parts = [self._features(X[i : i + BLOCK]) @ self.coef_ for i in range(0, len(X), BLOCK)]
        values = np.concatenate(parts) * self.y_scale_ + self.y_mean_
        if interval is None:
            return values
        radius = conformal.radius(self.theta_)[conformal.which(interval)] * self.y_scale_
        return values, values - radius, values + radius

    def _samples(self, X: Any, y: Any, reset: bool) -> tuple[Array, Array]:
        X, y = validate_data(self, X, y, reset=reset, dtype=np.float64, y_numeric=True)
        return X, np.asarray(y, np.float64)

    def _begin(self, X: Array, y: Array) -> None:
        check_step(self.step, stacklevel=4)
        seed = check_random_state(self.random_state).randint(2**31)
        # The width is per input: distances grow with the square root of their number.
        width = self.width * np.sqrt(X.shape[1])
        self.features_: Cosines = cosine(Seeds(int(seed)), self.dim, X.shape[1], width)
        self.x_mean_, self.x_scale_ = _scale(X, self.scale)
        mean, spread = _scale(y[:, None], self.scale)
        self.y_mean_, self.y_scale_ = float(mean[0]), float(spread[0])
        self.coef_ = np.zeros(self.dim)
        unit = 1.0 if self.scale else float(_scale(y[:, None], True)[1][0])
        self.theta_, self.labels_ = conformal.start(scale=unit), np.zeros(())

    def _features(self, X: Array) -> Array:
        return self.features_((X - self.x_mean_) / self.x_scale_)

    def _learn(self, X: Array, y: Array) -> Array:
        """Once over the samples; the error of each before it was learned, in scaled units."""
        targets = (y - self.y_mean_) / self.y_scale_
        errors = []
        for i in range(0, len(X), BLOCK):
            Z = self._features(X[i : i + BLOCK])
            for z, target in zip(Z, targets[i : i + BLOCK], strict=True):
                errors.append(lms(self.coef_, z, target, self.step))
        return np.array(errors)


class FederatedRegressor(RegressorMixin, BaseEstimator):
    """PSO-Fed, or another method, over groups of rows: a `psofed.Federation` in `federation_`.

    `predict(X)` uses the global model; `predict(X, groups=...)` the own models of the groups that
    have one, if the method's clients keep any, and the global one for all other rows.

    In `fit` clients learn from their rows in order, `epochs` times; those with fewer rows than the
    longest group start again from the first. `partial_fit` takes rows as they come, each once, and
    new groups join. Without groups every row belongs to one of `clients`, in turn. `traffic_` is
    what was sent, in bytes up and down. Inputs and target are scaled by the first batch.

    >>> X = np.random.default_rng(0).uniform(-2, 2, (600, 1))
    >>> y, groups = np.sin(2 * X[:, 0]), np.arange(600) % 6
    >>> model = FederatedRegressor(dim=50, shared=10, epochs=5, random_state=0)
    >>> bool(model.fit(X, y, groups=groups).score(X, y) > 0.5)
    True
    """

    federation_: Federation
    groups_: Array
    y_mean_: float
    y_scale_: float

    def __init__(
        self, method: str = "psofed", shared: int | None = None, dim: int = 200, width: float = 1.0,
        step: float = 0.5, cohort: int = 4, clients: int = 4, epochs: int = 5,
        random_state: Any = None,
    ) -> None:  # fmt: skip
        self.method, self.shared, self.step = method, shared, step
        self.dim, self.width, self.random_state = dim, width, random_state
        self.cohort, self.clients, self.epochs = cohort, clients, epochs

    def fit(self, X: Any, y: Any, groups: Any = None) -> FederatedRegressor:
        """Learn anew, in as many rounds as the longest group has rows, times `epochs`."""
        X, y, names = self._samples(X, y, groups, reset=True)
        self._begin(X, y, names)
        inputs, targets = self._scaled(X), (y - self.y_mean_) / self.y_scale_
        rows = [np.flatnonzero(names == name) for name in self.groups_]
        longest = max(map(len, rows)) * self.epochs
        for each in np.stack([np.resize(own, longest) for own in rows], axis=1):  # [N, K]
            for k, i in enumerate(each):
                self.federation_.learn_one(k, inputs[i], targets[i])
        return self._learned()

    def partial_fit(self, X: Any, y: Any, groups: Any = None) -> FederatedRegressor:
        """Continue, once over the rows; a round ends after as many as there are groups."""
        first = not hasattr(self, "federation_")
        X, y, names = self._samples(X, y, groups, reset=first)
        if first:
            self._begin(X, y, names)
        new = [name for name in np.unique(names) if name not in self.groups_]
        self.groups_ = np.concatenate([self.groups_, np.array(new, self.groups_.dtype)])
        place = {name: k for k, name in enumerate(self.groups_)}
        inputs, targets = self._scaled(X), (y - self.y_mean_) / self.y_scale_
        for name, x, target in zip(names, inputs, targets, strict=True):
            self.federation_.learn_one(place[name], x, target)
        return self._learned()

    def predict(self, X: Any, groups: Any = None) -> Array:
        """The predictions of the global model, or of the groups' own models where they exist."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        z = self.federation_.features(self._scaled(X))
        values = z @ self.coef_
        names = np.empty(0) if groups is None else _checked(groups, len(X))
        for k, name in enumerate(self.groups_):
            if len(names) and k in self.own_coef_:
                rows = names == name
                values[rows] = z[rows] @ self.own_coef_[k]
        return np.asarray(values * self.y_scale_ + self.y_mean_)

    def _samples(self, X: Any, y: Any, groups: Any, reset: bool) -> tuple[Array, Array, Array]:
        X, y = validate_data(self, X, y, reset=reset, dtype=np.float64, y_numeric=True)
        if groups is None:
            groups = np.arange(len(X)) % max(1, min(self.clients, len(X)))
        return X, np.asarray(y, np.float64), _checked(groups, len(X))

    def _begin(self, X: Array, y: Array, names: Array) -> None:
        self.groups_ = np.unique(names)
        self.x_mean_, self.x_scale_ = _scale(X, True)
        mean, spread = _scale(y[:, None], True)
        self.y_mean_, self.y_scale_ = float(mean[0]), float(spread[0])
        seed, taps = int(check_random_state(self.random_state).randint(2**31)), X.shape[1]
        self.federation_ = Federation(
            taps, len(self.groups_), self._options(), cohort=self.cohort, step=self.step, seed=seed,
            features=Features(dim=self.dim, width=self.width * float(np.sqrt(taps))),
        )  # fmt: skip

    def _scaled(self, X: Array) -> Array:
        return np.asarray((X - self.x_mean_) / self.x_scale_)

    def _learned(self) -> FederatedRegressor:
        """What the federation knows, where scikit-learn looks for it."""
        self.coef_, self.own_coef_ = self.federation_.model, self.federation_.models
        self.traffic_ = np.array(self.federation_.traffic[:2])
        return self

    def _options(self) -> Options:
        module = schema.load("psofed.methods", self.method)
        knob = module.Options.knob
        has_shared = knob is not None and knob.field == "shared"
        if self.shared is not None and not has_shared:
            raise InputError("shared", f"is given, but {self.method} has no M", "leave it out")
        shared = max(1, self.dim // 5) if self.shared is None else self.shared
        found: Options = module.Options(**{"shared": shared} if has_shared else {})
        return found


def _checked(groups: Any, count: int) -> Array:
    """One group for each sample."""
    groups = np.asarray(groups)
    if groups.shape != (count,):
        raise ValueError(f"groups has shape {groups.shape}, but there are {count} samples")
    return groups


def _scale(values: Array, wanted: bool) -> tuple[Array, Array]:
    """Mean and spread of each column, or nothing to do."""
    if not wanted:
        return np.zeros(values.shape[1]), np.ones(values.shape[1])
    mean, spread = values.mean(axis=0), values.std(axis=0)
    # A constant column may have a tiny spread by rounding, which is not a scale.
    return mean, np.where(spread > 1e-12 * np.abs(mean), spread, 1.0)

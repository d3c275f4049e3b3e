"""RFF-KLMS for scikit-learn: eq. (5) of the paper on one stream, sample by sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from psofed.core.features import Waves, cosine
from psofed.core.learner import lms
from psofed.core.seeds import Seeds

Array = NDArray[Any]
BLOCK = 256  # samples whose features are computed at once


class RFFKLMSRegressor(RegressorMixin, BaseEstimator):
    """Online kernel regression: w <- w + mu z (y - w^T z), z the random Fourier features of x.

    Inputs are centred and scaled by the first batch, if `scale` is true; so is the target. What
    was learned from it then stays as it is, so that later batches mean the same.

    >>> X = np.random.default_rng(0).uniform(-2, 2, (400, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> bool(RFFKLMSRegressor(dim=50, random_state=0).fit(X, y).score(X, y) > 0.8)
    True
    """

    def __init__(
        self, dim: int = 200, width: float = 1.0, step: float = 0.5, epochs: int = 10,
        scale: bool = True, random_state: Any = None,
    ) -> None:  # fmt: skip
        self.dim = dim
        self.width = width
        self.step = step
        self.epochs = epochs
        self.scale = scale
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> RFFKLMSRegressor:
        """Learn anew, `epochs` times over the samples in their order."""
        X, y = self._samples(X, y, reset=True)
        self._begin(X, y)
        for _ in range(self.epochs):
            self._learn(X, y)
        return self

    def partial_fit(self, X: Any, y: Any) -> RFFKLMSRegressor:
        """Learn on, once over the samples."""
        first = not hasattr(self, "coef_")
        X, y = self._samples(X, y, reset=first)
        if first:
            self._begin(X, y)
        self._learn(X, y)
        return self

    def predict(self, X: Any) -> Array:
        """w^T z(x), in the units of the target."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        parts = [self._features(X[i : i + BLOCK]) @ self.coef_ for i in range(0, len(X), BLOCK)]
        return np.concatenate(parts) * self.y_scale_ + self.y_mean_

    def _samples(self, X: Any, y: Any, reset: bool) -> tuple[Array, Array]:
        X, y = validate_data(self, X, y, reset=reset, dtype=np.float64, y_numeric=True)
        return X, np.asarray(y, np.float64)

    def _begin(self, X: Array, y: Array) -> None:
        seed = check_random_state(self.random_state).randint(2**31)
        # The width is of a distance per input: distances grow with the root of their number.
        width = self.width * np.sqrt(X.shape[1])
        self.features_: Waves = cosine(Seeds(int(seed)), self.dim, X.shape[1], width)
        self.x_mean_, self.x_scale_ = _scale(X, self.scale)
        mean, spread = _scale(y[:, None], self.scale)
        self.y_mean_, self.y_scale_ = float(mean[0]), float(spread[0])
        self.coef_ = np.zeros(self.dim)

    def _features(self, X: Array) -> Array:
        return self.features_((X - self.x_mean_) / self.x_scale_)

    def _learn(self, X: Array, y: Array) -> None:
        targets = (y - self.y_mean_) / self.y_scale_
        for i in range(0, len(X), BLOCK):
            Z = self._features(X[i : i + BLOCK])
            for z, target in zip(Z, targets[i : i + BLOCK], strict=True):
                lms(self.coef_, z, target, self.step)


def _scale(values: Array, wanted: bool) -> tuple[Array, Array]:
    """Mean and spread of each column, or nothing to do."""
    if not wanted:
        return np.zeros(values.shape[1]), np.ones(values.shape[1])
    mean, spread = values.mean(axis=0), values.std(axis=0)
    # A column that does not move may have a spread by rounding, which is no scale.
    return mean, np.where(spread > 1e-12 * np.abs(mean), spread, 1.0)

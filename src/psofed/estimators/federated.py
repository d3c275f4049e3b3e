"""A federation inside `fit(X, y, groups=...)`: each group is a client, its rows a stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from psofed import named
from psofed.core.features import Waves, cosine
from psofed.core.schedule import UniformCohorts
from psofed.core.seeds import Seeds
from psofed.deploy import memory
from psofed.errors import InputError
from psofed.estimators.regressor import _scale
from psofed.methods.contract import Task

Array = NDArray[Any]


class FederatedRegressor(RegressorMixin, BaseEstimator):
    """PSO-Fed, or another method, over groups of rows; predicts with the global model.

    Clients learn from their rows in order, `epochs` times; those with fewer rows than the longest
    group begin again. Without groups every row belongs to one of `clients`, in turn. `traffic_` is
    what was sent, in bytes up and down.

    >>> X = np.random.default_rng(0).uniform(-2, 2, (600, 1))
    >>> y, groups = np.sin(2 * X[:, 0]), np.arange(600) % 6
    >>> model = FederatedRegressor(dim=50, shared=10, epochs=5, random_state=0)
    >>> bool(model.fit(X, y, groups=groups).score(X, y) > 0.5)
    True
    """

    def __init__(
        self, method: str = "psofed", shared: int | None = None, dim: int = 200, width: float = 1.0,
        step: float = 0.5, cohort: int = 4, clients: int = 4, epochs: int = 5,
        random_state: Any = None,
    ) -> None:  # fmt: skip
        self.method = method
        self.shared = shared
        self.dim = dim
        self.width = width
        self.step = step
        self.cohort = cohort
        self.clients = clients
        self.epochs = epochs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> FederatedRegressor:
        """Simulate the federation with its real messages."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = np.asarray(y, np.float64)
        if groups is None:
            groups = np.arange(len(X)) % max(1, min(self.clients, len(X)))
        groups = np.asarray(groups)
        if groups.shape != (len(X),):
            raise ValueError(f"groups has shape {groups.shape}, but there are {len(X)} samples")
        self.groups_, members = np.unique(groups, return_inverse=True)
        self.x_mean_, self.x_scale_ = _scale(X, True)
        mean, spread = _scale(y[:, None], True)
        self.y_mean_, self.y_scale_ = float(mean[0]), float(spread[0])
        scaled = (X - self.x_mean_) / self.x_scale_, (y - self.y_mean_) / self.y_scale_
        inputs, targets = self._streams(*scaled, members)
        exchange = memory.run(self._start(X.shape[1]), inputs, targets)
        final = exchange.models[-1]
        self.coef_ = final if final.ndim == 1 else final.mean(axis=0)
        self.traffic_ = exchange.traffic[:, :2].sum(axis=0)
        return self

    def predict(self, X: Any) -> Array:
        """The global model's estimates."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        z = self.features_((X - self.x_mean_) / self.x_scale_)
        return np.asarray(z @ self.coef_ * self.y_scale_ + self.y_mean_)

    def _streams(self, X: Array, y: Array, members: Array) -> tuple[Array, Array]:
        """x [K, N, L] and y [K, N]: each client's rows, repeated to the same length."""
        rows = [np.flatnonzero(members == k) for k in range(len(self.groups_))]
        longest = max(map(len, rows)) * self.epochs
        index = np.stack([np.resize(own, longest) for own in rows])
        return X[index], y[index]

    def _start(self, taps: int) -> Any:
        seeds = Seeds(int(check_random_state(self.random_state).randint(2**31)))
        self.features_: Waves = cosine(seeds, self.dim, taps, self.width * np.sqrt(taps))
        clients = len(self.groups_)
        cohorts = UniformCohorts(seeds, clients, min(self.cohort, clients))
        task = Task(clients, self.dim, taps, self.step, seeds, self.features_, cohorts)
        module = named.load("psofed.methods", self.method)
        if self.shared is not None and module.Options.knob != "shared":
            raise InputError("shared", f"is given, but {self.method} has no M", "leave it out")
        chosen = {} if self.shared is None else {"shared": self.shared}
        if self.shared is None and module.Options.knob == "shared":
            chosen = {"shared": max(1, self.dim // 5)}
        options = module.Options(**chosen)
        options.check(self.dim, clients)
        return module.Method(options, task)

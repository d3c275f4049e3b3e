"""A federation inside `fit(X, y, groups=...)`: each group is a client, its rows a stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from psofed.core.features import Waves, cosine
from psofed.core.schedule import UniformCohorts
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.federation import schema
from psofed.federation.contract import Task
from psofed.fleet.protocol import in_memory
from psofed.stages.surroundings import start
from psofed.tables.estimators.regressor import _scale

Array = NDArray[Any]


class FederatedRegressor(RegressorMixin, BaseEstimator):
    """PSO-Fed, or another method, over groups of rows.

    `predict(X)` uses the global model; `predict(X, groups=...)` the own models of the groups that
    `fit` had, if the method's clients keep any, and the global one for all other rows.

    Clients learn from their rows in order, `epochs` times; those with fewer rows than the longest
    group start again from the first. Without groups every row belongs to one of `clients`, in turn.
    `traffic_` is what was sent, in bytes up and down.

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
        groups = _checked(groups, len(X))
        self.groups_, members = np.unique(groups, return_inverse=True)
        self.x_mean_, self.x_scale_ = _scale(X, True)
        mean, spread = _scale(y[:, None], True)
        self.y_mean_, self.y_scale_ = float(mean[0]), float(spread[0])
        scaled = (X - self.x_mean_) / self.x_scale_, (y - self.y_mean_) / self.y_scale_
        inputs, targets = self._streams(*scaled, members)
        exchange = in_memory.run(self._start(X.shape[1]), inputs, targets)
        final = exchange.models[-1]
        self.coef_ = final if final.ndim == 1 else final.mean(axis=0)
        own = exchange.local[-1]
        self.own_coef_ = own.copy() if own.ndim == 2 else None  # [groups, D]
        self.traffic_ = exchange.traffic[:, :2].sum(axis=0)
        return self

    def predict(self, X: Any, groups: Any = None) -> Array:
        """The predictions of the global model, or of the groups' own models where they exist."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        z = self.features_((X - self.x_mean_) / self.x_scale_)
        values = z @ self.coef_
        names = None if groups is None else _checked(groups, len(X))
        if names is not None and self.own_coef_ is not None:
            for k, name in enumerate(self.groups_):
                rows = names == name
                values[rows] = z[rows] @ self.own_coef_[k]
        return np.asarray(values * self.y_scale_ + self.y_mean_)

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
        module = schema.load("psofed.methods", self.method)
        knob = module.Options.knob
        has_shared = knob is not None and knob.field == "shared"
        if self.shared is not None and not has_shared:
            raise InputError("shared", f"is given, but {self.method} has no M", "leave it out")
        chosen = {} if self.shared is None else {"shared": self.shared}
        if self.shared is None and has_shared:
            chosen = {"shared": max(1, self.dim // 5)}
        options = module.Options(**chosen)
        options.check(self.dim, clients)
        return start(options, task)


def _checked(groups: Any, count: int) -> Array:
    groups = np.asarray(groups)
    if groups.shape != (count,):
        raise ValueError(f"groups has shape {groups.shape}, but there are {count} samples")
    return groups

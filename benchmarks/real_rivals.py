"""What people would use instead: scikit-learn's regressors, and River's that learn online.

They get the same encoded inputs as psofed and the same rounds, with those of the warm-up, and are
tuned by nothing. Models for all clients ("pooled") have all rows in one memory: no federation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from real_sets import Samples
from threadpoolctl import threadpool_limits

Array = Any
Maker = Callable[[], Any]
COSINES = "RBFSampler + Ridge"
EVERY = 3  # clients for which River's models learn: each, one sample at a time, takes long


def frozen(data: Samples, live: bool) -> dict[str, Array]:
    """Guesses [N, K] for the last quarter, of models fitted to the samples before it.

    Where labels keep coming (`live`), the last known one and that of a season ago are inputs.
    """
    x = np.concatenate([data.x, data.known], axis=-1) if live else data.x
    found = {}
    with threadpool_limits(1):
        for name, make in makers().items():
            found[f"{name}, pooled"] = _pooled(data, x, make, trees="trees" in name)
            found[f"{name}, alone"] = _alone(data, x, make)
        late = np.arange(len(x)) >= data.span.first
        found[f"{COSINES}, alone, no warm-up"] = _alone(data, x, makers()[COSINES], late)
    mean = data.y[data.learned].mean()
    found["mean"] = np.full(data.y.shape, mean)
    if live:
        found["persistence"] = data.known[..., 0]
    return found


def makers() -> dict[str, Maker]:
    """Defaults; 200 random features, as psofed has, of a width that scikit-learn finds itself."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import LinearRegression, Ridge
    from sklearn.pipeline import make_pipeline

    def cosines() -> Any:
        return make_pipeline(RBFSampler(gamma="scale", n_components=200, random_state=0), Ridge())

    return {
        "LinearRegression": LinearRegression,
        "Ridge": Ridge,
        COSINES: cosines,
        "boosted trees": lambda: HistGradientBoostingRegressor(random_state=0),
    }


def _pooled(data: Samples, x: Array, make: Maker, trees: bool) -> Array:
    """One model for all clients; trees know which client it is."""
    model = make()
    if trees:
        names = np.broadcast_to(np.arange(x.shape[1])[:, None], (*x.shape[:2], 1))
        x = np.concatenate([x, names], axis=-1)
        model.set_params(categorical_features=[x.shape[-1] - 1])
    model.fit(x[data.learned], data.y[data.learned])
    guess = np.full(data.y.shape, np.nan)
    guess[data.last] = model.predict(x[data.last])
    return guess


def _alone(data: Samples, x: Array, make: Maker, some: Array | bool = True) -> Array:
    """One model for each client, of all rounds or of some."""
    guess = np.full(data.y.shape, np.nan)
    for k in range(x.shape[1]):
        here, there = data.learned[:, k] & some, data.last[:, k]
        if there.any():
            model = make().fit(x[here, k], data.y[here, k])
            guess[there, k] = model.predict(x[there, k])
    return guess


def online(data: Samples) -> dict[str, Array]:
    """Guesses [N, K] of models that each learn a label when it becomes known, and not before.

    The last known label and that of a season ago are inputs. NaN for clients that are left out.
    Inputs are scaled by the warm-up; River's own scaler on top of it helps in some sets only.
    """
    from river import linear_model, preprocessing, tree

    kinds: dict[str, Maker] = {
        "River LinearRegression": linear_model.LinearRegression,
        "River HoeffdingAdaptiveTree": lambda: tree.HoeffdingAdaptiveTreeRegressor(seed=0),
    }
    models = dict(kinds)
    for name, make in kinds.items():
        models[f"{name}, StandardScaler"] = partial(_scaled, preprocessing.StandardScaler, make)
    x = np.concatenate([data.x, data.known], axis=-1).astype(float)
    found = {name: np.full(data.y.shape, np.nan) for name in models}
    for k in range(0, x.shape[1], EVERY):
        rows = [dict(enumerate(row)) for row in x[:, k].tolist()]
        for name, make in models.items():
            found[name][:, k] = _follow(make(), rows, data.y[:, k], data.each.delay)
    return found


def _scaled(scaler: Maker, make: Maker) -> Any:
    """A pipeline of River."""
    return scaler() | make()


def _follow(model: Any, rows: list[dict[int, float]], y: Array, delay: int) -> Array:
    """In round n: the label of round n - delay is learned; a delay of 0 is after the guess."""
    guess, has = np.full(len(y), np.nan), np.isfinite(y)
    for n, row in enumerate(rows):
        if delay and n >= delay and has[n - delay]:
            model.learn_one(rows[n - delay], float(y[n - delay]))
        if has[n]:
            guess[n] = model.predict_one(row)
            if not delay:
                model.learn_one(row, float(y[n]))
    return guess

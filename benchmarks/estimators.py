"""The estimators beside what people use: error and samples per second.

    python benchmarks/estimators.py

A nonlinear stream y = sin(3 x1) x2 + x3^2 + noise, learned once in order, judged on fresh samples.
Width and step of each are the best of a grid on a shorter stream; errors are means and standard
deviations over feature seeds. Timings are of one process on one machine: read them as ratios.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from river import linear_model, preprocessing
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDRegressor
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from psofed.tables.estimators import FederatedRegressor, RFFKLMSRegressor, RFFKLMSStream

SAMPLES, BATCH, SEEDS = 20_000, 100, 5


def draw(seed: int, count: int) -> tuple[Any, Any, Any]:
    """Inputs, noisy targets and clean targets."""
    g = np.random.default_rng(seed)
    X = g.uniform(-1.5, 1.5, (count, 5))
    clean = np.sin(3 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2
    return X, clean + 0.1 * g.standard_normal(count), clean


def main() -> None:
    """A table in Markdown."""
    X, y, _ = draw(0, SAMPLES)
    test, _, wanted = draw(1, 5000)
    print("| | error / variance | samples/s | width, step |\n|---|---|---|---|")
    for name, (make, grid) in CONTENDERS.items():
        best = min(grid, key=lambda setting: tuning_error(make, setting))
        errors, took = [], 0.0
        for seed in range(SEEDS if best else 1):
            learn = make(*best, seed=seed) if best else make()
            begin = time.perf_counter()
            predict = learn(X, y)
            took += time.perf_counter() - begin
            errors.append(np.mean((predict(test) - wanted) ** 2) / wanted.var())
        spread = f" ±{np.std(errors, ddof=1) / len(errors) ** 0.5:.3f}" if best else ""
        error, speed = f"{np.mean(errors):.3f}{spread}", SAMPLES * len(errors) / took
        shown = ", ".join(f"{value:g}" for value in best)
        print(f"| {name} | {error} | {speed:,.0f} | {shown or '-'} |", flush=True)


def measure(quick: bool) -> dict[str, float]:
    """Samples that are learned in a second of CPU time, by name; settings are not tuned."""
    X, y, _ = draw(0, SAMPLES)
    took: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    with threadpool_limits(1):
        for _ in range(1 if quick else SEEDS):
            for name, (make, grid) in CONTENDERS.items():
                begin = time.process_time()
                make(*grid[0])(X, y)
                took[name].append(time.process_time() - begin)
    return {name: SAMPLES / min(each) for name, each in took.items()}


def tuning_error(make: Any, setting: tuple[float, ...]) -> float:
    """On a stream of a quarter of the length."""
    X, y, _ = draw(2, SAMPLES // 4)
    test, _, wanted = draw(3, 1000)
    with np.errstate(all="ignore"):
        error = np.mean((make(*setting)(X, y)(test) - wanted) ** 2)
    return float(error) if np.isfinite(error) else np.inf


def in_batches(model: Any) -> Callable[..., Any]:
    """Learn by partial_fit, as a stream comes."""

    def learn(X: Any, y: Any) -> Any:
        for i in range(0, len(X), BATCH):
            model.partial_fit(X[i : i + BATCH], y[i : i + BATCH])
        return model.predict

    return learn


def one_by_one(model: Any) -> Callable[..., Any]:
    """Learn as River does."""

    def named(X: Any) -> list[dict[int, float]]:
        return [dict(enumerate(row)) for row in X.tolist()]

    def learn(X: Any, y: Any) -> Any:
        for x, target in zip(named(X), y.tolist(), strict=True):
            model.learn_one(x, target)
        return lambda new: np.array([model.predict_one(x) for x in named(new)])

    return learn


def sampled(width: float, step: float, seed: int = 9) -> Callable[..., Any]:
    """RBFSampler and SGDRegressor, the usual way to the same model."""
    sampler = RBFSampler(gamma=0.5 / width**2, n_components=200, random_state=seed)
    model = SGDRegressor(learning_rate="constant", eta0=step, alpha=0)

    def learn(X: Any, y: Any) -> Any:
        sampler.fit(X[:1])
        for i in range(0, len(X), BATCH):
            model.partial_fit(sampler.transform(X[i : i + BATCH]), y[i : i + BATCH])
        return make_pipeline(sampler, model).predict

    return learn


def kernel(width: float, step: float, seed: int = 9) -> Callable[..., Any]:
    """Ours; its width is per input."""
    return in_batches(
        RFFKLMSRegressor(width=width / 5**0.5, step=step, scale=False, random_state=seed)
    )


def stream(width: float, step: float, seed: int = 9) -> Callable[..., Any]:
    """Ours, one by one."""
    return one_by_one(RFFKLMSStream(width=width, step=step, seed=seed))


def federated(width: float, step: float, seed: int = 9) -> Callable[..., Any]:
    """Ten clients."""
    model = FederatedRegressor(
        cohort=4, epochs=1, width=width / 5**0.5, step=step, random_state=seed
    )
    return lambda X, y: model.fit(X, y, groups=np.arange(len(X)) % 10).predict


GRID = [(width, step) for width in (0.7, 1.0, 1.4) for step in (0.25, 0.5, 0.9)]
CONTENDERS: dict[str, Any] = {
    "RFFKLMSRegressor": (kernel, GRID),
    "RBFSampler + SGDRegressor": (sampled, GRID),
    "FederatedRegressor, 10 clients, M = 40": (federated, GRID),
    "RFFKLMSStream (River)": (stream, GRID),
    "River LinearRegression": (
        lambda: one_by_one(preprocessing.StandardScaler() | linear_model.LinearRegression()), [()]
    ),
    "River PARegressor": (
        lambda: one_by_one(preprocessing.StandardScaler() | linear_model.PARegressor()), [()]
    ),
    "SGDRegressor, linear": (lambda: in_batches(SGDRegressor()), [()]),
}  # fmt: skip

if __name__ == "__main__":
    with threadpool_limits(1):
        main()

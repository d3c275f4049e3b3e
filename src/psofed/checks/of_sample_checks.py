"""The rules of a sample check: verdicts that depend on a client's own samples, alike everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from psofed.checks import drivers
from psofed.checks.bench import exchange, small, stepwise
from psofed.checks.rules import largest, require
from psofed.methods import psofed
from psofed.sample_checks.contract import VERDICTS, Array, Memory, SampleCheck

CLIENTS, SAMPLES, TAPS = 3, 60, 2


def _samples(dtype: str) -> tuple[Array, Array, Array]:
    """x, y and guesses of some clients, with a wrong label here and there, and one that is none."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((SAMPLES, CLIENTS, TAPS)).astype(dtype)
    y, guess = rng.standard_normal((2, SAMPLES, CLIENTS)).astype(dtype)
    y[rng.random(y.shape) < 0.1] = -999
    y[20, 1] = np.nan
    return x, y, guess


def _stack(check: SampleCheck, dtype: str) -> Memory:
    one = check.memory(TAPS, dtype)
    return {name: np.stack([array] * CLIENTS) for name, array in one.items()}


def _told(check: SampleCheck, memory: Memory, *samples: Any) -> tuple[Array, Array]:
    found = [check.judge(memory, x, y, guess) for x, y, guess in zip(*samples, strict=True)]
    learned, verdicts = (np.array(each) for each in zip(*found, strict=True))
    return learned, verdicts


def there_is_a_verdict_on_each_sample(check: SampleCheck) -> None:
    """There is a verdict on each sample, and what is learned keeps its precision."""
    for dtype in ("float32", "float64"):
        learned, verdicts = _told(check, _stack(check, dtype), *_samples(dtype))
        require(verdicts.shape == (SAMPLES, CLIENTS), f"verdicts have shape {verdicts.shape[1:]}")
        known = verdicts.dtype.kind in "iu" and 0 <= verdicts.min() <= verdicts.max()
        require(bool(known and verdicts.max() < len(VERDICTS)), "a verdict is not one of those")
        require(learned.dtype == dtype, f"y is {learned.dtype} where {dtype} is due")


def clients_are_judged_alone(check: SampleCheck) -> None:
    """Several clients at once get the verdicts that each gets alone."""
    x, y, guess = _samples("float64")
    together = _told(check, _stack(check, "float64"), x, y, guess)
    for k in range(CLIENTS):
        alone = _told(check, check.memory(TAPS, "float64"), x[:, k], y[:, k], guess[:, k])
        for one, all_of in zip(alone, together, strict=True):
            require(np.array_equal(one, all_of[:, k], equal_nan=True), f"client {k} differs")


def memory_is_all(check: SampleCheck) -> None:
    """A memory that is saved and loaded goes on unchanged."""
    samples = _samples("float64")
    memory = _stack(check, "float64")
    _told(check, memory, *(each[:30] for each in samples))
    loaded = {name: array.copy() for name, array in memory.items()}
    rest = [each[30:] for each in samples]
    (_, one), (_, other) = _told(check, memory, *rest), _told(check, loaded, *rest)
    require(np.array_equal(one, other), "verdicts differ after it was loaded")


def executors_agree(check: SampleCheck) -> None:
    """Simulator, messages and a deployment that restarts give the same models, to 1e-12."""
    experiment = small(psofed.Options(3), check=check, rounds=drivers.ROUNDS)
    expected = stepwise(experiment)
    found = {"messages": exchange(experiment).models, "deployed": drivers.deployed(experiment)}
    for name, models in found.items():
        apart = largest(models, expected)
        require(apart <= 1e-12, f"{name} differ by {apart:.1e}")


RULES = (
    there_is_a_verdict_on_each_sample, clients_are_judged_alone, memory_is_all, executors_agree,
)  # fmt: skip

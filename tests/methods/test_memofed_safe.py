"""MEMO-Fed on inputs as tables have them: it never does worse than the mean of the labels so far."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import battery
from psofed.experiment import Features
from psofed.fleet.protocol import in_memory
from psofed.methods.memofed import Options as MEMOFed
from psofed.streams import paper

ROUNDS, TAPS, LEAST = 400, 4, 22
WORSE = 1.3  # what a model of 40 numbers may lose on labels that are noise, of one client


def plain(chance, x):
    return x, np.sin(x[..., 0]) + 0.5 * x[..., 1]


def noise(chance, x):
    return x, np.zeros(x.shape[:-1])


def collinear(chance, x):
    x = x[..., :1] + 1e-3 * x
    return x, x[..., 0]


def rare(chance, x):
    """One column of four is hot, and one of them hardly ever."""
    hot = chance.choice(TAPS, p=[0.6, 0.3, 0.09, 0.01], size=x.shape[:-1])
    return np.eye(TAPS)[hot], hot.astype(float)


def awakes(chance, x):
    """A column that was constant until half time."""
    x[:, : ROUNDS // 2, 3] = 1.0
    x[:, ROUNDS // 2 :, 3] *= 5
    return x, np.tanh(x[..., 3]) + x[..., 0]


def drifts(chance, x):
    """As temperatures from January to June."""
    x[..., 2] = 0.3 * x[..., 2] + np.linspace(-2, 6, ROUNDS)
    return x, x[..., 2] + np.sin(x[..., 0])


def heavy(chance, x):
    tails = chance.standard_t(1.2, size=x.shape)
    return np.clip(tails, -6, 6), np.clip(chance.standard_t(1.5, size=x.shape[:-1]), -20, 20)


def apart(chance, x):
    """Clients in places of their own, most of whom join late and have few labels."""
    x[..., 0] += 3 * np.arange(len(x))[:, None]
    y = np.sin(x[..., 0]) + x[..., 1]
    for k in range(1, len(x)):
        y[k, : 60 * k] = np.nan
        y[k, chance.random(ROUNDS) < 0.6] = np.nan
    return x, y


STREAMS = [plain, noise, collinear, rare, awakes, drifts, heavy, apart]


def errors(options, clients, x, y):
    """The mean square errors of the model and of the mean of all labels so far, from then on."""
    experiment = replace(
        battery.small(options, rounds=ROUNDS, clients=clients, cohort=min(clients, 2)),
        features=Features(dim=80, width=2.0), stream=paper.Options(),
    )  # fmt: skip
    method, _ = battery.prepare(experiment)
    with np.errstate(all="ignore"):
        w = in_memory.run(method, x, y).models
        guesses = np.einsum("nd,knd->kn", w[:-1], method.task.features(x))
    known = np.cumsum((~np.isnan(y)).sum(axis=0))
    mean = np.roll(np.cumsum(np.nansum(y, axis=0)) / np.maximum(known, 1), 1)
    return tuple(np.nanmean(np.square(y - m)[:, 2 * LEAST :]) for m in (guesses, mean))


@pytest.mark.parametrize("stream", STREAMS, ids=lambda s: s.__name__)
@given(seed=st.integers(0, 2**32 - 1), clients=st.integers(1, 5), scarce=st.booleans())
@settings(max_examples=4)
def test_it_is_never_worse_than_the_mean(stream, seed, clients, scarce):
    chance = np.random.default_rng(seed)
    x, y = stream(chance, chance.standard_normal((clients, ROUNDS, TAPS)))
    y = y + 0.3 * chance.standard_normal(y.shape)
    options = MEMOFed(size=40, budget=20.0 if scarce else None)
    found, mean = errors(options, clients, x, y)
    assert found <= WORSE * mean

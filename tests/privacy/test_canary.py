"""The best attack on planted data: what it proves of epsilon stays below what is stated."""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
import pytest

from psofed import Privacy, PSOFed
from psofed.cli.laws.drivers import prepare, small
from psofed.experiment import Features
from psofed.federation.clients import stacked
from psofed.stages.noise import PUBLIC, SPENT
from psofed.stages.privacy import Level

TRIALS, ROUNDS, CONFIDENCE = 20_000, 6, 0.99


def planted(level: Level, part: float, copies: int = 1) -> tuple[float, float]:
    """Epsilon as it is stated, and as an attack proves it, with this part of the noise."""
    privacy = Privacy(epsilon=3.0, level=level, clip_error=0.5, clip_change=0.4)
    privacy = replace(privacy, uploads=ROUNDS if level == "client" else None)
    features = Features("exponential", dim=10, width=1.5)  # |z| = 1: the bound is reached
    method, _ = prepare(small(PSOFed(5, "coordinated"), features=features, privacy=privacy))
    method.sigma = method.sigma * part
    there, without = (_likelihood(method, level, b, copies) for b in (True, False))
    return replace(method.noise, copies=copies).measurement, _proven(there, without, privacy.delta)


def _likelihood(method, level, planted, copies):
    """The logarithm of the likelihood ratio of what many clients sent, all with the same data."""
    random, k = np.random.default_rng(planted), np.arange(TRIALS)
    data = np.random.default_rng(5)
    real, told = stacked(method.client(), TRIALS), np.zeros(TRIALS)
    # Of somebody who knows all but what is planted.
    guesses = [stacked(method.client(), TRIALS) for _ in range(2)]
    for n in range(ROUNDS):
        x, y = data.normal(size=4), 0.3 * data.normal()
        canary = n < copies or level == "client"
        x, y = (np.ones(4) if copies > 1 else x, 50.0) if canary else (x, y)
        z = method.task.features(x)
        for client, here in ((real, planted), (guesses[0], False), (guesses[1], True)):
            if here or not canary:
                many = np.broadcast_to(z, (TRIALS, 10))
                method.learn(client, np.tile(x, (TRIALS, 1)), many, np.full(TRIALS, y))
        method._drawn = lambda k, n, shape: method.sigma * random.standard_normal(shape)
        sent = method.upload(real, k, n).values
        window = method.entries(k[:1], n, up=True)[0]
        for sign, guess in zip((1, -1), guesses, strict=True):
            public = guess[PUBLIC][:, window]
            mean = public + method._clipped(guess["w"][:, window] - public)
            told += sign * np.square(sent - mean).sum(axis=1) / (2 * method.sigma**2)
            guess["w"][:, window] = guess[PUBLIC][:, window] = sent
    assert (real[SPENT] == ROUNDS).all()
    return told


def _proven(there, without, delta):
    """The best threshold of one half, tried on the other: Clopper and Pearson's lower bound."""
    from scipy.stats import beta

    half, wrong = TRIALS // 2, (1 - CONFIDENCE) / 2
    best = 0.0, 0.0
    for threshold in np.quantile(there[:half], np.linspace(0.02, 0.999, 60)):
        hit, false = (np.mean(found[:half] > threshold) for found in (there, without))
        best = max(best, ((hit - delta) / (false + 5 / half), threshold))
    hits, falses = (int((found[half:] > best[1]).sum()) for found in (there, without))
    low = beta.ppf(wrong, hits, half - hits + 1) if hits else 0.0
    high = beta.ppf(1 - wrong, falses + 1, half - falses)
    return log(max(low - delta, 1e-300) / high)


@pytest.mark.parametrize("level", ["sample", "client"])
def test_an_attack_proves_less_than_is_stated_but_not_nothing(level):
    stated, proven = planted(level, 1.0)
    assert stated == pytest.approx(3.0)
    assert 0.8 < proven < stated


@pytest.mark.parametrize("level", ["sample", "client"])
def test_with_a_quarter_of_the_noise_it_proves_more(level):
    stated, proven = planted(level, 0.25)
    assert proven > stated


def test_a_measurement_in_several_samples_is_told_more_than_a_sample():
    stated, proven = planted("sample", 1.0, copies=4)
    assert stated == pytest.approx(15.79, abs=0.01)
    assert 3.0 < proven < stated

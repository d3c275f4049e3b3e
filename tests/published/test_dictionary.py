"""Kernel LMS with a dictionary, as its papers say, beside the script that compares it."""

from math import exp

import numpy as np
import pytest

from psofed.experiment import Experiment

script = pytest.importorskip("dictionary_klms")  # of benchmarks/

FEW = Experiment(clients=1, cohort=1, rounds=60, runs=2, test_samples=20, dtype="float64")


def kernel(a, b, width):
    return exp(-sum((p - q) ** 2 for p, q in zip(a, b, strict=True)) / (2 * width**2))


def by_hand(data, rule, step):
    """Centres and coefficients, sample by sample."""
    centres, a = [], []
    for x, y in zip(data.x.tolist(), data.y.tolist(), strict=True):
        h = [kernel(c, x, data.width) for c in centres]
        e = y - sum(p * q for p, q in zip(a, h, strict=True))
        new = all(value <= rule.coherence for value in h)
        if new:
            centres, a, h = [*centres, x], [*a, 0.0], [*h, 1.0]
        if rule.nearest:
            a[-1 if new else h.index(max(h))] += step * e
        else:
            scale = step * e / (script.TINY + sum(value**2 for value in h))
            a = [p + scale * q for p, q in zip(a, h, strict=True)]
    return np.array(centres), np.array(a)


@pytest.mark.parametrize(
    "rule", [rule for rule in script.RULES if rule.coherence], ids=lambda rule: rule.title
)
def test_the_dictionary_and_its_coefficients_are_those_of_the_papers(rule):
    data = script.stream(FEW, 0)
    steps = np.array([0.1, 0.5])
    [(centres, a)] = script.by_dictionary(data, rule, steps, [60])
    for i, step in enumerate(steps):
        expected, coefficients = by_hand(data, rule, step)
        assert np.array_equal(centres, expected)
        assert np.abs(a[i] - coefficients).max() <= 1e-12
    assert (len(centres) == 60) == (rule.coherence == 1)

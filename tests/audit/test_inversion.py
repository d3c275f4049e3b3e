from __future__ import annotations

import numpy as np
import pytest

from psofed.audit.inversion import READ, invert, spread
from psofed.audit.puzzle import Guess, Window, apart, delayed, pose
from psofed.core.features import cosine
from psofed.core.seeds import Seeds

DIM, TAPS = 200, 4


def planted(terms, shared, *, seed=0, line=False, wire="float32"):
    """A window of a model that learned from some samples, as the wire carries it."""
    seeds = Seeds(seed)
    features, luck = cosine(seeds, DIM, TAPS, 2.0), seeds.generator("planted")
    layout = delayed(terms, TAPS) if line else apart(terms, TAPS)
    u, a = luck.standard_normal(int(layout.max()) + 1), 0.6 * luck.standard_normal(terms)
    entries = luck.permutation(DIM)[:shared]
    before = 0.3 * luck.standard_normal(shared).astype(wire).astype(float)
    after = (before + a @ features(u[layout])[:, entries]).astype(wire).astype(float)
    window = Window(entries, after - before, noise=0.1 * np.finfo(wire).eps)
    return pose(features, [window], layout, Guess(a=0.6)), u, a


def misses(found, x):
    """How far the nearest found sample is from each planted one."""
    return np.array([np.abs(found.x - each).max(axis=1).min() for each in x])


@pytest.mark.parametrize(
    ("terms", "shared", "line", "wire"),
    [(1, 40, False, "float32"), (2, 40, False, "float32"), (3, 40, False, "float32"),
     (4, 40, False, "float32"), (4, 24, False, "float64"), (1, 10, False, "float16"),
     (4, 40, True, "float32"), (8, 40, True, "float32")],
)  # fmt: skip
def test_samples_that_an_upload_determines_are_read(terms, shared, line, wire):
    puzzle, u, a = planted(terms, shared, line=line, wire=wire)
    found = invert(puzzle, Seeds(1).generator("luck"))
    assert found.fits
    assert found.certain.all()
    assert misses(found, u[puzzle.layout]).max() < READ
    assert spread(puzzle, u, a).max() < READ

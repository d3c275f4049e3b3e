from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed.core.features import Gaussians, Linear, OwnMap, Whitened, cosine
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.federation.foreign import vectorised
from psofed.privacy.inversion import READ, Guess, apart, delayed, invert, pose, spread, tangent

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
    noise = 0.1 * np.finfo(wire).eps
    return pose(features, entries, after - before, layout, Guess(a=0.6), noise), u, a


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
    problem, u, a = planted(terms, shared, line=line, wire=wire)
    found = invert(problem, Seeds(1).generator("luck"))
    assert found.fits
    assert found.certain.all()
    assert misses(found, u[problem.layout]).max() < READ
    assert spread(problem, u, a).max() < READ
    told = invert(replace(problem, known=u), Seeds(1).generator("luck"))  # only a is left
    assert np.abs(told.a - a).max() < 1e-2


def test_the_same_luck_gives_the_same_answer():
    problem, _, _ = planted(3, 20)
    one, again = (invert(problem, Seeds(1).generator("luck")) for _ in range(2))
    assert one.x.tobytes() == again.x.tobytes()


def test_a_change_of_another_length_is_refused():
    features = cosine(Seeds(0), DIM, TAPS, 2.0)
    with pytest.raises(InputError, match="change has"):
        pose(features, np.arange(3), np.zeros(2), apart(1, TAPS), Guess())


@given(st.integers(1, 6), st.integers(1, 40), st.booleans(), st.integers(0, 99))
def test_a_window_determines_its_samples_if_and_only_if_it_has_as_many_entries_as_unknowns(
    terms, shared, line, seed
):
    problem, u, a = planted(terms, shared, seed=seed, line=line, wire="float64")
    a = np.where(np.abs(a) < 0.05, 0.05, a)  # a sample that was not learned from cannot be read
    determined = spread(problem, u, a) <= READ
    assert determined.all() == (shared >= problem.unknowns)


OWN = vectorised(lambda x: np.tanh(x @ np.ones((2, 3))), np.ones((15, 2)), "features.name", (3,))
BASE = cosine(Seeds(0), 6, 2, 2.0)


@pytest.mark.parametrize(
    "features",
    [BASE, Gaussians(np.eye(3, 2), 1.5), Linear(2), Whitened(BASE, np.eye(6, 4)), OwnMap(OWN, 3)],
)
def test_slopes_of_all_feature_maps_are_those_of_differences(features):
    x, entries = Seeds(0).generator("x").standard_normal((5, 2)), np.array([2, 0])
    z, slopes = tangent(features, entries)(x)
    assert np.allclose(z, features(x)[:, entries])
    for tap, nudge in enumerate(1e-6 * np.eye(2)):
        around = (features(x + nudge) - features(x - nudge))[:, entries] / 2e-6
        assert np.allclose(slopes[:, tap], around, atol=1e-7)

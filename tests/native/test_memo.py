"""What MEMO-Fed has compiled gives what the same equations give in NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from helpers.plain import both
from psofed.core import coding, native
from psofed.core.features import Cosines, Gaussians, exponential
from psofed.core.seeds import Seeds
from psofed.experiment import Experiment, Features
from psofed.methods import memofed
from psofed.methods.memo import server
from psofed.rivals import pdrls
from psofed.simulate import any_method, kernel
from psofed.simulate.draws import draw

pytestmark = pytest.mark.skipif(not native.available(), reason="nothing is compiled here")
anything = st.floats() | st.floats(-1e3, 1e3) | st.sampled_from([0.0, 2.0**-16, -1e-9, 4e4])


@given(arrays(float, st.integers(1, 20), elements=anything), st.integers(2, 16))
def test_companded_values_are_the_same_codes(v, bits):
    with np.errstate(all="ignore"):
        assert np.array_equal(*both(coding.compand, v, bits))


def quadratic(rng, dim):
    root = rng.normal(size=(dim, dim))
    return server.Quadratic(root @ root.T + np.eye(dim), *rng.normal(size=(2, dim)))


@given(st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_a_quadratic_is_replaced_in_the_sums(dim, seed):
    def after():
        rng = np.random.default_rng(seed)
        sums, old = quadratic(rng, dim), quadratic(rng, dim)
        return server.renew(sums, 3.0, 5.0, old, *rng.normal(size=(3, dim))), *sums, *old

    for ours, plain in zip(*both(after), strict=True):
        assert np.allclose(ours, plain, rtol=1e-12, atol=1e-12 * dim)


@given(st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_the_minimum_is_the_solution(dim, seed):
    rng = np.random.default_rng(seed)
    A, b, _ = quadratic(rng, dim)
    found, plain = both(server.minimum, A, 1.5, rng.uniform(size=dim), b)
    assert np.abs(found - plain).max() <= 1e-12 * max(np.abs(plain).max(), np.abs(b).max())


def test_a_matrix_that_is_not_positive_is_solved_all_the_same():
    A, b = np.array([[1.0, 3.0], [3.0, 1.0]]), np.array([1.0, 2.0])
    assert np.allclose(A @ server.minimum(A, 1.0, np.zeros(2), b), b)


@given(st.integers(1, 21), st.integers(1, 6), st.integers(0, 2**32 - 1), st.floats(1e-3, 1e5))
def test_correlations_are_the_same_for_any_spread(dim, taps, seed, spread):
    rng = np.random.default_rng(seed)
    features = Cosines(rng.normal(size=(dim, taps)), rng.uniform(0, 7, dim))
    root = rng.normal(size=(taps, taps)) * spread**0.5
    covariance = root @ root.T
    found, plain = both(features.correlation, rng.normal(size=taps), covariance)
    # The exponents are differences of numbers as large as this.
    exponent = (np.abs(features.W) @ np.abs(covariance) * np.abs(features.W)).sum(axis=1).max()
    assert np.abs(found - plain).max() <= 1e-15 * max(exponent, 10)


@pytest.mark.parametrize(
    ("taps", "dim"), [(1, 11), (3, 1), (3, 8), (3, 9), (4, 30), (5, 17), (3, 40)]
)
@pytest.mark.parametrize(("dtype", "close"), [("float32", 2e-6), ("float64", 1e-14)])
def test_features_of_one_run_are_those_of_the_map(taps, dim, dtype, close):
    rng = np.random.default_rng(taps)
    W, b, x = rng.normal(size=(dim, taps)), rng.uniform(0, 7, dim), rng.normal(size=(2, 5, taps))
    for features in (Cosines(W, b), Gaussians(W, 1.5), exponential(Seeds(2), 2 * dim, taps, 2.0)):
        exact, given = features.astype(dtype), x.astype(dtype)
        fast = kernel.compiled(exact, np.dtype(dtype))
        for one in (given, given[0], given[:, 1], given[0, :0]):
            assert fast(one).shape == exact(one).shape
            apart = np.abs(fast(one) - features(one.astype(float)))
            assert apart.max(initial=0) < close


@pytest.mark.parametrize(
    "options",
    [memofed.Options(budget=None, bits=None, size=6, silent=0), pdrls.Options(shared=4, degree=2)],
    ids=lambda o: o.title(),
)
def test_a_run_is_the_same_where_nothing_is_compiled(options):
    def models():
        settings = Experiment(
            clients=5, cohort=2, rounds=70, runs=1, features=Features(dim=12, width=1.5),
            dtype="float64", methods=(options,),
        )  # fmt: skip
        task = settings.task(0)
        (method,) = settings.start(task)
        draws = draw(settings, task, everybody=True)
        played = any_method.play(method, any_method.RunSamples(draws))
        return np.array([method.models(at.server, at.clients) for at in played])

    found, plain = both(models)
    assert np.abs(found - plain).max() <= 1e-11 * np.abs(found).max()

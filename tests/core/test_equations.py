import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from psofed.core import equations, features
from psofed.core.seeds import Seeds

values = st.floats(-10, 10, width=32)
DRAWS = 400  # independent feature maps for each kernel


@pytest.mark.parametrize("draw", [features.cosine, features.exponential])
def test_waves_approximate_the_gaussian_kernel(draw):
    x = Seeds(7).generator("x").standard_normal((12, 4))
    kernel = np.exp(-np.square(x[:, None] - x).sum(-1) / (2 * 2.0**2))
    z = np.stack([draw(Seeds(1, run), 200, 4, 2.0)(x) for run in range(DRAWS)])
    errors = z @ z.transpose(0, 2, 1) - kernel
    stderr = errors.std(axis=0) / np.sqrt(DRAWS)
    # Unbiased: of 144 entries none is further than 4.5 standard errors from zero.
    assert (np.abs(errors.mean(axis=0)) <= 4.5 * stderr + 1e-12).all()
    # One map errs by 1/sqrt(D/2) at most in standard deviation: 6 of them bound all 57,600 errors.
    assert errors.std(axis=0).max() < 1 / np.sqrt(100)
    assert np.abs(errors).max() < 6 / np.sqrt(100)


def test_exponential_features_have_norm_one_exactly():
    z = features.exponential(Seeds(0), 60, 4, 2.0)(np.random.default_rng(0).normal(size=(50, 4)))
    assert np.allclose(np.square(z).sum(-1), 1, atol=1e-14)


@given(arrays(float, 5, elements=values), arrays(float, 5, elements=values), values)
def test_a_step_of_one_over_the_power_removes_the_error(w, z, y):
    z = z + 0.5 + np.abs(z)
    equations.lms(w, z, y, 1 / (z @ z))
    assert abs(y - w @ z) < 1e-9


@given(st.data())
def test_fold_is_eq_11_as_printed(data):
    dim, cohort = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 5))
    w = data.draw(arrays(float, dim, elements=values))
    models = data.draw(arrays(float, (cohort, dim), elements=values))
    shared = data.draw(st.integers(1, dim))
    order = data.draw(st.lists(st.permutations(range(dim)), min_size=cohort, max_size=cohort))
    windows = np.array(order)[:, :shared]
    masks = (windows[:, :, None] == np.arange(dim)).any(axis=1)
    expected = np.where(masks, models, w).mean(axis=0)
    equations.fold(w, windows, equations.share(models, windows), np.full(cohort, 1 / cohort))
    assert np.allclose(w, expected, rtol=1e-12, atol=1e-12)

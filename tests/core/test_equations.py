import numpy as np
import pytest

from psofed.core import features
from psofed.core.seeds import Seeds

DRAWS = 400  # independent feature maps for each kernel


@pytest.mark.parametrize("draw", [features.cosine, features.exponential])
def test_cosines_approximate_the_gaussian_kernel(draw):
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

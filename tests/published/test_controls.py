"""RFF-KLMS at one place and at every client, in plain loops."""

import numpy as np
import pytest

from helpers.drawn import STEP, K, N, agree, drawn, lms
from psofed.methods import centralised, local

DIMS = pytest.mark.parametrize("dim", [12, 16])


@DIMS
def test_alone_every_client_makes_one_step_a_sample(dim):
    data, simulated = drawn(local.Options(), dim)
    models = np.zeros((N + 1, K, dim))
    for n in range(N):
        for k in range(K):
            models[n + 1, k] = lms(models[n, k], data.z[k][n], data.y[k][n])
    agree(models, simulated)


@DIMS
@pytest.mark.parametrize("form", ["batch", "sequential"])
def test_the_centralised_learner_sees_all_samples(form, dim):
    options = centralised.Options(form)
    data, simulated = drawn(options, dim)
    models = np.zeros((N + 1, dim))
    for n in range(N):
        w = models[n]
        steps = [lms(w, data.z[k][n], data.y[k][n]) - w for k in range(K)]
        w = w + sum(steps) / K
        if form == "sequential":
            w = models[n]
            for k in range(K):
                w = lms(w, data.z[k][n], data.y[k][n], STEP)
        models[n + 1] = w
    agree(models, simulated)

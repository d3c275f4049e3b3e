"""RFF-KLMS at one place and at every client, in plain loops."""

import numpy as np
import pytest

from helpers.by_hand import STEP, agrees, drawn, lms
from psofed.methods import centralised, local

DIMS = pytest.mark.parametrize("dim", [12, 16])


@DIMS
def test_alone_every_client_makes_one_step_a_sample(dim):
    data = drawn(local.Options(), dim)
    models = np.zeros((data.rounds + 1, data.clients, dim))
    for n in range(data.rounds):
        for k in range(data.clients):
            models[n + 1, k] = lms(models[n, k], data.z[k][n], data.y[k][n])
    assert agrees(local.Options(), models, dim)


@DIMS
@pytest.mark.parametrize("form", ["batch", "sequential"])
def test_the_centralised_learner_sees_all_samples(form, dim):
    options = centralised.Options(form)
    data = drawn(options, dim)
    models = np.zeros((data.rounds + 1, dim))
    for n in range(data.rounds):
        w = models[n]
        steps = [lms(w, data.z[k][n], data.y[k][n]) - w for k in range(data.clients)]
        w = w + sum(steps) / data.clients
        if form == "sequential":
            w = models[n]
            for k in range(data.clients):
                w = lms(w, data.z[k][n], data.y[k][n], STEP)
        models[n + 1] = w
    assert agrees(options, models, dim)

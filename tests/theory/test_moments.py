"""Correlations and moments against samples."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.battery import small
from psofed.experiment import Features
from psofed.methods import onlinefed
from psofed.streams import paper
from psofed.theory import moments


@pytest.mark.parametrize("name", ["cosine", "exponential", "gaussian"])
def test_correlations_in_closed_form_are_what_samples_show(name):
    experiment = small(onlinefed.Options(), clients=3, cohort=1, features=Features(name, dim=12))
    task = experiment.task(0)
    exact = moments.analytic(experiment, task, np.arange(3))
    x, _, _ = moments.sample(experiment, task, 200_000, "check", np.arange(3))
    for k in range(3):
        z = task.features(x[k])
        error = (z[:, :, None] * z[:, None, :])[:20_000].std(axis=0) / np.sqrt(200_000)
        score = (z.T @ z / len(z) - exact[k]) / np.maximum(error, 1e-12)
        assert np.abs(score).max() < 5
        assert np.sqrt(np.square(score).mean()) < 2  # entries are correlated


def test_control_variates_leave_the_moments_right_and_less_noisy():
    experiment = small(onlinefed.Options(), clients=3, cohort=1, features=Features(dim=12))
    task = experiment.task(0)
    truth = moments.moments(experiment, task, 400_000, "long")
    few = [moments.moments(experiment, task, 500, f"short {i}") for i in range(20)]
    x, f, _ = moments.sample(experiment, task, 500 * 20, "plain", np.arange(3))
    plain = np.einsum(
        "kncd,knc->kcd", task.features(x.reshape(3, 500, 20, 4)), f.reshape(3, 500, 20)
    )
    controlled = np.array([each.r for each in few])
    assert np.allclose(controlled.mean(axis=0), truth.r, atol=5 * controlled.std() / np.sqrt(20))
    spread = np.square(controlled - truth.r).mean()
    assert spread < 0.5 * np.square(plain / 500 - truth.r[:, None]).mean()
    assert np.allclose(np.mean([each.c for each in few], axis=0), truth.c, rtol=0.05)


def test_a_stream_that_does_not_know_its_law_is_sampled():
    class Secret(paper.Options):
        def input_law(self, seeds, clients):
            return None

    experiment = small(onlinefed.Options(), clients=3, cohort=1, stream=Secret())
    task = experiment.task(0)
    sampled = moments.moments(experiment, task, 50_000)
    exact = moments.moments(replace(experiment, stream=paper.Options()), task, 50_000)
    assert exact.analytic
    assert not sampled.analytic
    assert np.allclose(sampled.R, exact.R, atol=0.01)


def test_many_clients_are_followed_by_evenly_spread_ones():
    some = moments.followed(10**6, 200)
    assert len(some) == moments.MOST_CLIENTS
    assert len(moments.followed(10**6, 1000)) == moments.MOST_NUMBERS // 1000**2
    assert some[0] == 0
    assert np.ptp(np.diff(some)) <= 1
    assert np.array_equal(moments.followed(7, 200), np.arange(7))

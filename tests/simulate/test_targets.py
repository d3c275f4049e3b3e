"""Clean and noisy test targets: of the same inputs, in every judge, and never mixed up."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.battery import network, small
from helpers.drivers import deployment
from psofed.experiment import Features
from psofed.federation.learners import lms
from psofed.fleet import samples
from psofed.methods import fedavg, local, onlinefed, psofed
from psofed.simulate import draws, montecarlo
from psofed.simulate.onerun import one_run
from psofed.streams import paper
from psofed.theory import prediction

SMALL = small(onlinefed.Options(), psofed.Options(2), rounds=60, runs=3, test_samples=120)
NOISY = replace(SMALL, targets="noisy")


@given(
    st.integers(0, 1000),
    st.sampled_from([7, 120]),  # fewer test samples than features, or more
    st.sampled_from([lms.Options(), network.Options(hidden=2)]),
    st.sampled_from([paper.Options(), paper.Options(at=20), paper.Options(period=80)]),
    st.sampled_from([0.0, 0.4, 1.0]),
)
def test_a_model_is_judged_by_its_plain_mean_square_error(seed, count, learner, stream, a):
    linear = learner.linear
    options = {"features": SMALL.features} if linear else {"features": Features()}
    made = replace(NOISY, seed=seed, test_samples=count, learner=learner, stream=stream, **options)
    task = made.task(0)
    drawn = stream.snapshot(task.seeds, "test", made.clients, count)
    later = stream.later(drawn.x)
    f = drawn.clean if later is None else (1 - a) * drawn.clean + a * later
    w = np.random.default_rng(seed).standard_normal((2, made.dim))
    z = task.features(drawn.x)
    plain = [np.mean((f + drawn.noise - learner.predict(each, z)) ** 2) for each in w]
    found = draws.draw_test(made, task).mse(w, a)
    assert np.allclose(found, plain, rtol=1e-7)


@pytest.mark.parametrize("method", [fedavg.Options(local_steps=2), local.Options()])
def test_every_way_to_run_a_method_honours_the_targets(method):
    clean, noisy = (
        one_run(replace(each, methods=(*SMALL.methods, method)), 0) for each in (SMALL, NOISY)
    )
    assert (clean.mse != noisy.mse).all()
    assert np.array_equal(clean.traffic, noisy.traffic)


def test_the_ridge_floor_is_judged_as_the_methods_are_and_the_noise_line_stays():
    (ridge, noise), (noisy_ridge, same) = (draws.floors(each, 2) for each in (SMALL, NOISY))
    assert noise == same
    assert noisy_ridge == pytest.approx(ridge + noise, rel=0.5)
    assert noisy_ridge > ridge


def test_theory_is_judged_by_the_same_targets():
    made = replace(
        NOISY, rounds=60, runs=60, world=0, stream=paper.Options(inputs="iid"), evaluate_every=20
    )
    for predicted, simulated in zip(prediction.curves(made), montecarlo.run(made).mse, strict=True):
        assert np.allclose(predicted.mse, simulated, rtol=0.1)
        assert repr(predicted).endswith(f", {made.judged}>")


def test_a_deployed_server_tests_on_the_targets_that_its_file_names():
    plans = [
        deployment(replace(each, methods=SMALL.methods[1:]), "lockstep") for each in (SMALL, NOISY)
    ]
    w = np.full(10, 0.1)
    for plan in plans:
        expected = draws.draw_test(plan.experiment, plan.method().task).mse(w)
        assert 10 ** (samples.test_set(plan)(w) / 10) == pytest.approx(expected)
    assert plans[0].digest == plans[1].digest  # devices need not know
    assert [samples.targets(plan) for plan in plans] == ["noise-free targets", "noisy targets"]
    measured = replace(plans[0], deploy=replace(plans[0].deploy, test="test.csv"))
    assert samples.targets(measured) == "measured targets"

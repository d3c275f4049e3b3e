"""Normalised LMS where it is compiled: the engine, and a stack of clients of several runs."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psofed.cli.laws import drivers
from psofed.cli.laws.drivers import prepare, small, stepwise
from psofed.core import native
from psofed.experiment import Experiment, Features
from psofed.federation.learners import linear, lms, nlms
from psofed.methods import fedavg, memofed, onlinefed, psofed
from psofed.rivals import fedprox
from psofed.simulate import family, kernel
from psofed.simulate.onerun import _groups, one_run, some_runs

needs_engine = pytest.mark.skipif(not native.available(), reason="nothing is compiled here")
METHODS = (
    onlinefed.Options(step=1.5), psofed.Options(1), psofed.Options(3, idle=False, step=0.2),
    psofed.Options(4, scheme="coordinated"), psofed.Options(2, selection="stochastic"),
)  # fmt: skip


@needs_engine
@given(
    dim=st.sampled_from([1, 4, 13, 20]),
    epsilon=st.sampled_from([1e-9, 1e-3, 0.7]),
    stream=st.sampled_from(sorted(drivers.STREAMS)),
    seed=st.integers(0, 99),
)
@settings(max_examples=20)
def test_the_engine_has_the_models_of_the_handlers(dim, epsilon, stream, seed):
    world = {
        "features": Features(dim=dim, width=1.5), "learner": nlms.Options(epsilon), "seed": seed,
        "stream": drivers.STREAMS[stream], "rounds": drivers.ROUNDS,
    }  # fmt: skip
    for options in METHODS:
        if options.sharing[0] is not None:
            options = replace(options, shared=min(options.shared, dim), allow_uneven=True)
        experiment = small(options, **world)
        method, draws = prepare(experiment)
        assert family.supports(method)
        found, there = family.replay(draws, [method]).w[:, 0], stepwise(experiment)
        assert np.abs(found - there).max() <= 1e-12 * max(1.0, np.abs(there).max())


@needs_engine
@pytest.mark.parametrize(("dtype", "close"), [("float32", 1e-5), ("float64", 1e-13)])
@pytest.mark.parametrize("dim", [1, 7, 200])
@pytest.mark.parametrize("name", ["lms", "nlms"])
def test_the_compiled_step_is_the_learners(name, dtype, close, dim):
    rng = np.random.default_rng(dim)
    w, z = (rng.standard_normal((2, 5, dim)).astype(dtype) for _ in range(2))
    y, other = rng.standard_normal((2, 5)).astype(dtype), w.copy()
    pairs = {"lms": (kernel.Fast(), lms.Options()),
             "nlms": (kernel.FastNormalised(0.2), nlms.Options(0.2))}  # fmt: skip
    fast, learner = pairs[name]
    errors = fast.learn(w, z, y, 0.9), learner.learn(other, z, y, 0.9)
    assert np.allclose(*errors, rtol=close, atol=close * dim)
    assert np.allclose(w, other, rtol=close, atol=close * dim)
    assert w.dtype == errors[0].dtype == dtype


def test_what_is_compiled_and_what_takes_several_runs():
    methods = onlinefed.Options(), fedavg.Options(), fedprox.Options(), memofed.Options(size=5)
    world = Experiment(
        clients=8, cohort=2, rounds=20, runs=2, test_samples=40, features=Features(dim=12),
        learner=nlms.Options(), methods=methods,
    )  # fmt: skip
    groups = _groups(world, world.start(kernel.faster(world.task(0))))
    assert groups == (([0], [1, 2], [3]) if native.available() else ([], [0, 1, 2], [3]))
    inputs = replace(world, learner=linear.Options(), features=Features())
    assert _groups(inputs, inputs.start(inputs.task(0)))[1] == [0, 1, 2]
    for each in (world, inputs):
        for number, run in zip((3, 0), some_runs(each, [3, 0]), strict=True):
            assert np.array_equal(run.mse, one_run(each, number).mse)


@dataclass(frozen=True)
class Elsewhere(lms.Options):
    """LMS that begins at another model."""

    name: ClassVar[str] = "elsewhere"

    def initial(self, seeds, taps, dim):
        return np.full(dim, 2.0)


def test_a_learner_that_begins_elsewhere_is_not_taken_for_lms():
    world = replace(small(onlinefed.Options(), learner=Elsewhere()), rounds=3)
    method, _ = prepare(world)
    assert not family.supports(method)
    assert (
        one_run(world, 0).mse[0, 0] != one_run(replace(world, learner=lms.Options()), 0).mse[0, 0]
    )

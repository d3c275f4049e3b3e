import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import GOLDEN, golden
from psofed.cli.laws.executors import compare
from psofed.core import features
from psofed.core.seeds import Seeds
from psofed.experiment import Experiment, Features
from psofed.methods import psofed
from psofed.simulate import family, kernel, reference
from psofed.simulate.draws import draw, make_test


def test_there_are_golden_cases():
    assert len(GOLDEN) == 8


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_all_three_executors_replay_the_golden_case(path):
    comparison = compare(golden.read(path))
    assert set(comparison.differences) == {"reference", "engine", "messages"}
    assert comparison.passed, comparison.differences


@given(number=st.integers(0, 10**6), seed=st.integers(0, 10**6))
def test_all_three_executors_agree_on_random_cases(number, seed):
    comparison = compare(reference.draw(number, seed))
    assert comparison.passed, comparison.differences


@pytest.mark.parametrize("shift", [2**60 + 1, 10**30, -(10**20)])
def test_a_huge_shift_is_a_shift(shift):
    drawn = reference.Case(**{**vars(reference.draw(38)), "algorithm": "pso", "shift": shift})
    assert compare(drawn).passed


def test_a_method_that_changes_a_handler_is_not_run_by_the_kernel():
    class Frozen(psofed.Method):
        def learn(self, client, x, z, y):
            pass

    task = reference.draw(1).method().task
    assert family.supports(psofed.Method(psofed.Options(shared=1), task))
    assert not family.supports(Frozen(psofed.Options(shared=1), task))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("taps", [1, 3, 4, 5, 9])
def test_the_polynomial_cosine_is_as_good_as_its_precision(dtype, taps):
    waves = features.cosine(Seeds(0), 64, taps, 0.6)
    x = np.random.default_rng(0).normal(size=(500, taps)).astype(dtype)
    error = np.abs(kernel.compiled(waves, dtype)(x) - waves(x.astype(np.float64)))
    assert error.max() < {"float32": 2e-6, "float64": 4e-15}[dtype]


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(5, 60))
def test_the_tracked_test_error_is_the_test_error(seed, dim, count):
    generator = np.random.default_rng(seed)
    drawn = reference.draw(seed)
    dim = drawn.features.dim
    z, y = generator.normal(size=(count, dim)), generator.normal(size=count)
    draws, method = drawn.draws(), drawn.method()
    every, some = np.arange(draws.rounds + 1), np.unique([0, draws.rounds])
    w = family.replay(draws, [method]).w[:, 0]
    expected = np.mean(np.square(y - w @ z.T), axis=1)
    for marks in (every, some):
        found = family.run(draws, [method], marks, make_test(z, y, "float64")).mse[0]
        assert np.allclose(found, expected[marks], rtol=1e-8)


@pytest.mark.parametrize("rounds", [300, 600])
def test_chunks_do_not_matter(rounds, monkeypatch):
    experiment = Experiment(clients=9, cohort=2, rounds=rounds, dtype="float64", features=Features(dim=10),
                            methods=(psofed.Options(shared=1), psofed.Options(shared=3, selection="stochastic")))  # fmt: skip
    task = experiment.task(0)
    methods = experiment.start(task)
    few, everybody = (draw(experiment, task, everybody=e) for e in (False, True))
    whole = family.replay(everybody, methods).w
    monkeypatch.setattr("psofed.simulate.draws.CHUNK_SAMPLES", 1)
    assert len(list(few.chunks())) == -(-rounds // 256)
    assert np.abs(family.replay(few, methods).w - whole).max() <= 1e-12
    assert np.abs(family.replay(everybody, methods).w - whole).max() <= 1e-12

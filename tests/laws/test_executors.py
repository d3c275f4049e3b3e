import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import GOLDEN, golden
from psofed.cli.laws.executors import compare
from psofed.core import features
from psofed.core.equations import lms
from psofed.core.schedule import Rotating
from psofed.core.seeds import Seeds
from psofed.experiment import Experiment, Features
from psofed.methods import psofed
from psofed.simulate import family, kernel, reference
from psofed.simulate.draws import draw, make_test


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_all_three_executors_replay_the_golden_case(path):
    comparison = compare(golden.read(path))
    assert set(comparison.differences) == {"reference", "engine", "messages"}
    assert comparison.passed, comparison.differences


@given(number=st.integers(0, 10**6), seed=st.integers(0, 10**6))
def test_all_three_executors_agree_on_random_cases(number, seed):
    comparison = compare(reference.draw(number, seed))
    assert comparison.passed, comparison.differences


@pytest.mark.parametrize("field", ["y", "masks0", "selected", "tau", "mu", "w0", "b"])
def test_a_planted_change_is_noticed(field, tmp_path):
    table = json.loads(GOLDEN[-1].read_text())
    if field in ("tau", "mu"):
        table[field] += 1
    elif field == "selected":
        table["selected"][3] = [k for k in range(6) if k not in table["selected"][3]]
    elif field == "masks0":
        table["masks0"][0] = [(p + 1) % 12 for p in table["masks0"][0]]
    else:
        row = table[field] if isinstance(table[field][0], float) else table[field][0]
        row[0] += 1e-9
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(table))
    assert not compare(golden.read(path)).passed


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
    cosines = features.cosine(Seeds(0), 64, taps, 0.6)
    x = np.random.default_rng(0).normal(size=(500, taps)).astype(dtype)
    error = np.abs(kernel.compiled(cosines, dtype)(x) - cosines(x.astype(np.float64)))
    assert error.max() < {"float32": 2e-6, "float64": 4e-15}[dtype]


@given(st.integers(0, 10**6), st.integers(1, 90), st.integers(1, 3), st.integers(1, 20))
def test_catching_up_in_blocks_is_learning_sample_by_sample(seed, samples, methods, dim):
    generator = np.random.default_rng(seed)
    feature = features.cosine(Seeds(seed), dim, 2, 1.0)
    steps = generator.uniform(0.1, 0.9, methods)
    x, y = generator.normal(size=(1, samples, 2)), generator.normal(size=(1, samples))
    # Selected once, at the end: all before is idle learning.
    cohorts = (*((),) * (samples - 1), (0,))
    start = family.Start(np.zeros(dim), generator.normal(size=(1, dim)))
    silent = reference.Case(
        "", "pso", feature, x, y, cohorts, 0.5, np.zeros((1, 1), int), 0, start.w, start.local
    )
    bound = []
    for step in steps:
        task = replace(silent.method().task, step=step)
        window = Rotating(np.zeros((1, 1), np.intp), 0, dim)
        bound.append(psofed.Method(psofed.Options(shared=1, idle=True), task, window))
    found = family.replay(silent.draws(), bound, start).w[-1, :, 0]
    for step, w_0 in zip(steps, found, strict=True):
        w = start.local[0].copy()
        for n in range(samples):
            w[0] = 0 if n == samples - 1 else w[0]  # the window that is received
            lms(w, feature(x[0, n]), y[0, n], step)
        assert abs(w_0 - w[0]) <= 1e-12 * max(1, np.abs(w).max())


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

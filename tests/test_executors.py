import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import GOLDEN
from psofed import case
from psofed.case import TOLERANCE
from psofed.core import features
from psofed.core.learner import lms
from psofed.core.seeds import Seeds
from psofed.report.verification import compare, engine
from psofed.simulate import engine as kernel
from psofed.simulate import fused
from psofed.simulate.draws import Draws


def test_there_are_golden_cases():
    assert len(GOLDEN) == 8


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_all_three_executors_replay_the_golden_case(path):
    comparison = compare(case.read(path))
    assert set(comparison.differences) == {"reference", "engine", "messages"}
    assert comparison.passed, comparison.differences


@given(number=st.integers(0, 10**6), seed=st.integers(0, 10**6))
def test_all_three_executors_agree_on_random_cases(number, seed):
    comparison = compare(case.draw(number, seed))
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
    assert not compare(case.read(path)).passed


def test_a_dormant_client_is_plain_lms():
    drawn = case.draw(1)
    silent = case.Case(**{**vars(drawn), "algorithm": "pso", "cohorts": ((),) * drawn.x.shape[1]})
    _, local = engine(silent)
    for k, w in enumerate(silent.local0.copy()):
        for x, y in zip(silent.x[k], silent.y[k], strict=True):
            lms(w, silent.features(x), y, silent.step)
        assert np.abs(local[-1, k] - w).max() <= TOLERANCE


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_polynomial_cosine_is_as_good_as_its_precision(dtype):
    waves = features.cosine(Seeds(0), 64, 3, 0.3)
    x = np.random.default_rng(0).normal(size=(500, 3)).astype(dtype)
    z = np.empty((500, 64), dtype)
    kernel.fill_features(x, fused._map(waves, np.dtype(dtype)), z)
    exact = waves(x.astype(np.float64))
    assert np.abs(z - exact).max() < {"float32": 2e-6, "float64": 2e-15}[dtype]


def test_the_sine_polynomials_have_the_stated_error():
    s = np.linspace(-0.25, 0.25, 100_001)
    for name, bound in (("float32", 3.4e-9), ("float64", 4e-16)):
        p = s * np.polyval(kernel.SINE[name], s * s)
        assert np.abs(p - np.sin(2 * np.pi * s)).max() < bound


@pytest.mark.parametrize("name", ["cosine", "exponential", "gaussian"])
def test_the_kernels_features_are_those_of_core(name):
    generator = np.random.default_rng(1)
    x = generator.normal(size=(40, 4))
    if name == "gaussian":
        feature = features.gaussian(generator.normal(size=(30, 4)), 2.0)
    else:
        feature = getattr(features, name)(Seeds(2), 30, 4, 2.0)
    z = np.empty((40, 30))
    kernel.fill_features(x, fused._map(feature, np.dtype("float64")), z)
    assert np.abs(z - feature(x)).max() < 1e-14


@given(st.integers(0, 100), st.integers(1, 70), st.integers(1, 3), st.integers(1, 9), st.data())
def test_catching_up_is_learning_sample_by_sample(seed, samples, methods, dim, data):
    generator = np.random.default_rng(seed)
    feature = features.cosine(Seeds(seed), dim, 2, 1.0)
    x, y = generator.normal(size=(1, samples, 2)), generator.normal(size=(1, samples))
    step = generator.uniform(0.1, 0.9, methods)
    first = data.draw(st.integers(0, samples))
    local = generator.normal(size=(1, methods, dim))
    expected = local[0].copy()
    for n in range(first, samples):
        lms(expected, feature(x[0, n]), y[0, n], step)
    nothing = np.zeros(1, np.int64)
    kernel.catch_up(
        0,
        samples,
        kernel.Data(x, y, nothing, nothing),
        fused._map(feature, np.dtype("float64")),
        kernel.Plans(step, methods, nothing, nothing, nothing, nothing, np.zeros(1, np.int32)),
        kernel.Models(np.zeros((methods, dim)), local, np.array([first])),
    )
    assert np.abs(local[0] - expected).max() <= 1e-12 * max(1, np.abs(expected).max())


def test_the_clients_that_were_not_drawn_do_not_matter():
    drawn = case.draw(3)
    draws = Draws(
        drawn.features,
        np.array([4, 70]),
        np.ones((2, 5, drawn.x.shape[2])),
        np.ones((2, 5)),
        np.array([0, 1, 2, 3, 4, 5]),
        np.array([70, 4, 70, 70, 4]),
    )
    dense = Draws(
        drawn.features,
        np.arange(71),
        np.ones((71, 5, drawn.x.shape[2])),
        np.ones((71, 5)),
        draws.start,
        draws.members,
    )
    options = case.psofed.Options(shared=1)
    method = case.psofed.Method(options, drawn.method().task)
    few, all_of_them = (fused.run(d, [method], np.arange(6)).w for d in (draws, dense))
    assert np.array_equal(few, all_of_them)

"""Features in a whitened basis: what the map promises, in every executor, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.mistakes import refused_in_files
from psofed import experiment as experiments
from psofed.cli.laws.executors import compare_methods
from psofed.core import native
from psofed.core.features import Cosines, Gaussians, Linear, guess, whiten
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.federation.learners import lms, nlms
from psofed.methods import centralised, fedavg, memofed, onlinefed, psofed
from psofed.simulate import kernel
from psofed.tables import export

SMALL = Experiment(
    clients=6, cohort=2, rounds=40, runs=1, dtype="float64", test_samples=100,
    features=Features(dim=16, basis="whitened", size=9),
    methods=(onlinefed.Options(), psofed.Options(shared=3), fedavg.Options(local_steps=4),
             memofed.Options(size=5), centralised.Options()),
)  # fmt: skip


def squares(x):
    return np.concatenate([x, x**2 / 2], axis=-1)


def drawn(features, seed=0, taps=4):
    """The map of an experiment with these features, and its guess of the inputs' law."""
    world = replace(SMALL, features=features, methods=(onlinefed.Options(),), seed=seed)
    found = world.draw_features(Seeds(seed))
    return found, (np.zeros(taps), guess(taps, features.spread, features.correlation))


@given(
    name=st.sampled_from(["cosine", "exponential", "gaussian"]),
    dim=st.integers(1, 30).map(lambda n: 2 * n),
    share=st.floats(0, 1),
    whiten=st.floats(0, 1),
    spread=st.floats(0.1, 3),
    correlation=st.floats(0, 0.9),
    seed=st.integers(0, 9),
)
def test_under_the_guess_the_power_is_one(name, dim, share, whiten, spread, correlation, seed):
    size = max(round(share * dim), 1)
    table = Features(
        name, dim, basis="whitened", size=size, whiten=whiten, spread=spread,
        correlation=correlation,
    )  # fmt: skip
    found, law = drawn(table, seed)
    R = found.correlation(*law)
    assert found.dim == table.entries == size == len(R)
    assert np.trace(R) == pytest.approx(1, abs=1e-9)
    apart = R - np.diag(np.diag(R))
    assert np.abs(apart).max() <= 1e-9


def test_whitened_features_have_the_same_power_in_all_directions_and_so_have_samples():
    found, law = drawn(Features(dim=60, basis="whitened", size=12, whiten=1.0, epsilon=1e-12))
    assert np.abs(found.correlation(*law) - np.eye(12) / 12).max() <= 1e-7
    half, _ = drawn(Features(dim=60, basis="whitened", size=12, whiten=0.5, epsilon=1e-12))
    turned, _ = drawn(Features(dim=60, basis="whitened", size=12, whiten=0.0))
    powers = [np.diag(each.correlation(*law)) for each in (half, turned)]
    roots = np.sqrt(powers[1])
    assert np.allclose(powers[0], roots / roots.sum(), rtol=1e-6)
    u = found(np.random.default_rng(1).multivariate_normal(*law, 200_000))
    assert np.allclose(u.T @ u / len(u), np.eye(12) / 12, atol=0.01)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 7, 16, 33, 60])
@pytest.mark.parametrize("base", ["cosine", "gaussian", squares])
def test_the_compiled_map_is_the_one_in_numpy_and_samples_do_not_mix(base, size, dtype):
    dim = 60 if isinstance(base, str) else 8
    features = Features(base, dim, basis="whitened", size=min(size, dim))
    found = drawn(features)[0].astype(dtype)
    fast = kernel.compiled(found, dtype)
    x = np.random.default_rng(0).standard_normal((3, 7, 4)).astype(dtype)
    u, close = found(x), {"float32": 1e-5, "float64": 1e-13}[dtype]
    assert u.shape == (3, 7, found.dim)
    assert np.abs(fast(x) - u).max() <= close * np.abs(u).max()
    assert np.array_equal(fast(x[1:2, 4:]), fast(x)[1:2, 4:])
    assert (fast is not found) == native.available()


def test_the_basis_is_the_one_of_memo_fed():
    world = replace(SMALL, methods=(memofed.Options(size=9),), features=Features(dim=16))
    (memo,) = world.start(world.task(0))
    own = replace(SMALL.features, whiten=1.0)
    found = replace(world, features=own, methods=(onlinefed.Options(),)).task(0).features
    assert np.allclose(found.T / np.linalg.norm(found.T), memo.T / np.linalg.norm(memo.T))


@pytest.mark.parametrize("learner", [lms.Options(), nlms.Options()], ids=lambda o: o.name)
def test_all_executors_agree(learner):
    for features in (SMALL.features, Features(squares, 8, basis="whitened", size=5)):
        world = replace(SMALL, features=features, learner=learner)
        for found in compare_methods(world, 30):
            assert found.passed, found
            assert found.against == "lockstep"
            assert "messages" in found.differences
        engine = compare_methods(replace(world, methods=world.methods[:2]), 30)
        assert all("engine" in each.differences for each in engine) == native.available()


def test_titles_tell_bases_apart_and_files_have_the_basis_and_nothing_else():
    table = SMALL.to_table()
    assert experiments.parse(table) == SMALL
    assert table["features"] == {
        "name": "cosine", "dim": 16, "width": 2.0, "basis": "whitened", "size": 9,
        "whiten": SMALL.features.whiten, "epsilon": 1e-4, "spread": 1.0, "correlation": 0.5,
    }  # fmt: skip
    assert "size" not in Features(basis="whitened").to_table()
    assert Features(basis="whitened").entries == 80
    assert Features(dim=30, basis="whitened").entries == 30
    whole = [replace(SMALL.features, whiten=each).describe() for each in (0.0, 0.25, 0.5, 1.0)]
    assert len(set(whole)) == 4


BASIS = "[features]\nbasis = 'whitened'\n"
test_mistakes_in_a_file_are_named = refused_in_files({
    "[features]\nsize = 20": "features.size is given, but there is no basis",
    "[features]\nwhiten = 1": "features.whiten is given, but there is no basis",
    '[features]\nbasis = "white"': "features.basis is 'white'",
    BASIS + "size = 0": "features.size is 0; use 1 to 200",
    BASIS + "size = 201": "features.size is 201; use 1 to 200",
    BASIS + "size = 8.5": "features.size is 8.5, a number",
    BASIS + "whiten = 1.1": "features.whiten is 1.1; use 0",
    BASIS + "whiten = nan": "features.whiten is nan; use 0",
    BASIS + "epsilon = 0": "features.epsilon is 0.0; use a number above 0",
    BASIS + "spread = inf": "features.spread is inf; use a variance",
    BASIS + "correlation = 1": "features.correlation is 1.0; use 0 to 1",
    BASIS + "dim = 5000": "features.dim is 5,000, but a basis needs",
    BASIS + 'size = 20\n[[methods]]\nname = "psofed"': "methods[0].shared is 40",
})  # fmt: skip


def test_features_that_vanish_under_the_guess_are_refused():
    far = Gaussians(np.full((3, 2), 1e9), 1.0)
    with pytest.raises(InputError, match="vanish"):
        whiten(far, np.eye(2), 2, 1.0, 1e-4)
    one = whiten(Linear(1), np.eye(1), 1, 1.0, 1e-4)
    assert one.dim == 1


def test_a_model_in_a_basis_is_exported_as_one_of_the_features():
    found = drawn(Features(dim=16, basis="whitened", size=5))[0]
    c, x = np.arange(1.0, 6.0), np.random.default_rng(0).standard_normal((8, 4))
    features, w = export.unfolded(found, c)
    assert isinstance(features, Cosines)
    assert np.allclose(features(x) @ w, found(x) @ c, atol=1e-12)

"""Learners by themselves: gradients, rules, shapes, and what each refuses."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.mistakes import is_named
from psofed.cli.laws import of_samples
from psofed.cli.laws.rules import BrokenError
from psofed.core.features import Linear, Unchanged
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.federation import schema
from psofed.federation.learners import linear, lms, network, nlms
from psofed.federation.learners.contract import Learner
from psofed.methods import memofed, onlinefed, psofed
from psofed.rivals import fedprox, pdrls, psorls

OURS = [lms.Options(), nlms.Options(), linear.Options(), network.Options(5), network.Options(3, 2)]
every_learner = pytest.mark.parametrize("learner", OURS, ids=lambda o: o.describe())
TAPS, FEATURES = 3, 6


def models(learner, count, seed=0):
    """Random models, and points for them."""
    rng, dim = np.random.default_rng(seed), learner.size(TAPS, FEATURES)
    width = FEATURES if learner.featured else learner.inputs(TAPS).dim
    return rng.standard_normal((count, dim)), rng.standard_normal((count, width))


@given(
    hidden=st.integers(1, 6), layers=st.integers(1, 3), taps=st.integers(1, 4),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_the_gradient_is_that_of_finite_differences(hidden, layers, taps, seed):
    learner, rng = network.Options(hidden, layers), np.random.default_rng(seed)
    dim = learner.size(taps, 0)
    w, x, tiny = rng.standard_normal(dim), rng.standard_normal(taps), 1e-5
    steps = tiny * np.eye(dim)
    rise = learner.predict(w + steps, x) - learner.predict(w - steps, x)
    np.testing.assert_allclose(learner.direction(w, x), rise / (2 * tiny), atol=1e-8)


@every_learner
def test_many_models_at_once_are_each_by_itself(learner):
    w, z = models(learner, 4)
    y = np.arange(4.0)
    alone = [learner.predict(w[i], z[i]) for i in range(4)]
    np.testing.assert_allclose(learner.predict(w, z), alone, atol=1e-14)
    grid = [[learner.predict(one, point) for point in z] for one in w]
    np.testing.assert_allclose([learner.predict(one, z) for one in w], grid, atol=1e-14)
    slopes = np.array([learner.direction(w[0], point) for point in z])
    np.testing.assert_allclose(learner.direction(w[0], z), slopes, atol=1e-14)
    together, each = w.copy(), w.copy()
    errors = learner.learn(together, z, y, 0.3)
    np.testing.assert_allclose(errors, y - alone, atol=1e-14)
    np.testing.assert_allclose(
        errors, [learner.learn(*s, 0.3) for s in zip(each, z, y, strict=True)]
    )
    np.testing.assert_allclose(together, each, atol=1e-14)
    assert not np.array_equal(together, w)


@every_learner
def test_what_a_learner_declares_of_itself_is_so(learner):
    w, z = models(learner, 5)
    product = z.shape == w.shape and np.allclose(learner.predict(w, z), np.vecdot(w, z))
    assert learner.linear == product
    error = 2.0 - learner.predict(w, z)
    stepped = w + 0.1 * error[:, None] * learner.direction(w, z)
    learner.learn(w, z, np.full(5, 2.0), 0.1)
    np.testing.assert_allclose(w, stepped, atol=1e-14)
    assert learner.descends


@every_learner
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_precision_of_a_model_is_kept(learner, dtype):
    w, z = (array.astype(dtype) for array in models(learner, 2))
    assert learner.learn(w, z, np.ones(2, dtype), 0.1).dtype == dtype
    assert learner.predict(w, z).dtype == learner.direction(w, z).dtype == dtype


@given(seed=st.integers(0, 99), step=st.floats(0.01, 1.9), epsilon=st.floats(1e-6, 1.0))
def test_normalised_lms_is_its_formula_and_never_overshoots(seed, step, epsilon):
    learner = nlms.Options(epsilon)
    w, z = (array[0] for array in models(learner, 1, seed))
    before, error = w.copy(), learner.learn(w, z, 3.0, step)
    np.testing.assert_allclose(w, before + step * error * z / (epsilon + z @ z), rtol=1e-10)
    assert abs(3.0 - w @ z) <= abs(error) * (1 + 1e-9)


def test_the_linear_learner_is_lms_on_linear_features():
    x, y = np.random.default_rng(0).standard_normal((2, 5, 3)), np.arange(5.0)
    learner, w = linear.Options(), np.zeros((2, 5, 4))
    z = learner.inputs(3)(x[0])
    assert learner.inputs(3) == Linear(3)
    learner.learn(w[0], z, y, 0.4)
    lms.Options().learn(w[1], Linear(3)(x[0]), y, 0.4)
    np.testing.assert_array_equal(w[0], w[1])


def test_a_network_begins_with_the_same_model_everywhere_and_predicts_zero():
    learner = network.Options(7, 2)
    dim = learner.size(TAPS, 0)
    w = learner.initial(Seeds(3), TAPS, dim)
    np.testing.assert_array_equal(w, learner.initial(Seeds(3), TAPS, dim))
    assert not np.array_equal(w, learner.initial(Seeds(4), TAPS, dim))
    assert not learner.predict(w, np.ones((4, TAPS))).any()
    np.testing.assert_array_equal(  # a world is one place, whatever the run
        learner.initial(Seeds(3, 1, 0), TAPS, dim), learner.initial(Seeds(3, 2, 0), TAPS, dim)
    )


def test_steps_mean_about_the_same_whatever_the_width():
    lengths = []
    for hidden in (5, 50, 500):
        learner, rng = network.Options(hidden), np.random.default_rng(1)
        w = rng.standard_normal((50, learner.size(4, 0)))
        lengths.append(np.square(learner.direction(w, rng.standard_normal((50, 4)))).sum(1).mean())
    assert all(0.5 < length < 2 for length in lengths)


def test_inputs_are_passed_on_as_they_are():
    x = np.random.default_rng(0).standard_normal((20_000, 2)) + 1
    assert Unchanged(2)(x) is x
    R = Unchanged(2).correlation(np.ones(2), np.eye(2))
    np.testing.assert_allclose(R, x.T @ x / len(x), atol=0.1)


def test_a_declaration_does_not_outlive_the_function_it_is_about():
    class Cubes(lms.Options):
        def predict(self, w, z):
            return (w @ z) ** 3

    class Squares(Learner):
        def predict(self, w, z):
            return (w @ z) ** 2

    assert Signs().linear
    assert not Signs().descends
    assert not Signs().compiled
    assert not Cubes().linear
    assert not Cubes().compiled
    assert Squares().descends


# What does not fit together.


@pytest.mark.parametrize("method", [psorls, pdrls, memofed])
def test_methods_that_need_a_linear_model_say_so(method):
    with pytest.raises(InputError, match=r"methods\[0\].name is \w+, which needs a linear model"):
        Experiment(learner=network.Options(), methods=(method.Options(),))
    for learner in (lms.Options(), nlms.Options()):
        Experiment(learner=learner, methods=(method.Options(),))


@dataclass(frozen=True)
class Signs(lms.Options):
    """The sign of the error in its place: a rule of its own."""

    name: ClassVar[str] = "signs"

    def learn(self, w, z, y, step):
        error = y - self.predict(w, z)
        w += (step * np.sign(error))[..., None] * z
        return error


def test_a_learner_with_its_own_rule_is_refused_by_methods_that_change_the_step():
    with pytest.raises(InputError, match=r"fedprox, which changes the step, and signs has its own"):
        Experiment(learner=Signs(), methods=(fedprox.Options(),))
    assert Experiment(learner=Signs(), methods=(psofed.Options(),)).dim == 200


@dataclass(frozen=True)
class Rule(lms.Options):
    """LMS, of which each case below breaks one rule of the contract."""

    name: ClassVar[str] = "rule"


def copies(self, w, z, y, step):
    error = y - self.predict(w, z)
    w = w + (step * error)[..., None] * z
    return error


def says_the_error_after(self, w, z, y, step):
    Rule.learn(self, w, z, y, step)
    return y - self.predict(w, z)


BROKEN = {
    "initial gives two models for the same seeds; draw from seeds.world.generator":
        {"initial": lambda self, seeds, taps, dim: np.random.default_rng().standard_normal(dim)},
    r"initial returns an array of shape \[9\], not \[10\]":
        {"initial": lambda self, seeds, taps, dim: np.zeros(dim - 1)},
    "learn changes nothing; change w in place": {"learn": copies},
    "learn returns a NoneType": {"learn": lambda *given: Rule.learn(*given) is None or None},
    "learn gives other numbers .* it has to return y minus the prediction before":
        {"learn": says_the_error_after},
    r"predict returns an array of shape \[\], not \[3\]":
        {"predict": lambda self, w, z: np.sum(w * z)},
    r"predict gives other numbers .* it is not w\^T z, as linear says":
        {"predict": lambda self, w, z: np.vecdot(w, z) ** 3, "linear": True},
    "size is 11, but z has 10 entries": {"size": lambda self, taps, features: features + 1},
    "learn gives other numbers .* as descends says":
        {"learn": lambda self, w, z, y, step: Rule.learn(self, w, z, y, 2 * step), "descends": True},
    r"predict fails at .*test_learners.py:\d+: NameError: name 'zz' is not defined":
        {"predict": lambda self, w, z: w @ zz},  # noqa: F821
}  # fmt: skip


@pytest.mark.parametrize("said", BROKEN)
def test_an_own_learner_that_breaks_the_contract_is_told_which_rule(said):
    with pytest.raises(BrokenError, match=said):
        of_samples.arrays_have_their_shapes(type("Broken", (Rule,), BROKEN[said])())


WRONG = {
    "[learner]": "learner.name is missing; use one of linear, lms, network, nlms",
    "learner = 3": "learner is 3, a whole number; use a table",
    "[learner]\nname = 'netwrk'": "learner.name is 'netwrk', which does not exist; did you mean 'network'?",
    "[learner]\nname = 'network'\nhiden = 3": "learner.hiden is not a known key; did you mean 'hidden'?",
    "[learner]\nname = 'network'\nhidden = 0": "learner.hidden is 0; use a number above 0",
    "[learner]\nname = 'network'\nhidden = 2.5": "learner.hidden is 2.5, a number; use a whole number",
    "[learner]\nname = 'network'\nlayers = 9": "learner.layers is 9; use 8 at most",
    "[learner]\nname = 'network'\nhidden = 90000": "learner.hidden is 90000, which makes 540001 parameters",
    "[learner]\nname = 'nlms'\nepsilon = 0": "learner.epsilon is 0.0; use a number above 0",
    "[learner]\nname = 'network'\n[features]\ndim = 200": "features is given, but the learner network",
    "[learner]\nname = 'linear'\n[[methods]]\nname = 'psofed'\nshared = 9": "methods[0].shared is 9, but dim is 5",
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_in_the_table_is_named(text, tmp_path):
    assert is_named(text, WRONG[text], tmp_path)


def test_features_that_no_one_would_use_are_refused():
    with pytest.raises(InputError, match="features is given, but the learner network takes"):
        Experiment(learner=network.Options(), features=Features(width=3.0))
    with pytest.raises(InputError, match="learner is 'network'; use the Options of a learner"):
        Experiment(learner="network")


def test_names_are_those_of_the_files():
    for name in schema.names("psofed.learners"):
        assert schema.load("psofed.learners", name).Options.name == name


@every_learner
def test_the_table_comes_back_from_toml(learner, tmp_path):
    from psofed import experiment

    made = Experiment(learner=learner, methods=(psofed.Options(shared=2),), runs=2)
    path = tmp_path / "e.toml"
    path.write_text(made.to_toml())
    assert experiment.read(path) == made
    assert ("learner" in made.to_table()) == (learner != lms.Options())
    assert ("features" in made.to_table()) == learner.featured


def test_the_default_is_not_written_so_older_files_and_digests_stay_the_same():
    made = Experiment(methods=(onlinefed.Options(),))
    assert "learner" not in made.to_toml()
    assert made == replace(made, learner=lms.Options())


PARAMETERS = r"learner.name is 'waste', which has -?[\d,]+ parameters"
NO_NUMBER = r"learner.size returns .*; return a whole number"


@pytest.mark.parametrize(
    ("count", "told"),
    [(0, PARAMETERS), (-3, PARAMETERS), (10**6, PARAMETERS),
     (12.0, NO_NUMBER), (None, NO_NUMBER), ("12", NO_NUMBER)],
)  # fmt: skip
def test_a_size_that_is_no_size_is_refused(count, told):
    @dataclass(frozen=True)
    class Waste(Learner):
        name: ClassVar[str] = "waste"

        def size(self, taps, features):
            return count

        def predict(self, w, z):
            return z[..., 0]

    with pytest.raises(InputError, match=told):
        Experiment(learner=Waste(), methods=(onlinefed.Options(),))

"""Learners by themselves: gradients, rules, shapes, and what each refuses."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.battery import holds, network
from helpers.mistakes import refused_in_files
from psofed.cli.laws import of_samples
from psofed.cli.laws.rules import BrokenError
from psofed.core.features import Linear
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.federation.learners import linear, lms, nlms
from psofed.federation.learners.contract import Learner
from psofed.methods import memofed, onlinefed, psofed
from psofed.rivals import fedprox, pdrls, psorls

EVERY = [lms.Options(), nlms.Options(), linear.Options(), network.Options(5)]
every_learner = pytest.mark.parametrize("learner", EVERY, ids=lambda o: o.name)


@every_learner
def test_every_learner_obeys_every_rule(learner):
    for rule in of_samples.LEARNER:
        holds(rule, learner)
    assert learner.descends


@given(hidden=st.integers(1, 6), taps=st.integers(1, 4), seed=st.integers(0, 99))
def test_the_gradient_of_a_network_is_that_of_finite_differences(hidden, taps, seed):
    learner, rng = network.Options(hidden), np.random.default_rng(seed)
    dim = learner.size(taps, 0)
    w, x, tiny = rng.standard_normal(dim), Linear(taps)(rng.standard_normal(taps)), 1e-5
    steps = tiny * np.eye(dim)
    rise = learner.predict(w + steps, x) - learner.predict(w - steps, x)
    np.testing.assert_allclose(learner.direction(w, x), rise / (2 * tiny), atol=1e-8)
    first = learner.initial(Seeds(seed), taps, dim)
    assert not np.array_equal(first, learner.initial(Seeds(seed + 1), taps, dim))
    assert learner.predict(first, x) == 0


def test_without_features_z_is_the_inputs_and_a_constant_and_the_linear_learner_is_lms_on_it():
    x, y = np.random.default_rng(0).standard_normal((5, 3)), np.arange(5.0)
    world = Experiment(learner=linear.Options(), methods=(onlinefed.Options(),))
    assert world.task(0).features == Linear(4)
    w, other = np.zeros((2, 5, 4))
    linear.Options().learn(w, Linear(3)(x), y, 0.4)
    lms.Options().learn(other, Linear(3)(x), y, 0.4)
    np.testing.assert_array_equal(w, other)


@dataclass(frozen=True)
class Signs(lms.Options):
    """The sign of the error in its place: a rule of its own."""

    name: ClassVar[str] = "signs"

    def learn(self, w, z, y, step):
        error = y - self.predict(w, z)
        w += (step * np.sign(error))[..., None] * z
        return error


def test_a_declaration_does_not_outlive_the_function_it_is_about():
    class Cubes(lms.Options):
        def predict(self, w, z):
            return (w @ z) ** 3

    class Squares(Learner):
        def predict(self, w, z):
            return (w @ z) ** 2

    assert Signs().linear
    assert not Signs().descends
    assert not Signs().in_engine
    assert not Cubes().linear
    assert not Cubes().in_engine
    assert Squares().descends


def test_methods_say_which_models_they_cannot_learn():
    for method in (psorls, pdrls, memofed):
        with pytest.raises(InputError, match=r"methods\[0\].name is \w+, which needs a linear mo"):
            Experiment(learner=network.Options(), methods=(method.Options(),))
        for learner in (lms.Options(), nlms.Options()):
            Experiment(learner=learner, methods=(method.Options(),))
    with pytest.raises(InputError, match=r"fedprox, which changes the step, and signs has its own"):
        Experiment(learner=Signs(), methods=(fedprox.Options(),))
    assert Experiment(learner=Signs(), methods=(psofed.Options(),)).dim == 200


@dataclass(frozen=True)
class Rule(lms.Options):
    """LMS, of which each case below breaks one rule of the contract."""

    name: ClassVar[str] = "rule"


BROKEN = {
    "initial gives two models for the same seeds; draw from seeds.world.generator":
        {"initial": lambda self, seeds, taps, dim: np.random.default_rng().standard_normal(dim)},
    r"initial returns an array of shape \[9\], not \[10\]":
        {"initial": lambda self, seeds, taps, dim: np.zeros(dim - 1)},
    "learn returns a NoneType": {"learn": lambda *given: Rule.learn(*given) is None or None},
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
def test_an_own_learner_that_breaks_the_contract_is_refused_with_the_rule(said):
    with pytest.raises(BrokenError, match=said):
        of_samples.arrays_have_their_shapes(type("Broken", (Rule,), BROKEN[said])())


test_a_mistake_in_the_table_is_named = refused_in_files({
    "[learner]": "learner.name is missing; use one of linear, lms, nlms",
    "learner = 3": "learner is 3, a whole number; use a table",
    "[learner]\nname = 'nlsm'": "learner.name is 'nlsm', which does not exist; did you mean 'nlms'?",
    "[learner]\nname = 'nlms'\nepsilo = 3": "learner.epsilo is not a known key; did you mean 'epsilon'?",
    "[learner]\nname = 'nlms'\nepsilon = 0": "learner.epsilon is 0.0; use a number above 0",
    "[learner]\nname = 'nlms'\nepsilon = 'a'": "learner.epsilon is 'a', a text; use a number",
    "[learner]\nname = 'linear'\n[features]\ndim = 200\n[[methods]]\nname = 'onlinefed'": "features is given, but the learner linear",
    "[learner]\nname = 'linear'\n[[methods]]\nname = 'psofed'\nshared = 9": "methods[0].shared is 9, but dim is 5",
})  # fmt: skip


def test_features_that_no_one_would_use_are_refused():
    with pytest.raises(InputError, match="features is given, but the learner network takes"):
        Experiment(learner=network.Options(), features=Features(width=3.0))
    with pytest.raises(InputError, match=r"learner is <object .*; use the Options of a learner"):
        Experiment(learner=object())


PARAMETERS = r"learner.name is 'network', which has -?[\d,]+ parameters"
NO_NUMBER = r"learner.size returns .*; return a whole number"


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, PARAMETERS), (-3, PARAMETERS), (10**6, PARAMETERS),
     (12.0, NO_NUMBER), (None, NO_NUMBER), ("12", NO_NUMBER)],
)  # fmt: skip
def test_a_size_that_is_no_size_is_refused(count, said):
    waste = type("Waste", (network.Options,), {"size": lambda self, taps, features: count})
    with pytest.raises(InputError, match=said):
        Experiment(learner=waste(), methods=(onlinefed.Options(),))

"""Features that users bring, and features of several kernels."""

from dataclasses import replace

import numpy as np
import pytest

import psofed
from helpers.mistakes import refused
from psofed.core.features import OwnMap, cosine
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.federation.foreign import vectorised
from psofed.methods import fedavg, memofed, onlinefed
from psofed.methods import psofed as pso
from psofed.simulate import family
from psofed.simulate.family import supports
from psofed.simulate.onerun import one_run

SMALL = Experiment(
    clients=5, cohort=2, rounds=50, runs=1, test_samples=200, features=Features(dim=12),
    methods=(onlinefed.Options(), pso.Options(shared=3), fedavg.Options(), memofed.Options()),
)  # fmt: skip


def waves(generator, taps, dim, width):
    """The paper's features, as a user would draw them."""
    W, b = generator.standard_normal((dim, taps)) / width, generator.uniform(0, 2 * np.pi, dim)
    return lambda x: np.sqrt(2 / dim) * np.cos(x @ W.T + b)


def angles(x):
    return np.concatenate([np.sin(x), np.cos(x)], axis=-1) / 2


def test_the_papers_features_drawn_by_a_user_give_the_papers_curves():
    methods = SMALL.methods[:3]  # MEMO-Fed takes moments in closed form, or from draws
    ours = replace(SMALL, methods=methods, dtype="float64")
    own = replace(ours, features=Features(waves, dim=12, drawn=True))
    assert [supports(method) for method in own.start(own.task(0))] == [True, True, False]
    assert np.allclose(one_run(own, 2).mse, one_run(ours, 2).mse, rtol=1e-9)
    assert np.allclose(one_run(own, 2).floors, one_run(ours, 2).floors, rtol=1e-6)


def test_how_many_features_are_in_memory_does_not_change_a_result(monkeypatch):
    methods = onlinefed.Options(), pso.Options(shared=3, selection="stochastic")
    own = replace(SMALL, methods=methods, features=Features(angles, dim=8), dtype="float64")
    whole = one_run(own, 0).mse
    for room in (1, 8 * 5 * 7):
        monkeypatch.setattr(family, "ROOM", room)
        assert np.allclose(one_run(own, 0).mse, whole, rtol=1e-12)


def test_correlations_from_draws_are_near_those_in_closed_form():
    exact = cosine(Seeds(0), 10, 3, 2.0)
    own = OwnMap(vectorised(exact, np.ones((15, 3)), "features.name", (10,)), 10)
    law = np.array([0.1, -0.2, 0.0]), np.diag([0.5, 1.0, 0.0])
    assert np.allclose(own.correlation(*law), exact.correlation(*law), atol=0.02)
    assert np.array_equal(own.correlation(*law), own.correlation(*law))


test_what_is_no_map_of_that_dimension_is_refused_at_the_start = refused({
    "features.dim is 9, but angles gives 8 numbers; use 8": {"name": angles, "dim": 9},
    "features.name returns an array of shape [1], not [1, 2]": {"name": lambda x: x[..., 0], "dim": 2},
    "features.name gives nan for x": {"name": lambda x: np.sqrt(x), "dim": 4},
    "features.name returns a ndarray, but drawn is true; return a function of x": {
        "name": lambda *drawn: np.zeros(4), "dim": 4, "drawn": True,
    },
    "drawn is true, but cosine features are drawn anyway": {"drawn": True},
    "name is 'cosin'; use \"cosine\" or": {"name": "cosin"},
    "name is './mine.py'; say which function in it: \"./mine.py:z\"": {"name": "./mine.py"},
    "name is 3; give a name or a function": {"name": 3},
}, lambda given: Experiment(features=Features(**given), methods=(onlinefed.Options(),)))  # fmt: skip


def test_a_map_is_written_by_its_place():
    table = Features(angles, dim=8).to_table()
    assert table["name"].endswith(":angles")
    assert "drawn" not in table
    assert Features(**table).name(np.ones(2)).tolist() == angles(np.ones(2)).tolist()
    with pytest.raises(InputError, match=r"features.name is <lambda>, which no file can name"):
        Features(lambda x: x, dim=4).to_table()
    assert Features().to_table() == {"name": "cosine", "dim": 200, "width": 2.0}


def test_several_widths_are_several_kernels_with_about_as_many_features_each():
    one, many = Features(dim=11, width=1.0), Features(dim=11, widths=(0.5, 2.0, 4.0))
    drawn, scaled = (
        Experiment(features=f, methods=(psofed.PSOFed(3),)).task(0) for f in (one, many)
    )
    widths = np.repeat([0.5, 2.0, 4.0], [4, 4, 3])[:, None]
    np.testing.assert_allclose(scaled.features.W * widths, drawn.features.W, rtol=1e-6)
    np.testing.assert_array_equal(scaled.features.b, drawn.features.b)
    assert Features(**many.to_table() | {"widths": (0.5, 2.0, 4.0)}) == many
    assert many.describe() == "cosine 11, widths 0.5 2 4"


test_widths_that_mean_nothing_are_refused = refused({
    "widths is given, but so is width": lambda: Features(widths=(1.0, 2.0), width=3.0),
    "widths is given, but so is name": lambda: Features("gaussian", widths=(1.0,)),
    "widths is [1.0, 0.0]": lambda: Features(widths=(1.0, 0.0)),
    "widths has 3 kernels for 2 features": lambda: Features(widths=(1.0, 2.0, 3.0), dim=2),
})  # fmt: skip

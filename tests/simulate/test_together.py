"""Several Monte-Carlo runs in one computation: each has the numbers that it has alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.battery import METHODS, TRIED
from psofed.core import native
from psofed.experiment import Experiment, Features
from psofed.methods import fedavg, local, memofed, onlinefed, psofed
from psofed.rivals import etpsofed, pdlms, qsgd, quantised, topk
from psofed.simulate import onerun
from psofed.simulate.onerun import one_run, some_runs
from psofed.stages.checks import outliers
from psofed.stages.privacy import Privacy
from psofed.streams import paper

SMALL = Experiment(
    clients=12, cohort=3, rounds=45, runs=4, test_samples=40, evaluate_every=7,
    features=Features("cosine", dim=10), methods=(fedavg.Options(),),
)  # fmt: skip


def assert_alone(experiment, numbers):
    """The runs, computed together, are those computed one by one, to the bit."""
    together = some_runs(experiment, numbers)
    for number, run in zip(numbers, together, strict=True):
        alone = one_run(experiment, number)
        for name in ("mse", "traffic", "floors", "counts"):
            assert np.array_equal(getattr(run, name), getattr(alone, name), equal_nan=True), name


@pytest.mark.parametrize("options", TRIED, ids=lambda options: options.title())
def test_a_run_is_the_same_whatever_is_computed_with_it(options):
    assert_alone(replace(SMALL, methods=(options,)), [5, 0])


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=6, unique=True),
    st.lists(st.sampled_from(METHODS), min_size=1, max_size=4, unique_by=lambda o: o.title()),
    st.integers(1, 30),
    st.sampled_from([1, 2, 5, 12]),
    st.sampled_from([0.0, 0.25]),
    st.sampled_from(["float32", "float64"]),
)
def test_any_runs_of_any_methods_are_what_they_are_alone(
    numbers, methods, rounds, cohort, absent, dtype
):
    cohort = min(cohort, round(12 * (1 - absent)))
    fits = tuple(replace(o, label=f"{i}") for i, o in enumerate(methods))
    experiment = replace(
        SMALL, rounds=rounds, cohort=cohort, absent=absent, methods=fits, dtype=dtype,
        evaluate_every=min(SMALL.evaluate_every, rounds),
    )  # fmt: skip
    assert_alone(experiment, numbers)


@pytest.mark.parametrize("options", TRIED, ids=lambda options: options.title())
def test_a_step_is_the_same_whatever_steps_stand_beside_it(options):
    options = replace(options, label="")
    averaged = (False, True) if options.serves else (False,)
    trials = tuple(
        replace(options, step=mu, average=a, label=f"{mu} {a}")
        for mu in (0.3, None)
        for a in averaged
    )
    [_, found] = some_runs(replace(SMALL, methods=trials), [4, 1])
    for j, each in enumerate(trials):
        alone = one_run(replace(SMALL, methods=(each,)), 1)
        assert np.array_equal(found.mse[j], alone.mse[0])
        assert np.array_equal(found.traffic[:, j], alone.traffic[:, 0])


@pytest.mark.parametrize("options", [fedavg.Options(3), quantised.Options(4), topk.Options(2)])
@pytest.mark.parametrize(
    "change_of", ["world", "f", "averaging", "features", "own features", "check", "noise", "masks"]
)
def test_what_an_experiment_may_bring_changes_nothing_of_that(options, change_of):
    changed = {
        "world": {"world": 7},
        "f": {"stream": paper.Options(at=20)},
        "averaging": {"methods": (replace(options, average=True),)},
        "features": {"features": Features("gaussian", dim=10, width=2.0)},
        "own features": {"features": Features(lambda x: np.cos(x), dim=4)},
        "check": {"check": outliers.Options(factor=2.0, window=7)},
        "noise": {"privacy": Privacy(epsilon=4.0)},
        "masks": {"privacy": Privacy(masks=True)},
    }[change_of]
    if change_of in ("own features", "noise", "masks"):
        options = fedavg.Options(3)
    assert_alone(replace(SMALL, **{"methods": (options,)} | changed), [2, 9])


@pytest.mark.parametrize("options", TRIED, ids=lambda options: options.title())
def test_clients_that_never_take_part_need_no_place_and_change_nothing(options, monkeypatch):
    many = replace(SMALL, clients=60, rounds=12, methods=(options,))
    assert not onerun.few(many)
    few = some_runs(many, [1, 2])
    monkeypatch.setattr(onerun, "few", lambda experiment: True)
    for a, b in zip(few, some_runs(many, [1, 2]), strict=True):
        assert np.array_equal(a.mse, b.mse, equal_nan=True)
        assert np.array_equal(a.traffic, b.traffic)


def test_methods_are_what_they_are_alone_where_most_clients_are_never_selected():
    """Compiled, several runs at once, one by one: places of clients are those of each group."""
    many = replace(SMALL, clients=500, rounds=20)
    methods = (
        psofed.Options(3), memofed.Options(), fedavg.Options(), onlinefed.Options(),
        topk.Options(), local.Options(), qsgd.Options(), etpsofed.Options(4),
        quantised.Options(4, bits=2, reference="last"),
    )  # fmt: skip
    found = one_run(replace(many, methods=methods), 1)
    for j, options in enumerate(methods):
        alone = one_run(replace(many, methods=(options,)), 1)
        assert np.array_equal(found.mse[j], alone.mse[0]), options.title()
        assert np.array_equal(found.traffic[:, j], alone.traffic[:, 0]), options.title()


def test_without_compiled_code_runs_are_computed_together_too(monkeypatch):
    windows = (psofed.Options(m, s) for m in (1, 4) for s in ("coordinated", "uncoordinated"))
    methods = (fedavg.Options(3), pdlms.Options(5), onlinefed.Options(), *windows)
    experiment = replace(SMALL, methods=methods, dtype="float64")
    compiled = some_runs(experiment, [1, 2])
    monkeypatch.setattr(native, "library", lambda level=None: None)
    assert_alone(experiment, [1, 2])
    for a, b in zip(some_runs(experiment, [1, 2]), compiled, strict=True):
        assert np.allclose(a.mse, b.mse, rtol=1e-9, atol=0)
        assert np.array_equal(a.traffic, b.traffic)

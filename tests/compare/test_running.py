"""Python says in warnings what the command line says."""

import warnings

import numpy as np

import psofed
from psofed.core import native
from psofed.errors import PsofedWarning

FEW = {"clients": 5, "cohort": 2, "rounds": 400, "runs": 1, "test_samples": 20, "dtype": "float64"}


def told(act):
    """What is said, at whose line."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        act()
    assert all(each.category is PsofedWarning for each in found)
    assert {each.filename for each in found} <= {__file__}
    return [str(each.message) for each in found]


def experiment(*methods, **changes):
    return psofed.Experiment(**FEW | changes, features=psofed.Features(dim=20), methods=methods)


def test_nothing_is_said_where_all_is_well():
    assert told(lambda: psofed.run(experiment(psofed.PSOFed(4), psofed.FedAvg()), 1)) == []


def test_a_step_that_is_too_large_is_named_before_and_what_diverged_after(recwarn):
    fast = experiment(psofed.PSOFed(4, step=3.0), psofed.PSOFed(4))
    unsafe, lost = told(lambda: psofed.run(fast, 1))
    assert "step 3 is unsafe, its mean-square limit is about" in unsafe
    assert lost.startswith("PSO-Fed M=4 uncoordinated, step 3 diverged: the error is not a number")


def test_what_overflows_has_diverged():
    lost = told(lambda: psofed.run(experiment(psofed.FedAvg(step=5.0), rounds=4000), 1))
    assert any("FedAvg E=5 diverged" in line for line in lost)


def test_without_compiled_code_it_says_so(monkeypatch):
    monkeypatch.setattr(native, "available", lambda: False)
    (line,) = told(lambda: psofed.run(experiment(psofed.FedAvg(), rounds=5), 1))
    assert line.startswith("This psofed has no compiled code: it takes many times as long")


def test_a_federation_says_that_its_step_is_unsafe_and_that_it_has_diverged():
    made = []
    unsafe = told(lambda: made.append(psofed.Federation(2, ["a"], step=2.5)))
    assert unsafe == ["step 2.5 is unsafe; use a smaller step, and inputs and targets of about 1"]
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(20_000):
            made[0].learn_one("a", [i % 3, 1], i % 5)
        (line,) = told(lambda: made[0].predict_one("a", [1, 1]))
    assert line.startswith("the model of 'a' has diverged")

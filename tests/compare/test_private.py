"""Sweeps and comparisons of experiments that promise privacy."""

import pytest

from psofed import Experiment, Features, InputError, Privacy, PSOFed, compare_methods, sweep

SMALL = {"clients": 8, "cohort": 4, "rounds": 20, "runs": 2, "test_samples": 30}
PRIVATE = Experiment(
    **SMALL, features=Features(dim=20), methods=(PSOFed(5),), privacy=Privacy(epsilon=4.0)
)


def test_epsilon_can_be_swept():
    found = sweep(PRIVATE, {"privacy.epsilon": [1.0, 1000.0]}, progress=False)
    first, second = found.curves
    assert first.mse_db[0, -1] > second.mse_db[0, -1]


def test_a_setting_of_privacy_needs_its_table():
    with pytest.raises(InputError, match=r"write a table \[privacy\]"):
        sweep(Experiment(**SMALL), {"privacy.epsilon": [1.0]}, progress=False)


@pytest.mark.parametrize("tuning", ["fair", "quick"])
def test_steps_for_which_no_promise_holds_are_not_tuned(tuning):
    with pytest.raises(InputError, match="tuning tries larger ones"):
        compare_methods(PRIVATE, tuning=tuning, progress=False)

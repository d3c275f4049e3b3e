"""What a check refuses and what it never does, as laws over sequences of errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import psofed
from helpers.battery import holds
from helpers.mistakes import refused
from psofed.cli.laws import of_samples
from psofed.errors import InputError
from psofed.federation.clients import stacked
from psofed.stages.checks import outliers
from psofed.stages.checks import range as ranges
from psofed.stages.checks.contract import (
    CLIPPED,
    EARLY,
    FAR,
    LEARNED,
    OUTSIDE,
    STUCK,
    SampleCheck,
)
from psofed.stages.surroundings import Surroundings, start

FACTOR, WINDOW = 4.0, 9
CHECK = outliers.Options(factor=FACTOR, window=WINDOW)
alike = st.floats(1, FACTOR)  # two of them are never more than FACTOR apart
signs = st.sampled_from([-1.0, 1.0])


def told(check, values, dtype="float64", guess=0.0):
    """The verdicts on one client's labels, each with another x."""
    memory = check.memory(1, dtype)
    y = np.asarray(values, dtype)
    made = [check.judge(memory, np.array([i], dtype), y[i], np.asarray(guess, dtype))
            for i in range(len(y))]  # fmt: skip
    return [int(verdict) for _, verdict in made], [float(learned) for learned, _ in made]


@pytest.mark.parametrize("check", [CHECK, outliers.Options(action="clip"), ranges.Options(-2, 2)],
                         ids=lambda check: check.describe())  # fmt: skip
@pytest.mark.parametrize("rule", of_samples.CHECK, ids=lambda rule: rule.__name__)
def test_our_checks_obey_the_rules(check, rule):
    holds(rule, check)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(st.lists(st.tuples(alike, signs), max_size=60), st.integers(-20, 20))
def test_a_sample_within_range_and_factor_is_never_refused(dtype, samples, power):
    values = [size * sign * 2.0**power for size, sign in samples]
    verdicts, learned = told(CHECK, values, dtype)
    assert verdicts[:2] == [EARLY] * min(len(values), 2)
    assert set(verdicts[2:]) <= {LEARNED}
    assert learned == np.asarray(values, dtype).tolist()


@given(st.lists(alike, min_size=5, max_size=40), st.data())
def test_one_label_that_is_far_off_is_refused_wherever_it_comes(values, data):
    at = data.draw(st.integers(0, len(values) - 1))
    values[at] = -FACTOR * FACTOR * 1.01
    verdicts, _ = told(CHECK, values)
    assert verdicts[at] == (FAR if at >= 2 else EARLY)
    assert set(verdicts[2:at] + verdicts[max(at + 1, 2) :]) <= {LEARNED}


@given(st.lists(alike, min_size=WINDOW, max_size=30), st.integers(1, (WINDOW - 1) // 2),
       st.floats(20, 1e30))  # fmt: skip
def test_a_burst_shorter_than_half_the_window_is_refused_whole_and_forgotten(before, length, size):
    verdicts, _ = told(CHECK, [*before, *[size] * length, *before])
    burst = slice(len(before), len(before) + length)
    assert verdicts[burst] == [FAR] * length
    assert FAR not in verdicts[burst.stop :]


@pytest.mark.parametrize("window", [3, 9, 31])
@given(st.lists(alike, min_size=31, max_size=50), st.lists(alike, min_size=40, max_size=60),
       st.floats(-60, 60))  # fmt: skip
def test_a_world_that_has_changed_is_believed_after_half_a_window(window, before, after, power):
    check = outliers.Options(factor=FACTOR, window=window)
    verdicts, _ = told(check, [*before, *(2.0**power * each for each in after)])
    late = verdicts[len(before) :]
    assert late.count(FAR) <= (window - 1) // 2
    assert FAR not in late[(window - 1) // 2 :], "and from then on nothing is refused"


@given(st.lists(alike, min_size=3, max_size=30), st.floats(1e2, 1e6), signs, st.floats(-5, 5))
def test_a_clipped_error_has_just_the_size_that_is_allowed(values, size, sign, guess):
    check = outliers.Options(factor=FACTOR, window=WINDOW, action="clip")
    verdicts, learned = told(
        check, [*(guess + v for v in values), guess + sign * size], guess=guess
    )
    last = sorted([*[abs(guess + v - guess) for v in values[-(WINDOW - 1) :]], size])
    assert verdicts[-1] == CLIPPED
    assert learned[-1] - guess == pytest.approx(sign * FACTOR * last[(len(last) - 1) // 2])


@given(st.integers(1, 6), st.integers(1, 20), st.floats(-3, 3))
def test_a_sensor_that_is_stuck_is_refused_until_it_moves(repeats, length, value):
    check, memory, x = outliers.Options(repeats=repeats, factor=1e9), {}, np.zeros(2)
    memory = check.memory(2, "float64")
    verdicts = [int(check.judge(memory, x, np.array(value), np.array(1.0))[1])
                for _ in range(length)]  # fmt: skip
    assert verdicts[repeats:] == [STUCK] * (length - repeats)
    assert STUCK not in verdicts[:repeats]
    moved = check.judge(memory, x + 1, np.array(value), np.array(1.0))[1]
    assert moved != STUCK


@given(st.lists(st.floats(allow_nan=False, width=32), max_size=30), st.floats(-9, 0),
       st.floats(0.5, 9))  # fmt: skip
def test_a_range_refuses_what_is_outside_and_nothing_else(values, low, high):
    verdicts, _ = told(ranges.Options(low, high), values)
    assert verdicts == [LEARNED if low <= value <= high else OUTSIDE for value in values]


def test_a_model_that_has_diverged_is_no_fault_of_the_samples():
    verdicts, _ = told(CHECK, [1.0] * 5, guess=np.inf)
    assert verdicts == [LEARNED] * 5
    memory = CHECK.memory(1, "float64")
    CHECK.judge(memory, np.zeros(1), np.array(1.0), np.array(np.nan))
    assert memory["count"] == 0


test_a_check_that_cannot_be_is_refused_with_advice = refused({
    "check.factor is 0.5; use 1 or more": psofed.checks.Outliers(factor=0.5),
    "check.window is 4; use an odd number, 3 or more": psofed.checks.Outliers(window=4),
    "check.repeats is 0; use a number above 0": psofed.checks.Outliers(repeats=0),
    "check.low is 2, and high is 1; use less": psofed.checks.InRange(low=2.0, high=1.0),
    "check.low is 'a', a text; use a number": psofed.checks.InRange(low="a"),
    "check is <object object at ...; use the Options of a sample check": object(),
}, lambda check: psofed.Experiment(check=check))  # fmt: skip


def test_a_check_without_a_verdict_is_named():
    class Mute(SampleCheck):
        name = "mute"

        def judge(self, memory, x, y, guess):
            return y, np.full(y.shape, 99)

    task = psofed.Experiment(clients=5, rounds=3).task(0)
    method = start(psofed.PSOFed(), task, Surroundings(check=Mute()))
    state = stacked(method.client(), 1)
    with pytest.raises(InputError, match="judge gives no verdict on each sample"):
        method.learn(state, np.ones((1, 4)), np.ones((1, 200)), np.ones(1, np.float32))

"""The time left, on recorded and on made-up jobs: no clock, only times."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed.pace import Pace, Standing


def ends_of(durations, workers, start=0.0):
    """When each unit is known to be finished: units begin in order and are told in order."""
    free = [start] * workers
    ends = []
    for duration in durations:
        end = heapq.heappop(free) + duration
        ends.append(max(end, ends[-1] if ends else start))
        heapq.heappush(free, end)
    return ends


def worst(pace, ends, begin=0.0, already=0, slack=1.0):
    """The largest error from a third of the job on, in shares of the time that was really left.

    A second is no error, as it is not shown finer; nor is `slack`.
    """
    last, wrong, told = ends[-1], 0.0, 0
    for now in np.linspace(begin, last, 400, endpoint=False):
        while told < len(ends) and ends[told] <= now:
            told += 1
            pace.advance(ends[told - 1], already + told)
        if now - begin < (last - begin) / 3:
            continue
        left = pace.standing(now).left
        if left is None:
            return np.inf
        wrong = max(wrong, (abs(left - (last - now)) - slack) / (last - now))
    return wrong


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("runs", [48, 100, 500])
@pytest.mark.parametrize("spread", [0, 0.15])
def test_the_time_left_is_right_within_30_percent_from_a_third_of_the_job_on(workers, runs, spread):
    rng = np.random.default_rng([workers, runs])
    durations = 4.0 * np.exp(spread * rng.standard_normal(runs))
    ends = ends_of(durations, workers)
    assert worst(Pace(0.0, workers, runs), ends, slack=4.0 if spread else 1.0) <= 0.3  # a run


@pytest.mark.parametrize("workers", [1, 2])
def test_slow_first_runs_are_forgotten(workers):
    durations = [9.0] * 12 + [2.0] * 150
    assert worst(Pace(0.0, workers, len(durations)), ends_of(durations, workers)) <= 0.3


def test_two_workers_that_finish_together_are_not_twice_as_slow_at_every_other_run():
    ends = [t for k in range(1, 7) for t in (10.0 * k, 10.0 * k + 0.1)]
    assert worst(Pace(0.0, 2, 12), ends) <= 0.3


def test_a_few_runs_on_two_workers_end_when_the_last_worker_does():
    # Three runs of 10 s: the third is alone.
    pace = Pace(0.0, 2, 3)
    pace.advance(10.0, 1)
    pace.advance(10.1, 2)
    assert pace.standing(10.2).left == pytest.approx(9.9, abs=0.3)


def test_runs_from_before_a_resume_are_not_counted_as_quick_ones():
    already, runs = 60, 100
    pace = Pace(0.0, 2, runs, already)
    for done in range(50, 61):  # sums first, then the runs stored one by one
        pace.advance(0.01, done)
    assert pace.standing(0.02).left is None
    ends = ends_of([3.0] * (runs - already), 2)
    assert worst(pace, ends, already=already) <= 0.3


def test_parts_of_runs_tell_the_time_before_the_first_run_is_finished():
    pace = Pace(0.0, 2, 3)
    for now in range(1, 100):
        pace.work(2 * now / 100)  # both are at now percent
        if now > 33:
            left = pace.standing(float(now)).left
            assert left == pytest.approx(200 - now, rel=0.3)


def test_nothing_is_promised_before_anything_is_known():
    standing = Pace(0.0, 2, 500).standing(30.0)
    assert standing.left is None
    assert standing.words() == "0 of 500 runs, 30 s so far"
    assert "?" not in Standing(3, None, 5.0, None).words()


@given(
    workers=st.integers(1, 9),
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=60),
    gaps=st.lists(st.floats(0, 100), min_size=60, max_size=60),
    more=st.integers(0, 1000),
)
def test_any_sequence_gives_a_time_that_is_neither_negative_nor_absurd(workers, sizes, gaps, more):
    total, now, done = sum(sizes) + more, 0.0, 0
    pace = Pace(now, workers, total)
    for size, gap in zip(sizes, gaps, strict=False):
        now, done = now + gap, done + size
        pace.advance(now, done)
        left = pace.standing(now).left
        assert left is not None
        # No unit seemed to take longer than all the time so far.
        assert 0 <= left <= now * (total - done + 1)
    if total == done:
        assert pace.standing(now).left == 0


@given(st.integers(1, 4), st.floats(0.01, 50), st.integers(20, 400))
def test_equal_runs_are_foreseen_exactly(workers, seconds, runs):
    pace = Pace(0.0, workers, runs)
    ends = ends_of([seconds] * runs, workers)
    for done, end in enumerate(ends[: runs // 2], 1):
        pace.advance(end, done)
    now = ends[runs // 2 - 1]
    assert pace.standing(now).left == pytest.approx(ends[-1] - now, rel=0.02, abs=0.05)


def test_memory_does_not_grow_with_the_job():
    pace = Pace(0.0, 2, 10**6)
    for done in range(1, 20_000):
        pace.advance(0.01 * done, done)
    assert len(pace._ends) < 500


def test_where_many_units_end_together_their_parts_tell_the_time():
    pace = Pace(0.0, workers=2, total=32)
    pace.by_parts = True
    for now in (5.0, 30.0, 59.0):
        pace.work(now * 32 / 120)
        assert pace.standing(now).left == pytest.approx(120 - now)
        assert pace.standing(now).rough
    pace.advance(60.0, 16)
    pace.work(24.0)
    assert pace.standing(90.0).left == pytest.approx(30)
    assert not pace.standing(90.0).rough

"""The time left, on made-up jobs: no clock, only times; and the work that processes report."""

from __future__ import annotations

import heapq
import types
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed.experiment import Experiment
from psofed.federation import progress
from psofed.federation.progress import LEAST, Progress, Rate
from psofed.methods import fedavg, psofed
from psofed.simulate import montecarlo, pools


def spans_of(durations, workers, start=0.0):
    """When each unit begins and ends: whoever is free takes the next one."""
    free, spans = [start] * workers, []
    for duration in durations:
        begin = heapq.heappop(free)
        spans.append((begin, begin + duration))
        heapq.heappush(free, begin + duration)
    return np.array(spans)


def worked(spans, now, parts):
    """Units done at a time, with parts of those in work if they are counted."""
    begin, end = spans.T
    shares = np.clip((now - begin) / (end - begin), 0, 1)
    return float(shares.sum() if parts else np.floor(shares).sum())


def worst(spans, slack, parts=True, already=0):
    """The largest error from a third of the job on, in shares of the time that was really left.

    A second is no error, as it is not shown finer; nor is `slack`.
    """
    last, wrong, rate = spans[:, 1].max(), 0.0, Rate(0.0, already)
    for now in np.linspace(0.0, last, 1000, endpoint=False):
        rate.see(now, already + worked(spans, now, parts))
        left = rate.left(now, already + len(spans))
        if now >= last / 3:
            assert left is not None
            wrong = max(wrong, (abs(left - (last - now)) - max(slack, 1.0)) / (last - now))
    return wrong


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("runs", [3, 12, 48, 100, 500])
@pytest.mark.parametrize("spread", [0, 0.15])
def test_the_time_left_is_right_within_30_percent_or_a_run_from_a_third_on(workers, runs, spread):
    rng = np.random.default_rng([workers, runs])
    durations = 4.0 * np.exp(spread * rng.standard_normal(runs))
    assert worst(spans_of(durations, workers), slack=4.0) <= 0.3


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("runs", [48, 100, 500])
def test_it_is_right_where_parts_are_not_counted_and_units_end_together(workers, runs):
    assert worst(spans_of([4.0] * runs, workers), slack=4.0, parts=False) <= 0.3


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("parts", [False, True])
def test_slow_first_runs_are_forgotten(workers, parts):
    durations = [9.0] * 12 + [2.0] * 150
    assert worst(spans_of(durations, workers), slack=2.0, parts=parts) <= 0.3


def test_runs_from_before_a_resume_are_not_counted_as_quick_ones(monkeypatch):
    monkeypatch.setattr(progress, "monotonic", lambda: 0.0)
    job = Progress("simulating", "runs", total=100, already=60, runs=True)
    for done in range(50, 61):  # sums first, then the runs stored one by one
        job.advance(done)
    assert job.words() == "60 of 100 runs, 1 s so far"
    assert worst(spans_of([3.0] * 40, 2), slack=3.0, already=60) <= 0.3


def test_parts_of_runs_give_the_time_before_the_first_run_is_finished():
    rate = Rate(0.0)
    for now in range(1, 100):
        rate.see(now, 2 * now / 100)  # two workers are at now percent of a run
        if now >= 5:
            assert rate.left(float(now), 20) == pytest.approx(1000 - now)


@pytest.mark.parametrize("seconds", [0.01, 0.5])
def test_time_to_load_is_not_counted_where_parts_are(seconds):
    rate, begin = Rate(0.0), 5.0
    for now in np.arange(begin, 20, seconds):
        rate.see(now, (now - begin) / 2)
        left = rate.left(now, 50)
        if now > begin + max(0.2, seconds):
            assert left is not None
        assert left is None or left == pytest.approx(begin + 100 - now)


def test_time_to_load_is_soon_forgotten_where_parts_are_not_counted():
    rate, begin = Rate(0.0), 5
    for now in range(begin, 21):
        rate.see(now, now - begin)
    assert rate.left(20.0, 50) == pytest.approx(35)
    assert not rate.rough


def test_a_job_that_stands_still_does_not_come_to_an_end():
    rate = Rate(0.0)
    for now in range(1, 11):
        rate.see(float(now), now)
    assert rate.left(10.5, 20) == pytest.approx(9.5)
    assert rate.left(11.0, 20) == pytest.approx(9)
    assert rate.left(40.0, 20) > 20


def test_progress_says_where_the_first_method_stands(monkeypatch):
    total = types.SimpleNamespace(runs=20, steady=lambda: (np.array([-10.0]), np.array([0.2])))
    jobs = []
    monkeypatch.setattr(progress, "_lines", lambda job: jobs.append(job) or nullcontext(print))
    experiment = Experiment(runs=500)
    with montecarlo.showing_runs(experiment) as on_run:
        on_run(total)
    [job] = jobs
    assert (job.done, job.total) == (20, 500)
    assert job.note == f"{experiment.titles[0]} -10.00 dB ±0.20"


def test_nothing_is_promised_before_anything_is_known(monkeypatch):
    clock = iter([0.0, 30.0, 30.0])
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    job = Progress("simulating", "runs", total=500, runs=True)
    assert job.words() == "0 of 500 runs, 30 s so far"
    job.total, job.note = None, "PSO-Fed -12.00 dB"
    assert job.words() == "0 runs, 30 s so far; PSO-Fed -12.00 dB"


def test_a_job_is_told_in_words(monkeypatch):
    clock = iter(range(22))
    monkeypatch.setattr(progress, "monotonic", lambda: float(next(clock)))
    job = Progress("simulating", "runs", total=500)
    job.advance(5)
    assert job.words() == "5 of 500 runs, roughly 1 min 40 s left"  # a part of the next is done
    for done in range(3, 21):
        job.advance(5 * done)
    assert job.words() == "100 of 500 runs, about 1 min 20 s left"


@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=60),
    gaps=st.lists(st.floats(0, 100), min_size=60, max_size=60),
    more=st.integers(0, 1000),
)
def test_any_sequence_gives_a_time_that_is_neither_negative_nor_absurd(sizes, gaps, more):
    total, now, done = sum(sizes) + more, 0.0, 0
    rate = Rate(now)
    for size, gap in zip(sizes, gaps, strict=False):
        now, done = now + gap, done + size
        rate.see(now, done)
        left = rate.left(now, total)
        assert left is not None
        # No unit seemed to take longer than all the time so far.
        assert 0 <= left <= now * (total - done + 1)
    if total == done:
        assert rate.left(now, total) == 0


@given(st.integers(1, 4), st.floats(0.01, 50), st.integers(20, 400))
def test_equal_runs_are_foreseen_exactly_but_for_the_last_turn(workers, seconds, runs):
    spans, rate = spans_of([seconds] * runs, workers), Rate(0.0)
    last = spans[:, 1].max()
    for now in np.linspace(0, last / 2, 100):
        rate.see(now, worked(spans, now, parts=True))
    assert rate.left(last / 2, runs) == pytest.approx(last / 2, rel=0.02, abs=seconds)


def test_memory_does_not_grow_with_the_job():
    rate = Rate(0.0)
    for done in range(1, 20_000):
        rate.see(0.01 * done, done)
        assert len(rate._seen) < 200 + LEAST


@pytest.mark.parametrize("rounds", [1, 31, 32, 33, 70])
def test_the_parts_of_a_run_add_up_to_one(rounds):
    methods = (psofed.Options(shared=2), fedavg.Options())
    before = progress.worked()
    montecarlo.run(Experiment(clients=4, cohort=2, rounds=rounds, runs=2, test_samples=20,
                              methods=methods), 1)  # fmt: skip
    assert progress.worked() - before == pytest.approx(2)


def test_processes_report_how_far_they_are():
    experiment = Experiment(clients=4, cohort=2, rounds=40, runs=2, methods=(fedavg.Options(),))
    before, seen = progress.worked(), []
    montecarlo.run(
        experiment,
        pool=pools.fresh_processes(2),
        on_run=lambda total: seen.append(progress.worked()),
    )
    assert seen[-1] - before == pytest.approx(2)
    assert progress.worked() - before == pytest.approx(2)

"""The time left, on made-up jobs: no clock, only times; and the work that processes report."""

import sys
import types
from contextlib import nullcontext

import numpy as np
import pytest

from helpers.command import Screen
from psofed.experiment import Experiment
from psofed.federation import progress
from psofed.federation.progress import Progress
from psofed.methods import fedavg, psofed
from psofed.simulate import montecarlo


@pytest.fixture
def clock(monkeypatch):
    """What time it is, for a test to change."""
    now = types.SimpleNamespace(time=0.0)
    monkeypatch.setattr(progress, "monotonic", lambda: now.time)
    return now


@pytest.fixture
def unseen(monkeypatch, clock):
    """The same where nobody looks at a job but the test."""
    monkeypatch.setattr(progress, "_repeated", lambda job, show: nullcontext())
    return clock


def left(job):
    """Seconds that are left."""
    return job.task.remaining / job.task.speed


@pytest.mark.parametrize("seconds", [0.1, 3.0, 100.0])
def test_slow_first_units_and_the_time_to_load_are_forgotten(clock, seconds):
    job = Progress("simulating", "runs", total=200)
    clock.time = 50 * seconds
    for done in range(1, 101):
        clock.time += 4 * seconds if done < 10 else seconds
        job.advance(done)
    assert left(job) == pytest.approx(100 * seconds, rel=0.1)


def test_runs_from_before_a_resume_are_not_counted_as_quick_ones(clock):
    job = Progress("simulating", "runs", total=100, already=60, runs=True)
    for done in range(50, 61):  # sums first, then the runs stored one by one
        job.advance(done)
    assert job.words() == "60 of 100 runs, 1 s so far"
    for done in range(61, 81):
        clock.time += 3
        job.advance(done)
    assert left(job) == pytest.approx(60)


def test_parts_of_runs_give_the_time_before_the_first_run_is_finished(clock):
    job = Progress("simulating", "runs", total=20, runs=True)
    for _ in range(10):
        clock.time += 1
        progress.beat(0.02)  # two workers, each at a percent of a run a second
        job.look()
    assert left(job) == pytest.approx(1000 - 10)


def test_a_part_of_a_search_says_how_long_that_has_taken_and_guesses_nothing(clock, unseen):
    shown = []
    with progress.in_turn() as begin:
        for name in ("tuning, 1 of 6", "tuning, 2 of 6"):
            advance = begin(name, runs=True)
            for done in range(1, 4):
                clock.time += 20
                advance(done, 4)
                shown.append(advance.__self__.words())
    assert shown[0] == "1 of 4 parts, 20 s so far"
    assert shown[-1] == "3 of 4 parts, 2 min so far"


def test_a_job_is_described_in_words(clock):
    job = Progress("simulating", "runs", total=500)
    clock.time = 30.0
    assert job.words() == "0 of 500 runs, 30 s so far"
    for done in range(1, 21):
        clock.time += 1
        job.advance(5 * done)
    assert job.words() == "100 of 500 runs, about 1 min 20 s left"
    job.total, job.note = None, "PSO-Fed -12.00 dB"
    job.look()
    assert job.words() == "100 runs, 50 s so far; PSO-Fed -12.00 dB"


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
        pool=montecarlo.fresh_processes(2),
        on_run=lambda total: seen.append(progress.worked()),
    )
    assert seen[-1] - before == pytest.approx(2)
    assert progress.worked() - before == pytest.approx(2)


def test_a_log_has_lines_also_while_nothing_is_finished_and_fewer_as_time_goes_on(unseen, capsys):
    job = Progress("learning without A, B", "rounds", total=1000)
    with progress._lines(job) as show:
        for unseen.time in range(3600):
            show()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "learning without A, B: 0 of 1000 rounds, 10 s so far"
    assert 3 < len(lines) < 60


def test_a_short_job_says_nothing(capsys):
    with progress.counting("learning, rounds") as on_round:
        on_round(1, 2)
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_a_bar_that_goes_away(monkeypatch, unseen):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    job = Progress("learning", "rounds", total=1000)
    with progress._bar(job) as show:
        for done in (250, 500):
            unseen.time += 25
            job.advance(done)
        show()
    text = screen.getvalue()
    assert "500 of 1000 rounds, about 50 s left" in text
    assert text.endswith(("\x1b[2K", "\x1b[1A\x1b[2K"))

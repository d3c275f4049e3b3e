"""Stop and go: nothing finished is lost or repeated, and nothing half-written is believed."""

import json
from dataclasses import replace

import numpy as np
import pytest

from helpers.battery import small
from helpers.command import wrong
from psofed import experiment as experiments
from psofed.errors import InputError
from psofed.experiment import Features
from psofed.federation.records import CHECKPOINT
from psofed.methods import onlinefed, psofed
from psofed.simulate import finished, montecarlo
from psofed.simulate.finished import Accumulator, Checkpoint
from psofed.simulate.onerun import one_run

SMALL = small(onlinefed.Options(), psofed.Options(2), rounds=20, runs=12, test_samples=40)


def store(folder, experiment=SMALL, begin=True):
    new = Checkpoint(folder, experiment)
    if begin:
        new.begin()
    return new


class Killed(BaseException):
    """Nothing is done after it."""


def stop_after(runs, stop=KeyboardInterrupt):
    def on_run(total):
        if total.runs == runs:
            raise stop

    return on_run


def counted(monkeypatch):
    """The numbers of the runs that are computed from now on."""
    numbers = []
    compute = montecarlo.threads.__wrapped__.__globals__["some_runs"]

    def some_runs(experiment, some, stop):
        numbers.extend(some)
        return compute(experiment, some, stop)

    monkeypatch.setitem(montecarlo.threads.__wrapped__.__globals__, "some_runs", some_runs)
    return numbers


def same(a, b):
    fields = ("mse", "stderr", "uplink", "downlink", "multicast", "points", "covariance", "floors")
    return all(np.array_equal(getattr(a, f), getattr(b, f)) for f in fields if f != "floors")


@pytest.mark.parametrize(
    ("stop", "seconds", "kept"),
    [(KeyboardInterrupt, 0, 5), (KeyboardInterrupt, 1000, 5), (Killed, 0, 5), (Killed, 1000, 1)],
)
def test_what_was_written_is_not_repeated_and_the_result_is_the_same(
    tmp_path, monkeypatch, stop, seconds, kept
):
    monkeypatch.setattr(finished, "SECONDS", seconds)
    with pytest.raises((montecarlo.Interrupted, Killed)):
        montecarlo.run(SMALL, 1, store=store(tmp_path), on_run=stop_after(5, stop))
    again, numbers = store(tmp_path, begin=False), counted(monkeypatch)
    assert again.count() == kept
    resumed = montecarlo.run(SMALL, store=again)
    assert not again.warnings
    assert sorted(numbers) == list(range(kept, 12))
    assert same(resumed, montecarlo.run(SMALL))


def test_more_runs_can_be_added_to_what_is_there(tmp_path):
    few = replace(SMALL, runs=4)
    montecarlo.run(few, store=store(tmp_path, few))
    assert same(montecarlo.run(SMALL, store=store(tmp_path, begin=False)), montecarlo.run(SMALL))


def test_a_damaged_checkpoint_is_reported_and_its_runs_are_repeated(tmp_path):
    with pytest.raises(montecarlo.Interrupted):
        montecarlo.run(SMALL, 1, store=store(tmp_path), on_run=stop_after(9))
    path = tmp_path / CHECKPOINT / "total"
    path.write_bytes(path.read_bytes()[:-7] + b"garbage")
    again = store(tmp_path, begin=False)
    assert same(montecarlo.run(SMALL, store=again), montecarlo.run(SMALL))
    assert "is damaged" in again.warnings[0]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 5}, "experiment.seed was 0 and is 5"),
        ({"rounds": 21}, "experiment.rounds was 20 and is 21"),
        ({"methods": SMALL.methods[:1]}, "experiment.methods was"),
        ({"features": Features(dim=9)}, "experiment.features.dim was 10 and is 9"),
    ],
)
def test_another_experiment_is_not_resumed(tmp_path, change, named):
    store(tmp_path)
    other = replace(SMALL, **change)
    with pytest.raises(InputError) as error:
        montecarlo.run(other, store=store(tmp_path, other, begin=False))
    assert named in str(error.value)
    assert "give another --out" in str(error.value)


def test_another_version_is_not_resumed(tmp_path):
    first = store(tmp_path)
    first.identity["versions"]["numpy"] = "0.0"
    first.begin()
    with pytest.raises(InputError, match=r'versions.numpy was "0\.0" and is'):
        montecarlo.run(SMALL, store=store(tmp_path, begin=False))


def test_a_disk_that_fills_up_in_the_middle_keeps_the_finished_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(finished, "SECONDS", 0)
    kept, written = store(tmp_path), finished.write

    def fails_later(path, arrays, durable):
        if arrays["mse_count"] == 7:
            raise OSError(28, "No space left on device")
        written(path, arrays, durable)

    monkeypatch.setattr(finished, "write", fails_later)
    with pytest.raises(OSError, match="No space left"):
        montecarlo.run(SMALL, 1, store=kept)
    assert store(tmp_path, begin=False).count() == 6


def test_the_command_line_goes_on_with_the_same_experiment_and_refuses_another(
    tmp_path, psofed, works
):
    (tmp_path / "e.toml").write_text(SMALL.to_toml())
    folder = tmp_path / "r"
    folder.mkdir()
    begun = Checkpoint(folder, replace(experiments.read(tmp_path / "e.toml"), seed=3))
    begun.begin()
    total = Accumulator(SMALL)
    total.add(one_run(SMALL, 0))
    begun.save(total)
    other = "r was started with other settings: experiment.seed was 3 and is 0"
    wrong(psofed("run", "e.toml", "--out", "r"), other)
    assert begun.exists()  # the other experiment's runs are kept
    done = psofed("run", "e.toml", "--out", "new", "--runs", 2, "--json")
    assert json.loads(done.stdout)["runs"] == 2
    again = works("run", "e.toml", "--out", "new", "--runs", 2)
    assert "Nothing to do: new holds the finished result" in again.stderr
    more = psofed("run", "e.toml", "--out", "new", "--runs", 3)
    wrong(more, "new is not empty; give another --out")


def test_fewer_runs_than_are_finished_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(finished, "SECONDS", 0)
    four, two = replace(SMALL, runs=4), replace(SMALL, runs=2)
    montecarlo.run(four, store=store(tmp_path, four))
    again = store(tmp_path, two, begin=False)
    assert again.count() == 4
    with pytest.raises(InputError, match="is 2, but 4 runs are finished already; use 4 or more"):
        montecarlo.run(two, store=again)

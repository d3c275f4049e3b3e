"""Stop and go: nothing finished is lost or repeated, and nothing half-written is believed."""

import json
import random
import subprocess
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.devices import wait_for
from helpers.processes import end
from psofed import experiment as experiments
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.federation.records import CHECKPOINT
from psofed.methods import onlinefed, psofed
from psofed.simulate import finished, montecarlo
from psofed.simulate.finished import Checkpoint, DamagedError
from psofed.simulate.onerun import one_run

SMALL = Experiment(
    clients=6,
    rounds=20,
    runs=12,
    test_samples=40,
    features=Features(dim=8),
    methods=(onlinefed.Options(), psofed.Options(shared=2)),
)


def store(folder, experiment=SMALL, begin=True):
    new = Checkpoint(folder, experiment)
    if begin:
        new.begin()
    return new


def stop_after(runs):
    def on_run(total):
        if total.runs == runs:
            raise KeyboardInterrupt

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


@pytest.mark.parametrize("seconds", [0, 1000])
def test_what_was_finished_is_not_repeated_and_the_result_is_the_same(
    tmp_path, monkeypatch, seconds
):
    monkeypatch.setattr(finished, "SECONDS", seconds)
    whole = montecarlo.run(SMALL)
    with pytest.raises(montecarlo.Interrupted):
        montecarlo.run(SMALL, 1, store=store(tmp_path), on_run=stop_after(5))
    again, numbers = store(tmp_path, begin=False), counted(monkeypatch)
    stored = {int(path.name[4:]) for path in again.folder.glob("run-*")}
    resumed = montecarlo.run(SMALL, store=again)
    assert same(resumed, whole)
    assert not again.warnings
    assert not stored & set(numbers)
    assert all(number >= 5 for number in numbers)  # runs ahead may have finished them all


def test_more_runs_can_be_added_to_what_is_there(tmp_path):
    few = replace(SMALL, runs=4)
    montecarlo.run(few, store=store(tmp_path, few))
    assert same(montecarlo.run(SMALL, store=store(tmp_path, begin=False)), montecarlo.run(SMALL))


@given(st.data())
def test_a_damaged_file_is_detected(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("c") / "file"
    finished.write(path, {"a": np.arange(20.0), "b": np.ones((2, 3))}, durable=False)
    good = path.read_bytes()
    assert np.array_equal(finished.read(path)["a"], np.arange(20.0))
    if data.draw(st.booleans()):
        path.write_bytes(good[: data.draw(st.integers(0, len(good) - 1))])
    else:
        i = data.draw(st.integers(0, len(good) - 1))
        path.write_bytes(
            good[:i] + bytes([good[i] ^ (1 << data.draw(st.integers(0, 7)))]) + good[i + 1 :]
        )
    with pytest.raises(DamagedError):
        finished.read(path)


@pytest.mark.parametrize("victim", ["total", "total.old", "run-9", "all"])
def test_damaged_checkpoints_are_reported_and_skipped(tmp_path, monkeypatch, victim):
    monkeypatch.setattr(finished, "SECONDS", 0)
    with pytest.raises(montecarlo.Interrupted):
        montecarlo.run(SMALL, 1, store=store(tmp_path), on_run=stop_after(9))
    whole = montecarlo.run(SMALL)
    folder = tmp_path / CHECKPOINT
    files = [p for p in folder.iterdir() if p.name != "identity.json"]
    harmed = files if victim == "all" else [folder / victim]
    harmed = [path for path in harmed if path.exists()]
    for path in harmed:
        path.write_bytes(path.read_bytes()[:-7] + b"garbage")
    again, numbers = store(tmp_path, begin=False), counted(monkeypatch)
    assert same(montecarlo.run(SMALL, store=again), whole)
    if victim == "all":
        assert min(numbers) == 0
    elif victim.startswith("total"):
        # The other generation, and the runs beyond it, are enough.
        assert all(number >= 9 for number in numbers)
    read = [path for path in harmed if victim != "total.old"]
    assert len(again.warnings) >= bool(read)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 5}, "experiment.seed was 0 and is 5"),
        ({"rounds": 21}, "experiment.rounds was 20 and is 21"),
        ({"methods": SMALL.methods[:1]}, "experiment.methods was"),
        ({"features": Features(dim=9)}, "experiment.features.dim was 8 and is 9"),
    ],
)
def test_another_experiment_is_not_resumed(tmp_path, change, named):
    store(tmp_path)
    other = replace(SMALL, **change)
    with pytest.raises(InputError) as error:
        montecarlo.run(other, store=store(tmp_path, other, begin=False))
    assert named in str(error.value)
    assert "--force" in str(error.value)


def test_another_version_is_not_resumed(tmp_path):
    first = store(tmp_path)
    first.identity["versions"]["numpy"] = "0.0"
    first.begin()
    with pytest.raises(InputError, match=r'versions.numpy was "0\.0" and is'):
        montecarlo.run(SMALL, store=store(tmp_path, begin=False))


def test_a_disk_that_fills_up_in_the_middle_keeps_the_finished_runs(tmp_path, monkeypatch):
    kept = store(tmp_path)
    written = finished.write

    def fails_later(path, arrays, durable):
        if path.name == "run-6":
            raise OSError(28, "No space left on device")
        written(path, arrays, durable)

    monkeypatch.setattr(finished, "write", fails_later)
    with pytest.raises(OSError, match="No space left"):
        montecarlo.run(SMALL, 1, store=kept)
    monkeypatch.setattr(finished, "write", written)
    whole, numbers = montecarlo.run(SMALL), counted(monkeypatch)
    assert same(montecarlo.run(SMALL, store=store(tmp_path, begin=False)), whole)
    assert 0 not in numbers


def test_precision_stops_early_at_the_same_run_whatever_the_threads():
    experiment = replace(SMALL, runs=5000)
    one, three = (montecarlo.run(experiment, jobs, precision=0.3) for jobs in (1, 3))
    assert one.runs == three.runs == one.experiment.runs
    assert montecarlo.LEAST_RUNS <= one.runs < 5000
    errors = [one.point(j, "steady").stderr for j in range(2)]
    assert max(errors) <= 0.3
    before = montecarlo.run(replace(SMALL, runs=one.runs - 1))
    assert max(before.point(j, "steady").stderr for j in range(2)) > 0.3


TOML = """
clients = 20
rounds = 200
runs = 120
test_samples = 100
features.dim = 60
[[methods]]
name = "onlinefed"
[[methods]]
name = "psofed"
shared = 20
"""


@pytest.mark.long
def test_a_process_that_is_killed_at_random_goes_on_to_the_same_bytes(
    tmp_path, psofed, start, process
):
    (tmp_path / "e.toml").write_text(TOML.replace("runs = 120", "runs = 160"))
    assert psofed("run", "e.toml", "--out", "whole").returncode == 0
    command = ("run", "e.toml", "--out", "killed", "--resume")
    pick, folder, kills = random.Random(1), tmp_path / "killed" / CHECKPOINT, 0

    def written():
        return sorted(path.name for path in folder.glob("*"))

    for _ in range(3):
        before = written()
        begun = start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda b=before, p=begun: written() != b or p.poll() is not None, 120)
        time.sleep(pick.uniform(0, 0.1))  # it writes all the time: whatever it is doing then
        kills += begun.poll() is None
        end(begun)
    done = process(*command)
    assert done.returncode == 0, done.stderr
    assert kills >= 1
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (tmp_path / "killed" / path.name).read_bytes(), path.name
    assert not (tmp_path / "killed" / CHECKPOINT).exists()


def test_the_command_line_resumes_refuses_and_starts_anew(tmp_path, psofed):
    (tmp_path / "e.toml").write_text(TOML)
    folder = tmp_path / "r"
    folder.mkdir()
    begun = Checkpoint(folder, replace(experiments.read(tmp_path / "e.toml"), seed=3))
    begun.begin()
    begun.save_run(0, one_run(replace(SMALL, runs=1), 0))
    refused = psofed("run", "e.toml", "--out", "r")
    assert refused.returncode == 2
    assert "holds an unfinished result; continue with --resume" in refused.stderr
    other = psofed("run", "e.toml", "--out", "r", "--resume")
    assert other.returncode == 2
    assert "experiment.seed was 3 and is 0" in other.stderr
    assert (folder / CHECKPOINT / "run-0").exists()  # the other experiment's runs are kept
    anew = psofed("run", "e.toml", "--out", "r", "--force", "--runs", 2, "--json")
    assert anew.returncode == 0, anew.stderr
    assert json.loads(anew.stdout)["runs"] == 2
    again = psofed("run", "e.toml", "--out", "r", "--resume", "--runs", 2)
    assert again.returncode == 0
    assert "Nothing to do: r holds the finished result" in again.stderr
    for change in (("--runs", 3), ("--runs", 1)):
        other = psofed("run", "e.toml", "--out", "r", "--resume", *change)
        assert other.returncode == 2
        assert "r has other files and nothing to resume" in other.stderr
    nothing = psofed("run", "e.toml", "--out", "new", "--resume", "--precision", 0.5)
    assert nothing.returncode == 0, nothing.stderr
    assert "precision reached" in nothing.stdout


def test_fewer_runs_than_are_finished_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(finished, "SECONDS", 0)
    four, two = replace(SMALL, runs=4), replace(SMALL, runs=2)
    montecarlo.run(four, store=store(tmp_path, four))
    again = store(tmp_path, two, begin=False)
    assert again.count() == 4
    with pytest.raises(InputError, match="is 2, but 4 runs are finished already; use 4 or more"):
        montecarlo.run(two, store=again)


def test_a_curve_that_diverges_does_not_keep_a_precision_waiting():
    wild = psofed.Options(shared=2, step=40.0, label="wild")
    experiment = replace(SMALL, rounds=600, runs=300, methods=(*SMALL.methods, wild))
    curves = montecarlo.run(experiment, precision=0.8)
    assert curves.runs < 300
    assert not np.isfinite(curves.mse[-1, -1])

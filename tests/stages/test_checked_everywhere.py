"""Samples are checked in every executor: simulated, as messages, deployed, from a table."""

import csv
import gzip
import json
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import psofed as lib
from helpers import drivers
from helpers.battery import METHODS, exchange, small, stepwise
from helpers.command import wrong
from helpers.loopback import Line, disk, plan
from psofed.cli.laws.drivers import ROUNDS
from psofed.federation.stage import around
from psofed.fleet.broker import Address
from psofed.fleet.client_loop import Device, device
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.member import Member
from psofed.fleet.samples import Sample, replay
from psofed.report import comparisons, files
from psofed.simulate import montecarlo, onerun
from psofed.simulate.finished import Accumulator
from psofed.stages.checks.contract import Check
from psofed.streams import paper
from psofed.tables import example, fitting


@dataclass(frozen=True)
class Spiked(paper.Options):
    """The paper's stream with a sensor that is wrong once: client 1 reads -999 in round 12."""

    name: ClassVar[str] = "spiked"

    def samples(self, seeds, clients, first, stop, dtype=np.float64, memory=None):
        found = super().samples(seeds, clients, first, stop, dtype, memory)
        wrong = np.equal.outer(clients, np.full(1, 1)) & (np.arange(first, stop) == 12)
        return replace(found, noise=np.where(wrong, -999 - found.clean, found.noise).astype(dtype))


WRONG = Spiked()
TIGHT = lib.checks.Outliers(factor=6.0, window=7)


SOME = list({options.name: options for options in METHODS}.values())  # one setting of each


@pytest.mark.parametrize("options", SOME, ids=lambda options: options.title())
def test_every_method_gives_the_same_models_in_every_executor_if_a_sensor_is_wrong(options):
    world = small(options, stream=WRONG, check=TIGHT, rounds=ROUNDS)
    expected = stepwise(world)
    assert np.abs(expected).max() < 20, "999 would be seen"
    if not options.simulated:
        assert np.abs(exchange(world).models - expected).max() <= 1e-12
    if options.name in ("memofed", "psofed", "raw"):
        assert np.abs(drivers.deployed(world) - expected).max() <= 1e-12


def test_without_a_check_and_with_none_results_are_the_same_to_the_bit():
    base = small(lib.PSOFed(3), lib.OnlineFed(), lib.MemoFed(), runs=3)
    plain, none = montecarlo.run(base), montecarlo.run(replace(base, check=lib.checks.NoCheck()))
    assert np.array_equal(plain.mse, none.mse)
    assert "check" not in base.to_table()
    wide = montecarlo.run(replace(base, check=lib.checks.InRange(-1e9, 1e9)))
    assert np.abs(wide.mse / plain.mse - 1).max() < 1e-9, "what is not compiled rounds otherwise"


def test_counts_survive_a_checkpoint_and_are_in_the_files(tmp_path, psofed, sketched, file):
    world = small(lib.PSOFed(3), stream=WRONG, check=TIGHT, runs=4)
    whole, again = Accumulator(world), Accumulator(world)
    runs = onerun.some_runs(world, [0, 1, 2, 3])
    for run in runs[:2]:
        whole.add(run)
    again.load(whole.to_arrays())
    for run in runs[2:]:
        whole.add(run)
        again.add(run)
    assert np.array_equal(whole.curves().counts, again.curves().counts)
    assert whole.curves().only([0]).checked == whole.curves().checked
    done = psofed("run", file(**FEW), "--out", "out")
    assert (
        "120 samples seen, 104 learned, 16 too early to judge, in all runs together" in done.stdout
    )
    (entry,) = json.loads((tmp_path / "out" / "summary.json").read_text())["methods"]
    assert entry["samples"] == {"seen": 120, "learned": 104, "too early to judge": 16}
    assert "104 learned" in (tmp_path / "out" / "report.html").read_text()


def test_a_sweep_and_a_comparison_have_the_counts_too():
    world = small(lib.PSOFed(3), stream=WRONG, check=TIGHT, runs=2)
    for row in lib.sweep(world, shared=[1, 5]).rows():
        assert row["samples seen"] == 2 * 30 * 5
        assert row["samples far off"] >= 2
    found = lib.compare_methods(world, tuning="none", budget=1.0)
    assert f"{2 * 30 * 5} samples seen" in files.joined(comparisons.blocks(found))


FEW = {"clients": 4, "cohort": 2, "rounds": 15, "runs": 2, "test_samples": 20}
FEW |= {"methods": [{"name": "psofed"}], "check": {"name": "outliers", "factor": 30}}


def test_a_check_of_a_user_is_found_by_its_file(tmp_path, psofed, works, sketched, file):
    (tmp_path / "mine.py").write_text(MINE)
    done = psofed("run", file(**FEW | {"check": {"name": "./mine.py"}}), "--out", "out")
    assert "120 samples seen, 64 learned, 56 out of range" in done.stdout
    works("check", "mine.py")


MINE = '''
"""Every second label is refused."""
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from psofed.stages.checks.contract import OUTSIDE, SampleCheck


@dataclass(frozen=True)
class Options(SampleCheck):
    name: ClassVar[str] = "mine"

    def memory(self, taps, dtype):
        return {"n": np.zeros((), int)}

    def judge(self, memory, x, y, guess):
        memory["n"][...] += 1
        return y, np.where(memory["n"] % 2, 0, OUTSIDE)
'''


# Deployments ---------------------------------------------------------------------------------


def stream_of(world, k, count):
    """Samples of the experiment's stream as a sensor gives them."""
    x, y = replay(world, k)(0, count)
    return [Sample(row, float(label)) for row, label in zip(x, y, strict=True)]


def learned(member):
    return member.client.state["w"].copy()


def feed(given, samples, folder=None):
    """A live device that has learned from these samples, and what it said."""
    said = []
    made = Device(Member(given, 0, folder or disk()), Line(), (), said.append)
    for sample in samples:
        made._waiting.put(sample)
        made._take_samples()
    made._save()
    return made, said


def test_a_live_client_refuses_a_spike_says_so_and_remembers_it():
    given, folder = plan(Deploy(clock="live"), dtype="float32"), disk()
    samples = stream_of(given.experiment, 0, 60)
    spiked = [*samples[:40], Sample(samples[0].x, -999.0), *samples[40:]]
    clean, _ = feed(given, samples)
    made, said = feed(given, spiked, folder)
    assert np.array_equal(learned(made.member), learned(clean.member))
    assert said == ["Warning: not every sample was learned from: 41 samples seen, 38 learned,"
                    " 2 too early to judge, 1 far off so far"]  # fmt: skip
    again = Member(given, 0, folder).client
    assert again.checked == made.member.client.checked
    assert again.checked["seen"] == again.position == 61


def test_the_tenth_and_the_hundredth_refusal_are_logged_and_no_other():
    given = plan(Deploy(clock="live"))
    samples = stream_of(given.experiment, 0, 500)
    for i in range(50, 500, 4):
        samples[i] = Sample(samples[i].x, -999.0)
    _, said = feed(given, samples)
    assert [line.split(", ")[-1] for line in said] == [
        "1 far off so far", "10 far off so far", "100 far off so far"
    ]  # fmt: skip


def acts(method):
    return any(isinstance(stage, Check) for stage in around(method))


def test_samples_are_checked_by_default_where_they_are_measured_and_else_as_the_file_says():
    lockstep, live = plan(), plan(Deploy(clock="live"))
    assert not acts(lockstep.method())
    assert acts(lockstep.method(measured=True))
    assert acts(live.method())
    none = Deployment(replace(live.experiment, check=lib.checks.NoCheck()), live.deploy)
    assert not acts(none.method())
    assert not acts(none.method(measured=True))
    asked = Deployment(replace(lockstep.experiment, check=TIGHT), lockstep.deploy)
    assert asked.method().check == asked.method(measured=True).check == TIGHT
    assert asked.digest == lockstep.digest, "what a device refuses is its own affair"


def test_a_file_of_samples_is_checked_on_the_lockstep_clock_too(tmp_path):
    given = plan()
    made = device(given, 0, tmp_path, Address("127.0.0.1", 1), measured=True)
    assert made.member.client.checked == {"seen": 0, "learned": 0}
    twin = device(given, 1, tmp_path / "twin", Address("127.0.0.1", 1))
    assert twin.member.client.checked == {}


# Tables --------------------------------------------------------------------------------------

ASKED = {
    "target": "pollutant", "time": "time", "client": "station", "label_delay": 6,
    "calendar": ("hour",), "dim": 30, "width": 2.0, "step": 0.3,
}  # fmt: skip


def table(tmp_path, wrong, column="pollutant", value="-999"):
    """The example with wrong values in some rows."""
    with gzip.open(example.PATH, "rt", newline="") as file:
        head, *rows = csv.reader(file)
    for i in wrong:
        rows[i][head.index(column)] = value
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return path


WRONG_ROWS = (5, 50, 3000, 4500, 8000)
CHECKED = lib.checks.Outliers()


def fitted(tmp_path, value, column="pollutant", wrong=WRONG_ROWS, check=CHECKED, compare=False):
    rows = table(tmp_path, wrong, column, value)
    return lib.fit_table(rows, check=check, compare=compare, **ASKED)


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """The example with five wrong labels, fitted with a check."""
    return fitted(tmp_path_factory.mktemp("checked"), "-999", compare=True)


def test_a_table_with_wrong_labels_is_learned_as_if_they_were_missing(tmp_path, checked):
    missing, off = fitted(tmp_path, ""), fitted(tmp_path, "-999", check=None)
    assert np.array_equal(checked.model.own, missing.model.own)
    assert checked.scores.error(0, "frozen") == missing.scores.error(0, "frozen")
    assert off.to_frame().frozen_rmse.iloc[0] > 2 * checked.to_frame().frozen_rmse.iloc[0]
    words = "taken as missing, being far outside the usual range: 5 of 'pollutant'"
    assert words in checked.notes
    assert words not in off.notes
    judged, later = (each.scores.truths["prequential"].count.sum() for each in (checked, off))
    assert later - judged == 3, "two of the five are in the warm-up"
    methods = [score for score in checked.scores.scores if score.checked]
    assert len(methods) == 4
    for score in methods:
        if score.title.startswith(("PSO-Fed", "Local")):
            assert score.checked["seen"] == judged
        assert score.checked["seen"] == sum(score.checked.values()) - score.checked["seen"]


def test_an_input_that_cannot_be_is_missing(tmp_path):
    wrong, empty = (fitted(tmp_path, value, "wind") for value in ("-999", ""))
    assert np.array_equal(wrong.model.own, empty.model.own)
    assert any("5 of 'wind'" in note for note in wrong.notes)


def test_a_column_that_hardly_varies_has_no_range(tmp_path):
    found = fitted(tmp_path, "0", "wind", [i for i in range(8400) if i % 10])
    assert not any("far outside" in note and "'wind'" in note for note in found.notes)


def test_a_plan_with_a_check_is_written_read_and_handed_over_with_its_range(
    tmp_path, psofed, works, sketched
):
    rows = table(tmp_path, WRONG_ROWS)
    done = psofed(
        "fit", str(rows), "--target", "pollutant", "--time", "time", "--client", "station",
        "--set", "dim=30", "--set", "width=2", "--set", "step=0.3", "--set", "check=outliers:factor=15", "--out", "out",
    )  # fmt: skip
    assert "5 of 'pollutant'" in done.stdout, done.stderr
    made = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert made["plan"]["check"]["factor"] == 15
    assert made["checked"]["PSO-Fed M=6 uncoordinated"]["too early to judge"] > 0
    works("fit", str(rows), "--plan", "out/plan.toml", "--out", "again")
    assert (tmp_path / "again" / "scores.csv").read_bytes() == (
        tmp_path / "out" / "scores.csv"
    ).read_bytes()
    said = "check.low is given, but the range of the target is that of the warm-up"
    asked = ("fit", str(rows), "--plan", "out/plan.toml", "--set", "check=range:low=1")
    wrong(psofed(*asked), said)


def test_the_experiment_of_a_plan_has_the_range_in_the_units_of_its_models(checked):
    rounds = fitting.sampled(checked.table, checked.plan, checked.span)
    made = checked.plan.experiment(rounds, checked.span, None)
    low, high = made.check.ends
    assert low < checked.recipe.target(np.array(0.0)) < high
    assert checked.recipe.target(np.array(-999.0)) < low
    assert made.check.factor == CHECKED.factor

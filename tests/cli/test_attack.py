"""Attacks as people type them: `psofed study attack`, and in the file of another command."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

import psofed.federation.schema
import psofed.stages.attacks.scale
from helpers.battery import small
from helpers.command import call, wrong
from helpers.skeletons import put
from psofed.compare import attacks as study
from psofed.simulate import montecarlo
from psofed.simulate.montecarlo import threads

TINY = {
    "clients": 10, "rounds": 40, "runs": 3, "cohort": 3, "test_samples": 20, "features": {"dim": 6},
    "methods": [{"name": "psofed", "shared": 3}, {"name": "raw"}],
}  # fmt: skip
SOME = ("--attack", "scale:factor=-5", "--attack", "labels", "--defence", "centred")


def repeated(folder, command):
    """What the command that a result names writes, in the folder of the result."""
    words = command.removeprefix("psofed ").split()
    done = call(*words, "--out", folder / "again", cwd=folder / "out")
    assert done.returncode == 0, done.stderr
    return (folder / "again/attack.csv").read_bytes()


def test_attacks_are_tried_at_every_share_with_and_without_a_defence(works, file, tmp_path):
    done = works(
        "study", "attack", file(**TINY), *SOME, "--shares", "0,0.04,0.1,0.3", "--out", "out"
    )
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == {
        "experiment.toml", "attack.csv", "attack.json", "report.html",
        *(f"attack-{i}.{kind}" for i in (1, 2) for kind in ("png", "pdf")),
    }  # fmt: skip
    assert "Left out: share 0.04, which is nobody of 10 clients." in done.stdout
    assert "Left out: Raw samples, from attacks on values: it sends no model" in done.stdout
    assert "With centred clipping tau=0.1, the worst case is " in done.stdout
    rows = list(csv.DictReader((out / "attack.csv").read_text().splitlines()))
    # PSO-Fed has two attacks, raw samples one: two shares, without and with; and all are clean.
    assert len(rows) == (2 + 1) * 2 * 2 + 2 * 2
    for row in rows:
        low, value, high = (float(row[key]) for key in ("loss_low", "loss_db", "loss_high"))
        assert low <= value <= high
        if row["attack"] == row["defence"] == "none":
            assert (low, value, high) == (0, 0, 0)
    worst = max(rows, key=lambda row: float(row["loss_db"]))
    assert (worst["attack"], worst["share"], worst["defence"]) == ("model times -5", "0.3", "none")
    table = json.loads((out / "attack.json").read_text())
    assert table["shares"] == [0, 0.1, 0.3]
    assert table["alone_db"]["low"] < table["alone_db"]["high"]
    assert repeated(tmp_path, table["command"]) == (out / "attack.csv").read_bytes()


def test_a_loss_is_the_paired_difference_of_runs_on_the_same_draws():
    few = {"clients": 10, "cohort": 3, "runs": 4, "test_samples": 20, "evaluate_every": 1}
    world = small(psofed.PSOFed(3), **few)
    flip = replace(study.every_attack()[0], share=0.3)
    made = study.plan(world, [flip], [0.3])
    with threads(1) as workers:
        steady = study.compute(made, workers, lambda _: None)
    result = study.AttackResult(made, tuple(steady))
    [_, row] = result.rows()
    bad = montecarlo.run(replace(world, attack=flip), 1)
    clean = montecarlo.run(world, 1)
    level, base = (c.point(0, "steady") for c in (bad, clean))
    assert row["mse_db"] == pytest.approx(level.value)
    assert row["mse_high"] - row["mse_db"] == pytest.approx(1.96 * level.stderr)
    assert row["loss_db"] == pytest.approx(level.value - base.value)
    a, b = steady[1][:, 0], steady[0][:, 0]
    apart = (a / a.mean() - b / b.mean()).std(ddof=1) / 2
    assert row["loss_high"] - row["loss_db"] == pytest.approx(1.96 * 10 / np.log(10) * apart)


def test_all_attacks_are_tried_unless_some_are_named_and_the_file_has_its_own_strength():
    names = set(psofed.federation.schema.names("psofed.attacks"))
    found = study.every_attack()
    assert {each.name for each in found} == names
    assert len({each.describe() for each in found}) == len(found) > len(names)
    own = psofed.stages.attacks.scale.Options(factor=-2)
    mine = study.every_attack(own)
    assert [each for each in mine if each.name == "scale"] == [own]


def test_an_attack_of_ones_own_is_kept_beside_the_result(works, file, tmp_path, sketched):
    put(tmp_path, kind="attack")
    put(tmp_path, kind="defence", name="shield.py")
    own = ("--attack", "./mine.py:factor=-3", "--defence", "./shield.py", "--shares", "0.2")
    done = works("study", "attack", file(**TINY), *own, "--out", "out")
    worst = "With mine most=1, the worst case is mine factor=-3 by 20 % of the clients"
    assert worst in done.stdout
    table = json.loads((tmp_path / "out/attack.json").read_text())
    copies = {each["name"] for each in (*table["attacks"], *table["defences"])}
    assert len(copies) == len(table["plugins"]) == 2
    assert all((tmp_path / "out" / name).exists() for name in copies)
    assert repeated(tmp_path, table["command"]) == (tmp_path / "out/attack.csv").read_bytes()


TO = ("--broker", "127.0.0.1:1", "--state", "s")


@pytest.fixture
def attacked(file):
    def write(attack, **more):
        one = {"name": "psofed", "shared": 3, "scheme": "coordinated"}
        by = {"name": attack, "share": 0.5}
        return file("e.toml", **TINY | {"methods": [one], "attack": by} | more)

    return write


def test_verify_honours_an_attack_and_a_defence(works, attacked):
    done = works("study", "verify", attacked("perturbation", defence={"name": "median"}))
    assert "All within 1e-12" in done.stdout


@pytest.mark.parametrize("attack", ["alie", "ipm", "minmax"])
def test_an_attack_that_needs_to_know_what_others_send_is_refused_where_clients_are_alone(
    psofed, attacked, attack
):
    for command in (
        ("study", "verify"),
        ("deploy", "serve", *TO),
        ("deploy", "client", "--id", 0, *TO),
    ):
        said = f"attack.name is '{attack}', whose clients know what others send"
        wrong(psofed(*command, attacked(attack)), said)


def test_a_client_with_samples_of_its_own_refuses_an_attack_on_the_stream(psofed, attacked):
    done = psofed("deploy", "client", attacked("labels"), "--id", 0, *TO, "--stream", "mine.csv")
    wrong(done, "--stream is 'mine.csv', but [attack] labels changes samples of FILE's")

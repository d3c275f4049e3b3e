"""`--set targets=` as people type it: every command, every place where an error is shown, and mistakes."""

import json

import pytest

from helpers.command import wrong
from helpers.opened import told
from psofed import experiment as experiments

pytestmark = pytest.mark.usefixtures("sketched")


def ends(folder):
    summary = json.loads((folder / "summary.json").read_text())
    return [entry["mse_db"]["steady"]["value"] for entry in summary["methods"]]


def test_a_run_says_everywhere_which_targets_it_was_tested_on(works, tiny, tmp_path):
    for targets, words in (("clean", "noise-free targets"), ("noisy", "noisy targets")):
        sets = ("--set", f"targets={targets}", "--set", "test_samples=1000")
        done = works("run", tiny, *sets, "--out", targets)
        assert f"Errors are on {words}; ± is one standard error" in done.stdout
        assert ("test MSE in dB (noisy)" in done.stdout) == (targets == "noisy")
        assert experiments.read(tmp_path / targets / "experiment.toml").targets == targets
        page = told(tmp_path / targets)
        assert page["facts"].endswith(f" · {words}")
        (table,) = (part for part in page["parts"] if part["title"] == "Test error")
        assert f"on {words}" in table["note"]
    pairs = zip(ends(tmp_path / "clean"), ends(tmp_path / "noisy"), strict=True)
    assert all(a < b for a, b in pairs)


def test_reproduce_judges_the_claims_on_noisy_targets_too(psofed, works, tmp_path):
    asked = ("--runs", 2, "--rounds", 120, "--set", "targets=noisy")
    done = works("reproduce", *asked, "--out", "r")
    assert "as measured here on noisy targets" in done.stdout
    assert "differences in dB are smaller" in done.stdout
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert "--set targets=noisy" in summary["command"]
    assert len(summary["claims"]) == 3
    other = psofed("reproduce", *asked[:4], "--out", "r")
    assert other.returncode == 2  # another experiment


def test_sweep_and_theory_take_targets_and_show_them(psofed, works, tiny, tmp_path):
    done = works(
        "study", "sweep", tiny, "--set", "shared=1,2", "--set", "targets=noisy", "--out", "s"
    )
    assert "the last fifth of the rounds, noisy targets." in done.stdout
    both = psofed("study", "sweep", tiny, "--set", "targets=clean,noisy", "--out", "both")
    assert "PSO-Fed M=2 uncoordinated, targets noisy" in both.stdout
    assert (
        json.loads((tmp_path / "both" / "sweep.json").read_text())["targets"] == "targets as named"
    )
    theory = works("study", "theory", tiny, "--set", "targets=noisy", "--out", "t")
    assert "Errors are on noisy targets." in theory.stdout
    assert told(tmp_path / "t")["facts"].endswith("noisy targets")


def test_a_table_has_the_targets_that_were_measured_and_no_others(psofed, works, table, tmp_path):
    done = works("run", table, "--out", "r")
    assert "Errors are on measured targets" in done.stdout
    assert told(tmp_path / "r")["facts"].endswith("measured targets")
    for targets in ("clean", "noisy"):
        said = f"targets is '{targets}', but a table has only the targets"
        wrong(psofed("run", table, "--set", f"targets={targets}", "--out", "s"), f"--set {said}")
        (tmp_path / "named.toml").write_text(f'targets = "{targets}"\n{table.read_text()}')
        wrong(psofed("run", tmp_path / "named.toml", "--out", "s"), said)
    for setting, said in (
        ("judge=personal", 'judge is "personal", but the test samples of a table'),
        ("rounds=100000", "rounds is 100000, but a round is a tick"),
    ):
        wrong(psofed("run", table, "--set", setting, "--out", "s"), said)
    assert not (tmp_path / "s").exists()

"""The command line as people use it: real processes, real files, real signals."""

import csv
import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time

import pytest

import psofed as package
from helpers import ROOT
from helpers.command import wrong
from psofed import experiment as experiments
from psofed.cli.laws import executors


def test_help_and_version_are_fast_and_import_nothing_heavy(process, psofed):
    found = process("--version", env={**os.environ, "PSOFED_VERSION": "x"}).stdout
    name, _, rest = found.partition("+")
    assert name == f"psofed, version {package.__version__}"
    if (ROOT / ".git").exists():
        git = ("git", "describe", "--always", "--exclude=*")
        done = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True)
        assert rest.strip().removesuffix("-dirty") == done.stdout.strip()
    shown = psofed("--help")
    assert all(verb in shown.stdout for verb in ("reproduce", "run", "init", "check"))
    # A worker process imports `main` again, as the module that was started.
    for name, heavy in {"verbs": ("numpy", "rich"), "main": ("numpy", "rich", "click")}.items():
        code = f"import psofed.cli.{name}, sys; print([m for m in {heavy} if m in sys.modules])"
        loaded = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert loaded.stdout.strip() == "[]"


def test_reproduce_writes_all_that_it_promises(process, tmp_path):
    result = process("reproduce", "--runs", 4, "--rounds", 220, "--out", "r")
    assert result.returncode == 0, result.stderr
    names = {path.name for path in (tmp_path / "r").iterdir()}
    pictures = {f"figure_{x}.{suffix}" for x in "ab" for suffix in ("png", "pdf")}
    assert names == pictures | {"curves.csv", "summary.json", "experiment.toml", "report.html"}
    for words in (
        "Claim 1",
        "Claim 2",
        "Claim 3",
        "n=200",
        "steady - Online-Fed",
        "noise variance:",
    ):
        assert words in result.stdout
    assert "The claims are about 5,000 rounds, this is a verdict after 220" in result.stdout
    assert "The claims are about 5,000 rounds" in (tmp_path / "r" / "report.html").read_text()
    with open(tmp_path / "r" / "curves.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    asked = "method shared scheme round mse mse_db stderr_db uplink_bytes downlink_bytes cumulative"
    assert set(asked.split()) <= set(rows[0])
    assert len(rows) == 7 * 221
    last = next(r for r in rows if r["shared"] == "40" and r["round"] == "220")
    assert float(last["uplink_bytes"]) == 4 * 40 * 4
    assert float(last["cumulative"]) == 220 * 2 * 4 * 40 * 4
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert summary["runs"] == 4
    assert summary["command"].endswith("--rounds 220 --seed 0 --runs 4")
    assert {"python", "psofed", "numpy"} == set(summary["versions"])
    assert [claim["number"] for claim in summary["claims"]] == [1, 2, 3]
    assert [m.get("traffic_share") for m in summary["methods"]][3] == 0.2


@pytest.mark.usefixtures("sketched")
def test_run_takes_rounds_seed_and_runs_and_prints_a_table_or_json(psofed, tmp_path, tiny):
    people = psofed("run", tiny, "--set", "rounds=20", "--set", "seed=7", "--runs", 1)
    assert "PSO-Fed M=2 uncoordinated" in people.stdout
    assert "claim" not in people.stdout.lower()
    assert "\n1 run of 20 rounds; results in results/tiny" in people.stdout
    ran = experiments.read(tmp_path / "results" / "tiny" / "experiment.toml")
    assert (ran.rounds, ran.seed, ran.runs) == (20, 7, 1)
    table = json.loads(psofed("run", tiny, "--json").stdout)
    assert table["methods"][1]["traffic_share"] == 0.25
    assert table["folder"] == os.path.join("results", "tiny-2")


def test_the_command_in_a_result_repeats_it_to_the_byte(process, works, tmp_path, tiny):
    assert process("run", tiny, "--out", "first").returncode == 0
    first = tmp_path / "first"
    command = json.loads((first / "summary.json").read_text())["command"].split()[1:]
    works(*command, "--out", "../again", cwd=first)
    for path in first.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


def test_init_writes_the_papers_setting_and_never_over_a_file(process, psofed, tmp_path):
    assert process("init", "new.toml").returncode == 0
    text = (tmp_path / "new.toml").read_text()
    assert psofed("init", "-").stdout == text
    assert experiments.read(tmp_path / "new.toml").clients == 100
    (tmp_path / "new.toml").write_text("mine")
    wrong(psofed("init", "new.toml"), "new.toml exists already", "nothing was changed")
    assert (tmp_path / "new.toml").read_text() == "mine"
    wrong(psofed("init", "nowhere/new.toml"), "cannot be written", "No such file")


def test_verify_draws_cases(works):
    drawn = works("study", "verify")
    assert drawn.stdout.count("ok") == 25


def test_verify_fails_when_executors_differ(psofed, monkeypatch):
    monkeypatch.setattr(executors.Differences, "passed", False)
    result = psofed("study", "verify")
    assert result.returncode == 1
    assert "DIFFERS" in result.stdout


def test_a_full_standard_output_is_not_a_bug(process):
    with open("/dev/full", "w") as full:
        result = process("init", "-", stdout=full)
    assert result.returncode != 0
    assert "this is a bug" not in result.stderr


def test_many_methods_fit_into_one_figure_and_a_label_is_text(works, file):
    labels = ["$x^$", "_hidden", *[""] * 28]
    methods = [{"name": "psofed", "shared": m, "label": each} for m, each in enumerate(labels, 1)]
    few = {"clients": 4, "rounds": 5, "runs": 2, "test_samples": 40, "features": {"dim": 31}}
    result = works("run", file(**few, methods=methods), "--out", "out")
    assert "Warning" not in result.stderr
    assert "nan" not in result.stdout


def test_a_number_of_jobs_that_is_none_is_refused(psofed, monkeypatch):
    monkeypatch.setenv("PSOFED_JOBS", "many")
    wrong(psofed("reproduce", "--runs", 1), "PSOFED_JOBS is 'many'; use 1 or more")


def test_a_folder_that_cannot_be_written_is_known_before_the_work(psofed, tmp_path, tiny):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep me")
    wrong(psofed("run", tiny, "--out", "full"), "full is not empty", "give another --out")
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["mine.txt"]


def test_a_disk_that_is_full_leaves_nothing_half_written(process, psofed, tmp_path, tiny):
    def small_files_only():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    psofed("run", tiny, "--out", "warm")  # so that compiled code is on disk already
    result = process("run", tiny, "--out", "a/b", preexec_fn=small_files_only)
    assert result.returncode == 3, result.stderr
    assert "a/b cannot be written: File too large; free some space" in result.stderr
    assert "Traceback" not in result.stderr
    assert "no run was finished" in result.stderr
    assert not (tmp_path / "a").exists()


def test_a_file_that_does_not_fit_is_named(psofed, monkeypatch, tiny):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "some/file")

    monkeypatch.setattr("psofed.experiment.read", full)
    result = psofed("run", tiny, "--out", "r")
    assert result.returncode == 3
    assert result.stderr == "psofed: some/file cannot be written: No space left on device\n"


@pytest.mark.long
def test_ctrl_c_keeps_what_is_finished_and_says_so(start, works, tmp_path):
    command = ("reproduce", "--rounds", "20000", "--out", "r")  # minutes: a line every 10 s
    process = start(*command, stderr=subprocess.PIPE)
    first = process.stderr.readline()
    while first.startswith("simulating: 0 of 500"):  # where it takes long, as on a busy machine
        first = process.stderr.readline()
    assert re.match(r"simulating: \d+ of 500 runs, (about|roughly) .* left; Online-Fed", first)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 130
    assert time.monotonic() - begin < 30
    kept = int(re.search(r"Interrupted: (\d+) runs? w\w+ finished; .* kept", rest)[1])
    assert 0 < json.loads((tmp_path / "r" / "summary.json").read_text())["runs"] <= kept
    done = works(*command, "--runs", kept)
    assert re.search(rf"Resumed: {kept} runs? w\w+ finished before", done.stderr)
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["runs"] == kept


def test_a_bug_shows_a_traceback_and_asks_for_a_report(tmp_path):
    code = (
        "import psofed.simulate.reference\n"
        "def boom(*_): raise RuntimeError('planted')\n"
        "psofed.simulate.reference.draw = boom\n"
        "from psofed.cli.main import main\n"
        "main(['study', 'verify'])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert "Please report it" in result.stderr.splitlines()[-1]


def test_the_project_says_nothing_about_one_machine():
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if tracked.returncode:
        pytest.skip("not a git checkout")
    for name in tracked.stdout.split():
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".txt", ".cff", ".yml"}:
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"(?<![\w.])/(work|root|home)/", text), name
            assert not re.search(r"files\.python" + r"hosted|pypi\.org/simple", text), name


@pytest.mark.parametrize(
    "command",
    [("run",), ("compare", "--tuning", "none"), ("study", "sweep", "--set", "shared=1,2")],
)
def test_ctrl_c_just_before_the_first_run_leaves_nothing(
    psofed, tiny, tmp_path, monkeypatch, command
):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("psofed.simulate.montecarlo.showing_runs", stop)
    monkeypatch.setattr("os._exit", sys.exit)
    done = psofed(*command, tiny, "--set", "runs=2", "--set", "rounds=100", "--out", "r")
    assert done.returncode == 130
    assert "nothing was written" in done.stderr
    assert not (tmp_path / "r").exists()


def test_a_psofed_without_compiled_code_says_that_it_is_slow(psofed, works, tiny, monkeypatch):
    from psofed.core import native

    told = "This psofed has no compiled code"
    assert told not in psofed("run", tiny, "--runs", 1, "--out", "a").stderr
    monkeypatch.setattr(native, "library", lambda level=None: None)
    done = works("run", tiny, "--runs", 1, "--out", "b")
    assert told in done.stderr

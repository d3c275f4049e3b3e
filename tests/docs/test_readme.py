"""The README's code runs, and its commands exist."""

import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from helpers import ROOT
from helpers.pages import blocks
from psofed import experiment as experiments
from psofed.cli.laws.rules import subject
from psofed.federation import schema
from psofed.fleet.protocol import in_memory
from psofed.simulate.draws import draw

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_ten_lines_run(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "PSO-Fed M=40" in result.stdout
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_two_commands_are_dev_py_and_ci_runs_the_second():
    (block,) = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    commands = [line.split("#")[0].strip() for line in block.strip().splitlines()]
    assert commands == ["python3 dev.py reproduce --runs 100", "python3 dev.py test"]
    assert commands[1] in (ROOT / ".ci" / "run").read_text()


def test_the_experiment_of_all_methods_has_all_methods():
    experiment = experiments.read(ROOT / "benchmarks" / "all_methods.toml")
    assert {options.name for options in experiment.methods} == set(schema.names("psofed.methods"))


@pytest.fixture
def worked_example(tmp_path):
    """The file of docs/extend.md and its experiment, somewhere outside the package."""
    for block in blocks(ROOT / "docs" / "extend.md"):
        if block.what in ("signs.py", "signs.toml"):
            (tmp_path / block.what).write_text(block.text)
    return tmp_path / "signs.toml"


def test_the_worked_example_of_a_method_counts_one_bit_for_each_entry(worked_example):
    made = experiments.read(worked_example).methods[0]
    assert made.title() == "Signs E=5"
    options = replace(made, local_steps=2)
    small = experiments.Experiment(
        clients=5, cohort=2, rounds=40, runs=1, dtype="float64", methods=(options,),
        features=experiments.Features(dim=10),
    )  # fmt: skip
    task = small.task(0, wire="float64")
    (method,) = small.start(task)
    (chunk,) = draw(small, task, everybody=True).chunks()
    sent = in_memory.run(method, chunk.x, chunk.y)
    assert np.abs(sent.models[-1]).max() > 0
    assert sent.traffic[1, 0] == 2 * (8 + 2)  # two members, a float64 and ten bits each


def test_the_worked_example_obeys_every_rule(worked_example):
    found = subject(str(worked_example.parent / "signs.py")).verdicts()
    assert [verdict.line() for verdict in found if verdict.outcome == "failed"] == []


def test_what_is_cited_is_what_the_repository_says(psofed):
    shown = psofed("--cite").stdout
    assert re.findall(r"^@(\w+)\{\w+,$", shown, re.MULTILINE) == ["inproceedings", "software"]
    plain, data = " ".join(shown.split()), (ROOT / "CITATION.cff").read_text()
    for words in re.findall(r'(?:family-names: |title: ")([^",\n]+)', data):
        assert words in plain
    assert shown.split("\n\n")[0] in (ROOT / "README.md").read_text()

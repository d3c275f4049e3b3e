"""The README's code runs, and its commands exist."""

import re
import subprocess
import sys

import pytest

from helpers import ROOT
from psofed import experiment as experiments
from psofed.federation import schema

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_ten_lines_run(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    said = re.fullmatch(
        r"<Federation: PSO-Fed M=40.*, 2 clients, 3,000 samples.*> (.*)\n", result.stdout
    )
    assert abs(float(said[1]) - 1.48) < 0.5
    assert (tmp_path / "federation.psofed").stat().st_size > 0


def test_the_two_commands_are_dev_py_and_ci_runs_the_second():
    (block,) = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    commands = [line.split("#")[0].strip() for line in block.strip().splitlines()]
    assert commands == ["python3 dev.py reproduce --runs 100", "python3 dev.py test"]
    assert commands[1] in (ROOT / ".ci" / "run").read_text()


def test_the_experiment_of_all_methods_has_all_methods():
    experiment = experiments.read(ROOT / "benchmarks" / "all_methods.toml")
    assert {options.name for options in experiment.methods} == set(schema.names("psofed.methods"))


def test_what_is_cited_is_what_the_repository_says(psofed):
    shown = psofed("--cite").stdout
    assert re.findall(r"^@(\w+)\{\w+,$", shown, re.MULTILINE) == ["inproceedings", "software"]
    plain, data = " ".join(shown.split()), (ROOT / "CITATION.cff").read_text()
    for words in re.findall(r'(?:family-names: |title: ")([^",\n]+)', data):
        assert words in plain
    assert shown.split("\n\n")[0] in (ROOT / "README.md").read_text()

"""The README's code runs, and its commands exist."""

import re
import subprocess
import sys

import numpy as np
import pytest
from methods_page import page

from helpers import ROOT
from psofed import experiment as experiments
from psofed import methods, schema
from psofed.protocol import in_memory
from psofed.simulate import any_method
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


def test_every_link_of_the_documents_leads_somewhere():
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md"]:
        text = document.read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_every_file_that_the_paper_index_names_exists():
    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    for name in re.findall(r"`(\w+/\w+\.py)`", text):
        assert (ROOT / "src" / "psofed" / name).exists(), name


def test_the_page_of_methods_is_what_the_code_says():
    written = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    assert written == page(), "run: python docs/_tools/methods_page.py docs/methods.md"


def test_the_experiment_of_all_methods_has_all_methods():
    experiment = experiments.read(ROOT / "benchmarks" / "all_methods.toml")
    assert {options.name for options in experiment.methods} == set(schema.names("psofed.methods"))


@pytest.fixture
def worked_example(tmp_path, monkeypatch):
    """The method of docs/adding_a_method.md, as if its file were in the folder of methods."""
    text = (ROOT / "docs" / "adding_a_method.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "signs.py").write_text(code)
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    yield schema.load("psofed.methods", "signs")
    sys.modules.pop("psofed.methods.signs")


def test_the_worked_example_of_a_method_does_what_the_contract_asks(worked_example):
    options = worked_example.Options(local_steps=2)
    small = experiments.Experiment(
        clients=5, cohort=2, rounds=40, runs=1, dtype="float64", methods=(options,),
        features=experiments.Features(dim=10),
    )  # fmt: skip
    task = small.task(0, wire="float64")
    (method,) = small.start(task)
    draws = draw(small, task, everybody=True)
    (chunk,) = draws.chunks()
    sent = in_memory.run(method, chunk.x, chunk.y)
    play = any_method.play(draws, method, any_method.RunSamples(draws))
    models, traffic = zip(*((m.server["w"].copy(), m.traffic) for m in play), strict=True)
    assert np.abs(np.array(models) - sent.models).max() <= 1e-12
    assert np.abs(sent.models[-1]).max() > 0
    assert [tuple(row) for row in sent.traffic] == list(traffic[1:])
    assert sent.traffic[1, 0] == 2 * (8 + 2)  # two members, a float64 and ten bits each


def test_the_worked_example_is_found_by_an_experiment(worked_example, tmp_path):
    path = tmp_path / "signs.toml"
    text = (ROOT / "docs" / "adding_a_method.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    path.write_text(table)
    assert experiments.read(path).methods == (worked_example.Options(local_steps=5),)

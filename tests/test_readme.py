"""The README's code runs, and its commands exist."""

import re
import subprocess
import sys

from conftest import ROOT
from psofed import experiment as experiments
from psofed import named
from psofed.report.methods_page import page

README = (ROOT / "README.md").read_text(encoding="utf-8")


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
    assert written == page(), "run: python -m psofed.report.methods_page docs/methods.md"


def test_the_experiment_of_all_methods_has_all_methods():
    experiment = experiments.read(ROOT / "benchmarks" / "all_methods.toml")
    assert {options.name for options in experiment.methods} == set(named.names("psofed.methods"))

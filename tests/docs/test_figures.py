"""The figures that `benchmarks/all.py` measures are on their pages."""

import importlib.util
import re
import sys

import pytest

from helpers import ROOT

_path = ROOT / "benchmarks" / "figures.py"
if not _path.exists():
    pytest.skip("benchmarks/ is not here", allow_module_level=True)
_spec = importlib.util.spec_from_file_location("figures", _path)
figures = importlib.util.module_from_spec(_spec)
sys.modules["figures"] = figures
_spec.loader.exec_module(figures)


@pytest.mark.parametrize("figure", figures.FIGURES, ids=lambda f: f"{f.page}: {f.name}")
def test_every_figure_is_found_once_on_its_page(figure):
    assert figure.documented() > 0


def test_every_figure_has_a_benchmark_and_every_benchmark_a_figure():
    assert {figure.module for figure in figures.FIGURES} == set(figures.SOURCES)


@pytest.mark.parametrize("module", figures.SOURCES)
def test_a_benchmark_is_a_script_that_measures_each_of_its_figures(module):
    script = ROOT / "benchmarks" / f"{module}.py"
    assert figures.SOURCES[module].command.split()[0] == script.name
    assert re.search(r"^def measure\(quick: bool", script.read_text(), re.MULTILINE)

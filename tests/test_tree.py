"""The tree keeps its laws: one name for each class, small tests, layers that are written down."""

import ast
import re
import tomllib
from collections import defaultdict

import pytest

from helpers import ROOT

SOURCE = ROOT / "src" / "psofed"
TESTS = sorted((ROOT / "tests").rglob("*.py"))
MOST_LINES = 400
# What each file of a plug-in folder has to define, because it is found by that name.
CLASSES = {"Options", "Method", "Policy", "Attack", "Defence"}
# Programs that may be absent: tests/conftest.py looks for them.
FOUND_BY_FIXTURES = {
    "helpers.programs",
    "helpers.programs.find",
    "helpers.devices.Mosquitto",
    "playwright.sync_api.sync_playwright",
}


def repeated(pairs):
    """The names that stand at more than one place."""
    places = defaultdict(list)
    for name, place in pairs:
        places[name].append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def public_classes():
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, path.relative_to(SOURCE).as_posix()


def imported(text):
    """All that a file imports, by full names."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_two_public_classes_share_a_name():
    twice = repeated(public_classes())
    assert not twice.keys() - CLASSES, twice


def test_the_layers_of_the_guide_are_those_that_the_linter_checks():
    """The guide has a block of the layers, the highest first, one line for each."""

    def tidy(line):
        return {name for name in re.split(r"[\s|:]+", line) if name} - {"__main__"}

    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (c["layers"] for c in contracts["contracts"] if c["type"] == "layers")
    wanted = [tidy(line) for line in layers if tidy(line)]
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    written = [[tidy(line) for line in block.splitlines() if tidy(line)] for block in blocks]
    found = [lines for lines in written if lines and lines[0] == {"cli"}]
    assert found == [wanted], "one block, with `cli` in its first line"


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_file_of_tests_is_short_and_imports_no_other_test(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MOST_LINES
    for name in imported(text):
        parts = name.split(".")
        assert "conftest" not in parts, name
        assert not any(part.startswith("test_") for part in parts), name


def test_a_test_has_brokers_and_browsers_from_fixtures_which_skip_where_there_are_none():
    for path in (path for path in TESTS if path.name != "conftest.py"):
        found = set(imported(path.read_text(encoding="utf-8")))
        assert path.parent.name == "helpers" or not found & FOUND_BY_FIXTURES, path.name


def test_every_test_is_in_a_folder_that_the_source_has_too():
    folders = {path.parent.name for path in TESTS if path.name.startswith("test_")}
    packages = {path.parent.name for path in SOURCE.rglob("__init__.py")}
    # Transcriptions of papers stand beside no package: they share nothing with any.
    assert folders <= packages | {"docs", "examples", "tests", "published"}

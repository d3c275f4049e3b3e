"""The tree keeps its laws: one name for each class, small tests, layers that are written down."""

import ast
import re
import tomllib
from collections import Counter

from helpers import ROOT

SOURCE = ROOT / "src" / "psofed"
TESTS = sorted((ROOT / "tests").rglob("*.py"))
# What each file of a plug-in folder has to define, because it is found by that name.
CLASSES = {"Options", "Method", "Policy", "Attack", "Defence"}
# What no test imports: another test, and what looks for programs that may be absent.
FORBIDDEN = re.compile(
    r"^ *(?:from|import) (?:[^(\n]*\([^)]*|[^\n]*)"
    r"\b(?:conftest|test_\w+|programs(?! import ORIGINS)|Mosquitto|sync_playwright)\b",
    re.MULTILINE,
)


def test_no_two_public_classes_share_a_name():
    parsed = (ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py"))
    classes = (node.name for each in parsed for node in each.body if isinstance(node, ast.ClassDef))
    counts = Counter(name for name in classes if not name.startswith("_"))
    assert {name for name, count in counts.items() if count > 1} <= CLASSES


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


def test_tests_are_short_import_no_other_and_have_programs_from_fixtures_which_skip():
    for path in TESTS:
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") <= 400, path
        allowed = path.parent.name == "helpers" or path.name == "conftest.py"
        assert allowed or not FORBIDDEN.search(text), path


def test_every_test_is_in_a_folder_that_the_source_has_too():
    folders = {path.parent.name for path in TESTS if path.name.startswith("test_")}
    packages = {path.parent.name for path in SOURCE.rglob("__init__.py")}
    # Transcriptions of papers stand beside no package: they share nothing with any.
    assert folders <= packages | {"docs", "examples", "tests", "published"}

"""The house is small enough to hold: each number here was reached, and may only fall.

Lines and modules may rise with a new capability, by a line in RAISED that says which.
"""

import ast
import dataclasses
import inspect
import re

import click
import pytest

from helpers import ROOT, walks
from psofed.cli.verbs import cli
from psofed.federation import contract

SOURCE = ROOT / "src" / "psofed"
MODULES = sorted(SOURCE.rglob("*.py"))

# What a reader has to walk through, in modules whose functions are executed.
WALKS = {
    "reproduce --runs 2 --rounds 100": 45,
    "fit --example --out fit": 50,
    walks.MESSAGES: 19,
}
HANDLERS, ATTRIBUTES, TASK_FIELDS = 12, 8, 10
PSOFED_LINES, EQUATION_10 = 93, 8
FOLDERS, LOOSE_MODULES, FILES_IN_A_FOLDER = 14, 8, 18
MODULE_COUNT, LINES = 239, 39_997
DOC_WORDS, TEST_LINES, PACKAGES = 32_000, 26_939, 101
TESTS_RAISED = {  # capability: lines
    "tables as people have them: inputs that grow, remarks between rows": 50,
    "a theory of samples that are correlated in time": 151,
    "a client in C for microcontrollers": 395,
    "a federation of streams from Python, in pipelines of River and in parts": 393,
    "Python warns; classes have their names, options their help, guesses an answer": 150,
    "clients with unequal amounts of data; systems without POSIX": 140,
    "momentum and Adam at the server, raw samples in bursts, a search in sweeps": 203,
    "masked sums count only who has learned, and devices are told what sums tell": 88,
    "curves by title, run by run, in numbers and LaTeX; maps; spread in the playground": 207,
    "a gateway to microcontrollers; frames of 51 bytes": 350,
    "a client for MicroPython": 169,
    "labels that may be wrong are named; quarters are times; trends are followed": 44,
}
VERBS, ALL_OPTIONS = 12, 110  # on the first screen; of all commands together
OPTIONS = {"fit": 11, "advise": 8}
RAISED = {  # capability: modules, lines
    "clients mix all models that they can have": (4, 780),
    "personal errors; Ditto, Fed-POE and POF-MKL": (3, 600),
    "tables as people have them: months, headings, units, what is clipped": (2, 546),
    "MEMO-Fed on tables": (0, 75),
    "older labels in lines and ridges; clients with few labels lean on all": (0, 118),
    "operators see which model a client trusts": (0, 31),
    "no member slows a fleet or ends a fold, and no folder runs code": (0, 100),
    "devices in the field: questions, doubtful rows, output never blocked, little flash": (5, 818),
    "names of clients, questions to a server, a run next to its simulation, versions": (0, 375),
    "samples are a vital sign, and lost state is regained": (2, 370),
    "the check names what an incomplete plug-in lacks": (0, 40),
    "inputs may grow; hours of 1 to 24; remarks between rows": (0, 70),
    "a theory of samples that are correlated in time, and its caveat elsewhere": (1, 316),
    "sums of several rounds are read jointly; epsilon of a measurement": (0, 305),
    "a client in C for microcontrollers": (1, 226),
    "a federation of streams from Python, in pipelines of River and in parts": (3, 898),
    "Python warns; classes have their names, options their help, guesses an answer": (1, 430),
    "clients with unequal amounts of data; systems without POSIX": (0, 50),
    "momentum and Adam at the server, raw samples in bursts, a search in sweeps": (2, 358),
    "masked sums count only who has learned, and devices are told what sums tell": (0, 32),
    "curves by title, run by run, in numbers and LaTeX; maps; spread in the playground": (0, 198),
    "a gateway to microcontrollers; frames of 51 bytes": (5, 545),
    "a client for MicroPython": (1, 326),
    "labels that may be wrong are named; quarters are times; trends are followed": (0, 22),
}


@pytest.mark.parametrize("command", WALKS)
def test_a_command_walks_through_few_modules(command):
    found = walks.modules(*([command] if command == walks.MESSAGES else command.split()))
    assert len(found) <= WALKS[command], sorted(found)


def test_the_contract_of_a_method_is_short():
    own = [n for n, f in vars(contract.Method).items() if inspect.isfunction(f) and n[0] != "_"]
    assert len(own) <= HANDLERS
    assert len(contract.Method.__annotations__) <= ATTRIBUTES
    assert len(dataclasses.fields(contract.Task)) <= TASK_FIELDS


def test_the_papers_method_fits_on_a_screen_or_two():
    assert len((SOURCE / "methods" / "psofed.py").read_text().splitlines()) <= PSOFED_LINES


def test_an_equation_is_implemented_in_few_places():
    index = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8").splitlines()
    (row,) = (line for line in index if line.startswith("| (10) |"))
    assert row.count("](../src/") <= EQUATION_10


def test_no_function_makes_classes():
    for path in MODULES:
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                assert not any(isinstance(node, ast.ClassDef) for node in ast.walk(function)), path


def test_no_handler_asks_whether_there_are_several_runs():
    found = [p for p in MODULES if re.search(r"(?<!np)\.ndim", p.read_text(encoding="utf-8"))]
    assert not {p.relative_to(SOURCE).parts[0] for p in found} & {"methods", "rivals", "stages"}


def test_the_tree_has_few_folders_with_few_files_each():
    folders = [f for f in SOURCE.iterdir() if f.is_dir() and f.name != "__pycache__"]
    assert len(folders) <= FOLDERS
    assert len(list(SOURCE.glob("*.py"))) <= LOOSE_MODULES
    largest = max(len(list(f.glob("*.py"))) for f in {path.parent for path in MODULES})
    assert largest <= FILES_IN_A_FOLDER


def test_modules_and_lines_rise_with_a_named_capability_only():
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES)
    assert len(MODULES) <= MODULE_COUNT + sum(modules for modules, _ in RAISED.values())
    assert lines <= LINES + sum(more for _, more in RAISED.values())


def commands(command, path=()):
    """A command with all those below it, by the words that name them."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), (*path, name))


def test_a_newcomer_sees_few_verbs_and_each_has_few_options():
    options = {
        " ".join(path): sum(isinstance(param, click.Option) for param in command.params)
        for path, command in commands(cli)
    }
    assert len([name for name in options if name and " " not in name]) <= VERBS
    assert sum(options.values()) <= ALL_OPTIONS, options
    for name, most in OPTIONS.items():
        assert options[name] <= most, name


def test_the_pages_are_few_words():
    pages = (path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    assert sum(len(page.split()) for page in pages) <= DOC_WORDS


def test_the_tests_are_few_lines():
    most = TEST_LINES + sum(TESTS_RAISED.values())
    paths = (ROOT / "tests").rglob("*.py")
    assert sum(len(p.read_text(encoding="utf-8").splitlines()) for p in paths) <= most


def test_a_developer_installs_few_packages():
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert len(re.findall(r"^[\w.-]+==", pins, re.MULTILINE)) <= PACKAGES

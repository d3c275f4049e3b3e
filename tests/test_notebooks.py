"""The notebooks of the documents run, and progress is seen where somebody looks."""

import io
import json
import re
import sys
import types
from dataclasses import replace

import notebooks
import numpy as np
import pytest

import psofed
from helpers import ROOT
from psofed.federation import progress

FOLDER = ROOT / "docs" / "notebooks"
FILES = sorted(FOLDER.glob("*.ipynb"))
MOST_BYTES = 400_000
# What a cell says does not depend on how long it computes, as numbers are not compared.
SHORTER = {
    "rounds=1000,\n    runs=10": "rounds=100,\n    runs=2",
    "rounds=500, runs=5": "rounds=50, runs=2",
    "runs=100": "runs=4",
    "runs=4,\n    features": "runs=2,\n    features",
}
FEW = psofed.Experiment(
    clients=5, cohort=2, rounds=10, runs=3, test_samples=20, features=psofed.Features(dim=6),
    methods=(psofed.OnlineFed(), psofed.PSOFed(shared=2)),
)  # fmt: skip


def load(path):
    return json.loads(path.read_text(encoding="utf-8"))


def outputs(notebook):
    """What each cell shows: the kinds, and the texts without their numbers."""
    found = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            text = output.get("text") or output["data"].get("text/plain", "")
            kinds = sorted(output.get("data", {"text": ""}))
            found.append((kinds, re.sub(r"[-+]?\d[\d.,]*", "0", " ".join("".join(text).split()))))
    return found


def shortened(path):
    """The notebook with smaller sizes in its code."""
    notebook = load(path)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["source"] = "".join(cell["source"])
            for long, short in SHORTER.items():
                cell["source"] = cell["source"].replace(long, short)
    return notebook


def test_there_is_something_to_shorten():
    cells = [cell["source"] for path in FILES for cell in load(path)["cells"]]
    for long in SHORTER:
        assert sum(long in "".join(source) for source in cells) == 1, long


@pytest.mark.long
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_says(path, tmp_path):
    again = notebooks.tidy(notebooks.execute(shortened(path), tmp_path))
    assert outputs(again) == outputs(load(path))


def test_there_are_notebooks_small_and_without_a_trace_of_a_machine():
    assert [path.stem for path in FILES] == ["paper_in_five_minutes", "your_own_method"]
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert len(text) < MOST_BYTES
        assert not re.search(r"/(home|root|work|tmp|Users)/", text)
        assert load(path) == notebooks.tidy(load(path))
        counts = [c["execution_count"] for c in load(path)["cells"] if c["cell_type"] == "code"]
        assert counts == list(range(1, len(counts) + 1))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_notebook_is_a_page_of_the_site_too(path, tmp_path):
    page = notebooks.markdown(load(path), path.stem, tmp_path / "pictures")
    assert page.startswith("# ")
    assert "```python" in page
    for name in re.findall(r"\]\((pictures/[^)]+)\)", page):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    for link in re.findall(r"\]\(\.\./([\w.]+)\)", page):
        assert (ROOT / "docs" / link).exists(), link


class Screen(io.StringIO):
    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "progress", "seen"),
    [(True, None, True), (False, None, False), (True, False, False), (False, True, False)],
)
def test_a_terminal_sees_progress_by_itself_and_a_log_does_not(
    monkeypatch, terminal, progress, seen
):
    screen = Screen(terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    psofed.run(FEW, 1, progress=progress)
    assert ("simulating" in screen.getvalue()) is seen


def test_a_log_that_asks_for_progress_gets_lines(monkeypatch):
    screen = Screen(False)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "EVERY", 0.0)
    monkeypatch.setattr(progress, "TICK", 0.01)
    with progress.showing("simulating", "runs", total=3) as shown:
        shown.advance(1)
        for _ in range(500):
            if screen.getvalue():
                break
            progress.Event().wait(0.01)
    assert re.match(r"simulating: \d of 3 runs", screen.getvalue())


@pytest.fixture
def cell(monkeypatch):
    """A notebook's kernel, as far as progress needs one: the list of what a cell has shown."""
    shown = []

    class Handle:
        def update(self, thing):
            shown.append(thing.data)

    def display(thing, display_id):
        shown.append(thing.data)
        return Handle()

    python = types.ModuleType("IPython")
    python.get_ipython = object
    parts = types.ModuleType("IPython.display")
    parts.display, parts.HTML = display, lambda data: types.SimpleNamespace(data=data)
    monkeypatch.setitem(sys.modules, "IPython", python)
    monkeypatch.setitem(sys.modules, "IPython.display", parts)
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    return shown


def test_a_notebook_sees_one_line_that_ends_with_what_was_done(cell):
    psofed.run(FEW, 1)
    assert "0 of 3 runs" in cell[0]
    assert re.search(r'<progress value="1.000" max="1">.*simulating: 3 runs in \d+ s', cell[-1])


def test_a_notebook_can_do_without(cell):
    psofed.run(FEW, 1, progress=False)
    psofed.run(FEW, 1, on_run=lambda total: None)
    assert cell == []


def test_an_interrupted_cell_keeps_its_runs_and_its_line(cell):
    def stop(total):
        if total.runs == 2:
            raise KeyboardInterrupt

    with pytest.raises(psofed.Interrupted, match=r"after 2 of 3 runs: psofed\.finished_runs\(\)"):
        psofed.run(FEW, 1, on_run=stop, progress=True)
    assert "2 runs in" in cell[-1]
    kept = psofed.finished_runs()
    assert np.array_equal(kept.mse, psofed.run(replace(FEW, runs=2), 1, progress=False).mse)
    for shown in (repr(kept), kept._repr_html_()):
        assert "2 of 3 runs" in shown

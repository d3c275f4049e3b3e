"""dev.py says what it does."""

import importlib.util
import shutil
import sys

import pytest

from helpers import ROOT


@pytest.fixture(scope="module")
def dev():
    spec = importlib.util.spec_from_file_location("dev", ROOT / "dev.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_hidden_programs_are_not_found_and_all_others_are(dev, tmp_path):
    first, second, hidden = (tmp_path / name for name in ("first", "second", "bin"))
    for place, names in {first: ["promtool", "sh"], second: ["mosquitto", "sh", "sed"]}.items():
        place.mkdir()
        for name in names:
            (place / name).touch(mode=0o755)
    dev.hide_programs(hidden, f"{first}:{tmp_path / 'nowhere'}:{second}")
    assert {path.name: path.readlink().parent for path in hidden.iterdir()} == {
        "sh": first,
        "sed": second,
    }
    assert shutil.which("sh", path=str(hidden)) == str(hidden / "sh")


SUITE = """
import pathlib
import pytest

@pytest.mark.parametrize("i", range({flaky}))
def test_that_fails_once(i):
    mark = pathlib.Path(f"seen{{i}}")
    first = not mark.exists()
    mark.touch()
    assert not first

def test_that_stays_as_it_is():
    assert {passes}
"""


@pytest.mark.parametrize(
    ("flaky", "passes", "code", "named"),
    [(2, True, 0, 2), (1, False, 1, 0), (4, True, 1, 0)],
    ids=["they pass alone", "one fails again", "too many to be chance"],
)
def test_a_few_failed_tests_are_tried_once_more_alone(
    dev, tmp_path, monkeypatch, capsys, flaky, passes, code, named
):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_suite.py").write_text(SUITE.format(flaky=flaky, passes=passes))
    changed = {"ROOT": tmp_path, "PYTHON": sys.executable, "CHECKS": [], "WORKERS": 0}
    for name, value in changed.items():
        monkeypatch.setattr(dev, name, value)
    assert dev.test([]) == code
    names = [f"test_suite.py::test_that_fails_once[{i}]" for i in range(named)]
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("!!!")]
    assert said == [f"!!! failed once, passed alone: {name}" for name in names]


def test_a_command_installs_what_it_needs_and_tests_all_the_rest(dev, tmp_path, monkeypatch):
    for name in ("constraints.txt", "pyproject.toml", "dev.py", "hatch_build.py"):
        shutil.copy(ROOT / name, tmp_path)
    ran = []
    for name, value in {"ROOT": tmp_path, "VENV": tmp_path, "install_uv": lambda: None}.items():
        monkeypatch.setattr(dev, name, value)
    monkeypatch.setattr(dev.subprocess, "check_call", lambda words, **_: ran.append(words[-1]))
    monkeypatch.setattr(dev.subprocess, "call", lambda *_, **__: 0)
    for command in ("reproduce", "run", "demo", "reproduce"):
        assert dev.main([command]) == 0
    assert ran == [".[plot,frame]", "constraints.txt", "."]

"""The wheel, installed in an environment of its own and used from a folder outside the clone."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from uv import find_uv_bin

from helpers import ROOT

ENV = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
TINY = """
clients = 4
rounds = 10
runs = 1
cohort = 2
test_samples = 20

[features]
dim = 8

[[methods]]
name = "psofed"
shared = 4
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this clone."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The Python of an environment with the wheel; what it depends on is read from ours."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    places = {"base": str(folder), "platbase": str(folder)}
    python = Path(sysconfig.get_path("scripts", "venv", places)) / "python"
    install = [find_uv_bin(), "pip", "install", "--offline", "--no-cache", "--no-deps", "--quiet"]
    subprocess.run([*install, "--python", python, wheel], check=True, env=ENV, cwd=folder)
    site = Path(sysconfig.get_path("purelib", "venv", places))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.fixture
def use(installed, tmp_path):
    """`use("run", FILE)`: the installed command, in an empty folder, until it has ended."""

    def run(*arguments):
        command = [installed.with_name("psofed"), *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=ENV, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def files_of(folder):
    """What is in a folder of the clone, but for what running it leaves there."""
    paths = {path for path in folder.rglob("*") if path.is_file()}
    return {
        path.relative_to(folder).as_posix() for path in paths if "__pycache__" not in path.parts
    }


def test_the_wheel_has_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    wanted = {f"psofed/{name}" for name in files_of(ROOT / "src" / "psofed")}
    assert names - {"psofed/commit"} == wanted
    assert ("psofed/commit" in names) == (ROOT / ".git").exists()


def test_the_installed_package_is_not_the_clone(installed, tmp_path):
    command = [installed, "-c", "import psofed; print(psofed.__file__)"]
    done = subprocess.run(command, cwd=tmp_path, env=ENV, capture_output=True, text=True)
    home = installed.parents[1].resolve()
    assert Path(done.stdout.strip()).resolve().is_relative_to(home), done.stderr


def test_the_installed_command_starts_runs_and_draws(use, tmp_path):
    assert re.fullmatch(r"psofed, version [\d.]+\+\S+\n", use("--version"))
    assert "Wrote first.toml" in use("init", "first.toml")
    (tmp_path / "tiny.toml").write_text(TINY)
    use("run", "tiny.toml", "--out", "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"curves.csv", "experiment.toml", "report.html", "summary.json"} <= names
    use("play", "--out", "play.html")
    assert "class Playground" in (tmp_path / "play.html").read_text(encoding="utf-8")


OWN = """
clients = 4
rounds = 30
runs = 2
cohort = 2
test_samples = 20
dtype = "float64"

[stream]
name = "function"
taps = 3
f = "./mine.py:f"

[features]
dim = 8

[[methods]]
name = "onlinefed"

[[methods]]
name = "./signs.py"
"""
MINE = """
import numpy as np

def f(x):
    return np.sin(2 * x[..., 0]) + x[..., 1] * x[..., 2]
"""


@pytest.fixture
def outside(tmp_path):
    """A folder with a method, a function and an experiment, none of which psofed knows."""
    page = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
    signs = next(b for b in page.split("```python\n")[1:] if "class Method(" in b).split("```")[0]
    (tmp_path / "signs.py").write_text(signs)
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "own.toml").write_text(OWN)
    return tmp_path


@pytest.mark.long
def test_an_own_method_and_an_own_f_are_used_by_every_command(use, outside):
    assert "Every rule holds." in use("check", "signs.py")
    use("run", "own.toml", "--out", "one")
    table = (outside / "one" / "curves.csv").read_text()
    assert "Signs" in table
    known = ("--tuning", "none", "--budget", "0.6")
    assert "Signs" in use("compare", "own.toml", *known, "--out", "three")
    # A result repeats itself from its own folder, without the files that were brought.
    for name in ("signs.py", "mine.py"):
        (outside / name).unlink()
    use("run", "one/experiment.toml", "--out", "again")
    assert (outside / "again" / "curves.csv").read_text() == table

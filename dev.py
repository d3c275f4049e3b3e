"""Set up this folder and run a command in it; needs only Python 3.11 or later, and pip.

    python3 dev.py reproduce      any psofed command, here the paper's figures
    python3 dev.py test           all checks and tests; --durations=50 tells where their time goes;
                                  --without-programs hides broker, browser, openssl and promtool
                                  from the tests that need one: they must not fail, but be skipped
    python3 dev.py docs [FOLDER]  the pages as a site that can be read offline, in site/ or FOLDER
    python3 dev.py pin            write constraints.txt, with its versions; --upgrade takes new ones

The environment goes to .venv, with the versions in constraints.txt; it is made once. What only
tests and pages need is installed when it is first needed.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
UV_VERSION = "0.13.7"
PYTHON = BIN / "python"
CHECKS = [
    ["ruff", "format", "--check", "--quiet", "."],
    ["ruff", "check", "--quiet", "."],
    ["mypy"],
    ["lint-imports", "--no-logo"],
]
PROGRAMS = {"arm-none-eabi-gcc", "chromium", "chromium-browser", "clang", "gcc", "mosquitto",
            "mosquitto_sub", "node", "openssl", "promtool", "qemu-system-arm",
            "systemd-analyze"}  # fmt: skip
# Commands that need no more than these extras; all others get everything.
SMALL, EXTRAS = {"reproduce", "run", "compare", "play", "init", "--version"}, "plot,frame"
QUICK = 2  # so many of them take no time, and nothing else starts if they fail
WORKERS = (os.cpu_count() or 1) + 2  # many tests wait, so some more than cores keep these busy
FEW = 3  # so many tests may fail and are tried once more, alone
LAST_FAILED = Path(".pytest_cache") / "v" / "cache" / "lastfailed"


def main(arguments: list[str]) -> int:
    """Set up, then do what was asked."""
    if sys.version_info < (3, 11):
        print(f"psofed needs Python 3.11 or later; this is {sys.version.split()[0]}")
        return 2
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    if arguments[0] == "pin":
        install_uv()
        return pin(arguments[1:])
    try:
        set_up(EXTRAS if arguments[0] in SMALL else "")
    except subprocess.CalledProcessError:
        print("The packages could not be installed; see above. Is there a network?")
        return 2
    if arguments[0] == "test":
        return test(arguments[1:])
    if arguments[0] == "docs":
        build = [PYTHON, ROOT / "docs" / "_tools" / "build_site.py", *arguments[1:]]
        return subprocess.call(build, env=environment())
    return subprocess.call([BIN / "psofed", *arguments], env=environment())


def set_up(extras: str = "") -> None:
    """Make .venv, unless it is there with these very versions: with some extras, or everything."""
    wanted = hashlib.sha256()
    sources = sorted((ROOT / "src" / "psofed" / "core" / "native").glob("*.[ch]"))
    files = [ROOT / n for n in ("constraints.txt", "pyproject.toml", "dev.py", "hatch_build.py")]
    for file in (*files, *sources):
        wanted.update(file.read_bytes())
    stamp, whole = VENV / "psofed-set-up", wanted.hexdigest()
    made = f"{extras} {whole}" if extras else whole
    if stamp.exists() and stamp.read_text() in (whole, made):
        return
    print("Setting up .venv, once:", file=sys.stderr)
    install_uv()
    uv = [BIN / "uv", "pip", "install", "--quiet", "--python", PYTHON]
    if extras:
        pinned = ["--constraint", "constraints.txt", "--build-constraint", "constraints.txt"]
        with step(f"install psofed[{extras}]"):
            subprocess.check_call([*uv, *pinned, "-e", f".[{extras}]"], cwd=ROOT)
        stamp.write_text(made)
        return
    count = (ROOT / "constraints.txt").read_text().count("==")
    with step(f"download and install {count} packages of constraints.txt"):
        subprocess.check_call([*uv, "--require-hashes", "-r", "constraints.txt"], cwd=ROOT)
    with step("install psofed itself"):
        subprocess.check_call([*uv, "--no-deps", "--no-build-isolation", "-e", "."], cwd=ROOT)
    stamp.write_text(whole)


def install_uv() -> None:
    """uv, by pip, in the environment itself."""
    if not PYTHON.exists():
        with step("make an environment with pip"):
            venv.create(VENV, with_pip=True)
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    with step(f"install uv {UV_VERSION}"):
        subprocess.check_call([*pip, f"uv=={UV_VERSION}"], stdout=sys.stderr)


@contextmanager
def step(what: str) -> Iterator[None]:
    """A line that says what is done, and then how long it took."""
    print(f"  {what} ...", end=" ", file=sys.stderr, flush=True)
    begin, ended = time.monotonic(), "failed"
    try:
        yield
        ended = "done"
    finally:
        print(f"{ended}, {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)


def pin(more: list[str]) -> int:
    """Write constraints.txt: packages, versions and hashes, nothing else."""
    options = "--universal --python-version 3.11 --generate-hashes --quiet"
    wanted = "--extra all --group dev"
    plain = "--no-header --no-annotate --no-emit-index-url --output-file constraints.txt"
    command = f"pip compile pyproject.toml {options} {wanted} {plain}"
    return subprocess.call([BIN / "uv", *command.split(), *more], cwd=ROOT)


def environment(**more: str) -> dict[str, str]:
    """What is set here, but for what would have every start compile the same modules again."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | more


def test(arguments: list[str]) -> int:
    """Format and lint, then types and imports beside every test and doctest."""
    # Threads of OpenBLAS would wait for cores, and spin.
    settings = environment(OPENBLAS_NUM_THREADS="1")
    if arguments == ["--without-programs"]:
        with tempfile.TemporaryDirectory() as folder:
            hide_programs(Path(folder) / "bin", settings["PATH"])
            hidden = {"PATH": f"{folder}/bin", "PSOFED_TEST_WITHOUT_PROGRAMS": "1"}
            return warned(*run_all([], settings | hidden))
    more = [word for word in arguments if word == "--thorough"]  # all settings of every method
    arguments = [word for word in arguments if word not in more]
    if arguments:
        return run_pytest(WORKERS, [*more, *arguments], settings)
    checks = [Check(check, settings) for check in CHECKS]
    if any(check.code() for check in checks[:QUICK]):
        return 1
    code, once = run_all(more, settings)
    codes = [code, *(check.code() for check in checks[QUICK:])]
    return warned(next((code for code in codes if code), 0), once)


def run_all(more: list[str], settings: dict[str, str]) -> tuple[int, list[str]]:
    """The exit code of a whole run, and the few tests that failed in it and passed alone."""
    if not any((ROOT / "tests").glob("__pycache__/*-pytest-*.pyc")):
        # In a new clone every worker would compile all files; so one process does, once.
        once = [PYTHON, "-m", "pytest", "-q", "--collect-only"]
        subprocess.call(once, cwd=ROOT, env=settings, stdout=subprocess.DEVNULL)
    record = ROOT / LAST_FAILED
    record.unlink(missing_ok=True)  # it would have failures of earlier runs too
    code = run_pytest(WORKERS, more, settings)
    failed = list(json.loads(record.read_text())) if record.exists() else []
    if code != 1 or not 0 < len(failed) <= FEW:
        return code, []
    every = {k: v for k, v in settings.items() if k != "PSOFED_TEST_WITHOUT_PROGRAMS"}
    code = run_pytest(0, ["--lf", *more], every)  # also those that need no program
    return code, [] if code else failed


def run_pytest(workers: int, more: list[str], settings: dict[str, str]) -> int:
    """Its exit code, after it said how long it took."""
    words = ["-q", "-n", str(workers), *more]
    print("$ pytest", *words, flush=True)
    begin = time.monotonic()
    code = subprocess.call([PYTHON, "-m", "pytest", *words], cwd=ROOT, env=settings)
    print(f"  {time.monotonic() - begin:.0f} s", flush=True)
    return code


def warned(code: int, once: list[str]) -> int:
    """The exit code; tests that passed only alone are the last that is said."""
    for name in once:
        print(f"!!! failed once, passed alone: {name}", flush=True)
    return code


def hide_programs(folder: Path, path: str) -> None:
    """A folder with links to everything on a PATH but those programs."""
    folder.mkdir()
    for place in filter(os.path.isdir, path.split(os.pathsep)):
        for file in Path(place).iterdir():
            link = folder / file.name
            if file.name not in PROGRAMS and not link.is_symlink():
                link.symlink_to(file.absolute())


class Check:
    """A check that runs in the background; what it prints is shown when it is asked for."""

    def __init__(self, words: list[str], environment: dict[str, str]) -> None:
        self.words, self.begin = words, time.monotonic()
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        command = [BIN / words[0], *words[1:]]
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, **both)  # type: ignore[call-overload]

    def code(self) -> int:
        """Its exit code, after what it had to say."""
        printed, _ = self.process.communicate()
        print("$", *self.words, f" ({time.monotonic() - self.begin:.0f} s since the start)")
        print(printed, end="", flush=True)
        return int(self.process.returncode)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

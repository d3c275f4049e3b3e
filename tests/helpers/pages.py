"""The Markdown pages as tests see them: fenced blocks, links, and a shell in which a page is run.

An HTML comment right before a block says how it is treated, if it is not simply run:

    <!-- not run: REASON -->         it is only checked: the shell's grammar, verbs and options
    <!-- run as: COMMAND -->         a smaller size, or what can be done on one machine
    <!-- run by: tests/FILE::TEST -->   another test runs it
    <!-- save as: FILE -->           the block is a file, which later blocks use
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import chdir, redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from runpy import run_path
from unittest import mock

from helpers import ROOT
from helpers.command import call
from helpers.devices import free_port

PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
LANGUAGES = ("sh", "python", "toml", "text", "math", "ini", "yaml", "")
DIRECTIVES = ("not run", "run as", "run by", "save as")
FENCE = re.compile(
    r"(?:^<!-- (?P<how>[a-z ]+): (?P<what>[^\n]*?) -->\n\n?)?"
    r"^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
PORTS = re.compile(
    r"(?<=127\.0\.0\.1:)(?:1883|8080|8883)|(?<=--dashboard )8080|(?<=--port )8883|(?<=mosquitto -p )1883"
)
SECONDS = 240  # for one block: machines are shared


@dataclass(frozen=True)
class Block:
    """A fenced block, where it is, and how it is to be treated."""

    page: str
    line: int
    language: str
    text: str
    how: str = ""
    what: str = ""

    @property
    def where(self) -> str:
        return f"{self.page}, line {self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for m in FENCE.finditer(text):
        line = text.count("\n", 0, m.start("language")) + 1
        found.append(
            Block(page.name, line, m["language"], m["text"], m["how"] or "", m["what"] or "")
        )
    return found


def prose(page: Path) -> str:
    """The page without its blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def commands(text: str) -> list[list[str]]:
    """The words of every psofed command in a shell's text, of those in loops too."""
    joined = re.sub(r"\\\n\s*", " ", text)
    joined = re.sub(r"<<'END'\n.*?^END$", "", joined, flags=re.DOTALL | re.MULTILINE)
    pieces = re.split(r"[\n;|]|&&|&(?!\w)|\bdo\b", joined)
    found = [shlex.split(piece, comments=True) for piece in pieces if "psofed " in piece]
    return [words[1:] for words in found if words and words[0] == "psofed"]


PLAIN = re.compile(r"psofed( [\w./=:,'-]+)+")
# With these a line is no longer a command by itself: jobs, variables, loops, folders.
SHELL = re.compile(r"(?<!&)&(?!&)|[$;|`]|^\s*(for|if|while|cd|export)\b", re.MULTILINE)


def pieces(text: str) -> list[str]:
    """A shell's text cut into commands, as far as each could be run without what is around it.

    >>> pieces("psofed run a.toml --runs 2 && psofed study verify a > b  # both")
    ['psofed run a.toml --runs 2', 'psofed study verify a > b']
    >>> pieces("psofed deploy serve a.toml & wait")
    ['psofed deploy serve a.toml & wait']
    """
    joined = re.sub(r"\\\n\s*", " ", text)
    documents = re.findall(r"^[^\n]*<<'END'\n.*?^END$", joined, re.MULTILINE | re.DOTALL)
    if SHELL.search(joined) or ("<<" in joined and not documents):
        return [text]
    for i, document in enumerate(documents):
        joined = joined.replace(document, f"document {i}")
    found = [piece.partition(" #")[0].strip() for piece in re.split(r"\n|&&", joined)]
    documents = {f"document {i}": document for i, document in enumerate(documents)}
    return [documents.get(piece, piece) for piece in found if piece]


class Shell:
    """One bash for one page, in a folder of its own; psofed, python and pip are ours.

    A command of psofed that needs nothing of the shell runs in this process, as does a block of Python:
    starting one takes longer than most of what the pages do.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.work, self.count = folder, folder / "work", 0
        self.work.mkdir()
        self.ports: dict[str, str] = {}
        (folder / "bin").mkdir()
        python = shlex.quote(sys.executable)
        for name, line in {
            "psofed": f'exec {python} -m psofed "$@"',
            "python": f'exec {python} "$@"',
            "pip": "exit 0",  # what it would install is checked elsewhere
        }.items():
            (folder / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
            (folder / "bin" / name).chmod(0o755)
        path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=self.work,
            stdin=subprocess.PIPE,
            env=os.environ | {"PATH": path, "OPENBLAS_NUM_THREADS": "1"},
            text=True,
            start_new_session=True,
        )

    def run(self, text: str) -> str:
        """What the block prints; it fails with the block's last words."""
        return "".join(
            self._call(piece) if PLAIN.fullmatch(piece) else self._run(piece)
            for piece in pieces(PORTS.sub(self._port, text))
        )

    def _call(self, piece: str) -> str:
        done = call(*shlex.split(piece)[1:], cwd=self.work)
        assert done.returncode == 0, f"{piece}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def python(self, name: str) -> str:
        """What the script of this name prints; a warning is an error, as in all tests."""
        known = set(sys.modules)
        with (
            chdir(self.work),
            redirect_stdout(StringIO()) as out,
            mock.patch.object(sys, "path", [str(self.work), *sys.path]),
        ):
            try:
                run_path(name, run_name="__main__")
            finally:
                for new in set(sys.modules) - known:
                    if str(self.work) in str(getattr(sys.modules[new], "__file__", "")):
                        del sys.modules[new]
        return out.getvalue()

    def _run(self, text: str) -> str:
        self.count += 1
        out, err, end = (self.folder / f"{self.count}.{kind}" for kind in ("out", "err", "end"))
        script = self.folder / f"{self.count}.sh"
        script.write_text(f"set -e\n{text}")
        line = f"source {script} < /dev/null > {out} 2> {err}; echo > {end}\n"
        self.bash.stdin.write(line)
        self.bash.stdin.flush()
        for _ in range(SECONDS * 20):
            if end.exists():
                return out.read_text()
            try:
                self.bash.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            break
        raise AssertionError(f"{text}\n{out.read_text()[-2000:]}\n{err.read_text()[-3000:]}")

    def _port(self, written: re.Match[str]) -> str:
        """A free port for each that a page names."""
        return self.ports.setdefault(written[0], str(free_port()))

    def close(self) -> None:
        """End the shell and whatever it has left running."""
        with suppress(ProcessLookupError):
            os.killpg(self.bash.pid, signal.SIGKILL)
        self.bash.stdin.close()
        self.bash.wait()


def differences(quoted: str, printed: str) -> list[str]:
    """What of a quoted output was not printed; a line of dots stands for any lines.

    Words and whole numbers have to be equal. The last digit of a number with a point may differ by
    two: processors round differently.
    """
    lines, at, loose, wrong = printed.splitlines(), 0, False, []
    for line in quoted.splitlines():
        if line.strip() == "...":
            loose = True
            continue
        ahead = range(at, len(lines)) if loose else range(at, min(at + 1, len(lines)))
        match = next((i for i in ahead if alike(line, lines[i])), None)
        if match is None:
            found = lines[at] if at < len(lines) else "nothing more"
            wrong.append(f"quoted:  {line}\nprinted: {found}")
            continue
        at, loose = match + 1, False
    if not loose and "".join(lines[at:]).strip():
        wrong.append(f"not quoted: {lines[at]}")
    return wrong


def alike(a: str, b: str) -> bool:
    if NUMBER.sub("#", a).split() != NUMBER.sub("#", b).split():
        return False
    pairs = zip(NUMBER.findall(a), NUMBER.findall(b), strict=True)
    return all(x == y or _near(x, y) for x, y in pairs)


def _near(x: str, y: str) -> bool:
    digits = len(x.partition(".")[2])
    if not digits:
        return False
    return abs(float(x.replace(",", "")) - float(y.replace(",", ""))) < 2.5 * 10**-digits

"""Texts and tables: on a terminal within its width, else as they are."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from psofed.extras import have
from psofed.report import files
from psofed.report.files import Block, Grid, ResultFolder

NARROW = 40  # a terminal that says that it is narrower is not believed


def make_printable() -> None:
    """A sign that standard output cannot hold, as in ASCII, becomes a question mark.

    Output that was closed (`>&-`) goes nowhere, and input that was closed is empty.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "backslashreplace"):
            stream.reconfigure(errors="replace")


def patiently(line: str, stream: TextIO) -> bool:
    """Print a line; a disk that is full loses it or delays it, but ends nothing. Whether it was."""
    try:
        print(line, file=stream, flush=True)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EROFS):
            raise
        return False
    return True


def say(line: str) -> None:
    """Print a line on standard error, apart from the result."""
    patiently(line, sys.stderr)


@contextmanager
def results(out: Path | None, default: str, resumes: bool = False) -> Iterator[ResultFolder]:
    """The folder for results: opened before the work begins, removed again if it fails."""
    folder = files.ResultFolder(out or files.default_folder(Path("results") / default), resumes)
    if not have("matplotlib"):
        say("No figures: they need matplotlib (pip install '.[plot]' in a clone).")
    try:
        yield folder
    except BaseException:
        folder.discard()
        raise


def finish(folder: ResultFolder, as_json: bool, table: dict[str, Any], *blocks: Any) -> None:
    """The result on standard output: for programs, or for people."""
    if as_json:
        print(json.dumps(table | {"folder": str(folder.path)}, indent=2))
    else:
        show(*blocks)


def show(*blocks: Block, stderr: bool = False) -> None:
    """Print texts and tables, on standard error if they are not the result."""
    stream = sys.stderr if stderr else sys.stdout
    for block in blocks:
        text = fitted(block, width()) if stream.isatty() else block
        print(text, file=stream, flush=stderr)


def width() -> int:
    """Columns of the terminal."""
    return max(shutil.get_terminal_size().columns, NARROW)


def fitted(block: Block, width: int) -> str:
    """The text with no line beyond the width: tables leave out columns, sentences are wrapped."""
    text = block.within(width) if isinstance(block, Grid) else block
    return "\n".join(_wrapped(line, width) for line in text.split("\n"))


def _wrapped(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    indent = re.match(r" *(\[.{3}\] )?", line)
    hang = " " * len(indent[0]) if indent else ""
    options = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(line, width, subsequent_indent=hang, **options)  # type: ignore[arg-type]

"""Texts and tables: on a terminal within its width and with some colour, else as they are."""

from __future__ import annotations

import codecs
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
STYLES = {
    r"^ *\[yes\]|: HOLDS$|\brecommended\b": "green",
    r"^ *\[ no\]|: DOES NOT HOLD$|\bdiverged\b|\bDIFFERS\b|\bNOT\b|\bunsafe\b": "red",
    r": HOLDS (IN PART|AS FAR AS CAN BE TOLD)$|\bnot reached\b|\bdoubtful\b": "yellow",
}
PLAIN = {"±": "+-", "\u2212": "-", "\u2013": "-", "·": "*", "≥": ">=", "μ": "mu"}


def speak_plainly() -> None:
    """Where standard output cannot hold a sign, as in ASCII, another stands for it: +- for ±.

    Output that was closed (`>&-`) goes nowhere.
    """
    codecs.register_error("plain", _plain)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "backslashreplace"):
            stream.reconfigure(errors="plain")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    return "".join(PLAIN.get(sign, "?") for sign in found), error.end


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


def show(*blocks: Block, beside: bool = False) -> None:
    """Print texts and tables, on standard error if they stand `beside` the result."""
    stream = sys.stderr if beside else sys.stdout
    if not stream.isatty():
        for block in blocks:
            print(block, file=stream, flush=beside)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=beside, highlight=False, markup=False)  # it honours NO_COLOR
    for block in blocks:
        for line in fitted(block, width()).split("\n"):
            text = Text(line)
            for pattern, style in STYLES.items():
                text.highlight_regex(pattern, style)
            console.print(text, soft_wrap=True)


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

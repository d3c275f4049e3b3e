"""The log of a long-running process: lines with time and level, and output that never blocks.

Whoever reads a pipe may stop reading. Lines then wait, a thousand of them; for more there is no
room, and they are counted.
"""

from __future__ import annotations

import errno
import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from time import sleep
from typing import Literal, TextIO

from psofed.cli import printing
from psofed.errors import InputError

Form = Literal["text", "json", "quiet"]
ROOM = 1_000  # lines that wait
LAST, STEP = 0.3, 0.01  # seconds at the end in which all may still be read, and between two looks


class Outlet:
    """A stream, and the lines that wait for it in a thread of their own.

    Without Python's buffers: their lock would be held by a thread that waits for a reader.
    """

    def __init__(self, stream: TextIO) -> None:
        stream.flush()
        self.handle, self.dropped = stream.fileno(), 0
        self._lines: queue.Queue[bytes] = queue.Queue(ROOM)
        threading.Thread(target=self._write, daemon=True, name="output").start()

    def put(self, line: str) -> bool:
        """Let a line wait; False if there is no room."""
        try:
            self._lines.put_nowait(f"{line}\n".encode(errors="replace"))
        except queue.Full:
            self.dropped += 1
            return False
        return True

    def _write(self) -> None:
        while True:
            data = self._lines.get()
            try:
                while data:
                    data = data[self._some(data) :]
            except OSError:  # the disk is full, or who read it has gone
                self.dropped += 1
            self._lines.task_done()

    def _some(self, data: bytes) -> int:
        try:
            return os.write(self.handle, data)
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise
            sleep(0.05)
            return 0

    @property
    def busy(self) -> bool:
        """Whether not everything is written."""
        return self._lines.unfinished_tasks > 0


class Journal:
    """What a process says of itself on standard error, and its results on standard output."""

    def __init__(self, form: Form) -> None:
        self.form, self._known = form, 0
        self.outlets = {name: Outlet(getattr(sys, name)) for name in ("stdout", "stderr")}

    def say(self, line: str) -> None:
        """A line with its time and level."""
        named, _, text = line.partition(": ")
        warning = named == "Warning" or named.startswith("Alarm (")
        self.report()
        self.put("warning" if warning else "info", text if named == "Warning" else line)

    def put(self, level: str, text: str) -> None:
        """The same; the level is known."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if self.form == "quiet" and level == "info":
            return
        line = f"{now} {level.capitalize()}: {text}"
        if self.form == "json":
            line = json.dumps({"time": now, "level": level, "text": text})
        self.outlets["stderr"].put(line)

    def report(self) -> None:
        """Count lines that nobody has read, each time that there are ten times as many."""
        lost = sum(outlet.dropped for outlet in self.outlets.values())
        if lost and (not self._known or len(str(lost)) > len(str(self._known))):
            self._known = lost
            self.put("warning", f"output is not read: {lost} lines are lost so far")

    def close(self) -> None:
        """The last lines; if nobody reads them, the process ends all the same."""
        self.report()
        left = LAST
        for outlet in self.outlets.values():
            while outlet.busy and left > 0:  # not by a clock: without a processor it is slow, too
                sleep(STEP)
                left -= STEP
            if outlet.busy:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, outlet.handle)
                os.close(null)


_kept: list[Journal] = []  # that of this process, while there is one


def say(line: str) -> None:
    """A line of the log."""
    _kept[-1].say(line) if _kept else printing.say(line)


def out(line: str) -> bool:
    """A line of standard output; False if it is lost."""
    return _kept[-1].outlets["stdout"].put(line) if _kept else printing.patiently(line, sys.stdout)


@contextmanager
def kept(form: Form) -> Iterator[None]:
    """Keep a log: no line blocks, and each has a time."""
    try:
        log = Journal(form)
    except OSError:  # a stream that is no file, as under a test: it does not block either
        yield
        return
    _kept.append(log)
    try:
        yield
    except InputError as error:
        if form != "json":
            raise
        log.put("error", " ".join(str(error).split()))
        raise SystemExit(error.code) from None
    finally:
        _kept.pop()
        log.close()

"""Questions of other programs on the machine: a Unix socket in the state folder (mode 700).

    {"id": 7, "row": {"temp": 4.0, "hum": 60}}     or, for a stream of numbers, {"id": 7, "x": [..]}
    {"id": 7, "y": 7.1, "low": 5.2, "high": 9.0}   or {"id": 7, "error": "..."}
    {"id": 7, "y": 7.1, "round": 57}               from a server: the global model has no interval

Lines of JSON, each answered at once by the model of now. Nothing is remembered of a question, so
that none can change what is learned. Whoever may enter the folder may ask.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from psofed.errors import InputError
from psofed.extras import locks
from psofed.fleet.protocol.wire import RefusedError
from psofed.fleet.samples import LONGEST, MalformedError

SOCKET = "ask"  # in the state folder
MOST = 16  # programs that ask at the same time
IDLE = 600.0  # seconds without a question; then others may take the place
PATIENCE = 10.0  # seconds until an answer, at most
Answering = Callable[[dict[str, Any]], dict[str, Any]]


class Questions:
    """The side of who answers: a thread that listens, and one for each program that asks."""

    def __init__(self, folder: Path, answer: Answering) -> None:
        self.path, self.answer = folder / SOCKET, answer
        self._free = threading.Semaphore(MOST)
        self._listener = socket.socket(socket.AF_UNIX)

    def open(self) -> None:
        """Listen; whoever has the lock of the folder may replace what another has left."""
        self.path.unlink(missing_ok=True)
        with _address(self.path) as address:
            self._listener.bind(address)
        os.chmod(self.path, 0o600)
        self._listener.listen(MOST)
        threading.Thread(target=self._listen, daemon=True, name="questions").start()

    def close(self) -> None:
        """Nobody can ask any more."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
        self._listener.close()

    def _listen(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                asking, _ = self._listener.accept()
                if self._free.acquire(blocking=False):
                    threading.Thread(target=self._serve, args=(asking,), daemon=True).start()
                else:
                    asking.close()

    def _serve(self, asking: socket.socket) -> None:
        try:
            asking.settimeout(IDLE)
            with asking, asking.makefile("rwb") as lines, suppress(OSError):
                while line := lines.readline(LONGEST):
                    lines.write(json.dumps(self._answered(line)).encode() + b"\n")
                    lines.flush()
        finally:
            self._free.release()

    def _answered(self, line: bytes) -> dict[str, Any]:
        """The answer to a line, or what is wrong with it, with the id of the question."""
        named: dict[str, Any] = {"id": None}
        try:
            question = json.loads(line)
            if not isinstance(question, dict):
                raise MalformedError("a question is an object")
            named = {"id": question.pop("id", None)}
            row = question.pop("row", None)
            if (row is None) == (question.keys() != {"x"}) or not isinstance(row, dict | None):
                raise MalformedError('a question has "x": [...] or "row": {...}, and an "id"')
            return named | self.answer(question if row is None else row)
        except (MalformedError, RefusedError) as error:
            return named | {"error": str(error)}
        except InputError as error:
            return named | {"error": f"{error.field} {error.found}"}
        except (ValueError, RecursionError):
            return named | {"error": "the line is not JSON"}


def ask(state: str | Path, **question: Any) -> dict[str, Any]:
    """Ask who runs on this state folder: `ask(state, x=[...])`, or row={...}."""
    locks()  # a system without them has no such sockets, either
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(PATIENCE)
        try:
            with _address(Path(state) / SOCKET) as address:
                asking.connect(address)
            with asking.makefile("rwb") as lines:
                lines.write(json.dumps(question).encode() + b"\n")
                lines.flush()
                return json.loads(lines.readline())
        except (OSError, ValueError) as error:
            found_, right = f"has nobody that answers: {error}", "start a client or server on it"
            raise InputError(str(state), found_, right) from None


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """The path of a socket may have a hundred characters only: that of an open folder is short."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield str(path) if len(os.fsencode(path)) < 100 else f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)

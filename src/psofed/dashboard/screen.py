"""The live dashboard: a board that is updated a few times a second, and its watchers.

It runs in threads beside the server's loop, reads what a watch publishes and writes nothing but
its history. A watcher gets everything once and then the changes, as server-sent events.
"""

from __future__ import annotations

import json
import queue
import threading
from pathlib import Path
from time import monotonic, time
from typing import Any

from psofed.dashboard.access import Access
from psofed.dashboard.board import COLUMNS, Board
from psofed.dashboard.history import History
from psofed.dashboard.listener import Listener
from psofed.dashboard.watch import Watch
from psofed.deploy.server_loop import ServerLoop

PACE = 0.2  # seconds between two updates
PING = 5.0  # seconds after which watchers get an empty event if nothing is new
WATCHERS = 32
BEHIND = 100  # events that a watcher may be behind before it is dropped


class EventStream:
    """What one watcher has still to be sent."""

    def __init__(self, first: bytes) -> None:
        self.dropped = False
        self._queue: queue.Queue[bytes] = queue.Queue(BEHIND)
        self.put(first)

    def put(self, data: bytes) -> None:
        """One more event; a watcher with too many waiting is dropped, and may reconnect."""
        try:
            self._queue.put_nowait(data)
        except queue.Full:
            self.dropped = True

    def get(self) -> bytes:
        """The next event; empty if it is over."""
        try:
            return b"" if self.dropped else self._queue.get(timeout=3 * PING)
        except queue.Empty:
            return b""


class Hub:
    """The board and its watchers. Its lock is never taken by the server's loop."""

    def __init__(self, board: Board) -> None:
        self._board, self._lock = board, threading.Lock()
        self._streams: set[EventStream] = set()
        self._spoken = 0.0

    def whole(self) -> dict[str, Any]:
        """Everything, as of the last update."""
        with self._lock:
            return {"time": time(), **self._board.whole()}

    def join(self) -> EventStream | None:
        """A new watcher, which gets everything first; None if there are too many."""
        with self._lock:
            if len(self._streams) >= WATCHERS:
                return None
            stream = EventStream(event("state", {"time": time(), **self._board.whole()}))
            self._streams.add(stream)
            return stream

    def leave(self, stream: EventStream) -> None:
        """A watcher has gone."""
        with self._lock:
            self._streams.discard(stream)

    def look(self) -> None:
        """Update the board and send what has changed."""
        with self._lock:
            changes = self._board.update()
            if changes or monotonic() >= self._spoken + PING:
                self._tell(event("change" if changes else "ping", {"time": time(), **changes}))

    def end(self) -> None:
        """The server stops: send this after the last changes."""
        self.look()
        with self._lock:
            self._board.stop()
            self._tell(event("end", {"time": time()}))
            for stream in self._streams:
                stream.put(b"")

    def _tell(self, data: bytes) -> None:
        self._spoken = monotonic()
        for stream in self._streams:
            stream.put(data)
        self._streams = {stream for stream in self._streams if not stream.dropped}


def event(kind: str, data: Any) -> bytes:
    """One server-sent event.

    >>> event("ping", {"time": 1})
    b'event: ping\\ndata: {"time":1}\\n\\n'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return f"event: {kind}\ndata: {text}\n\n".encode()


class Dashboard:
    """Listens from the start, so that a port in use is reported before anything else begins."""

    def __init__(self, where: str, token: str | None) -> None:
        self.listener = Listener(Access.parse(where, token))
        self.warnings: list[str] = []
        self.watch: Watch | None = None
        self._hub: Hub | None = None
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return self.listener.url

    def open(self, server: ServerLoop, folder: Path, rounds: int | None, targets: str = "") -> None:
        """Watch a server that has not begun yet; `targets` says what its MSE is of, if known."""
        coordinator, plan = server.coordinator, server.coordinator.plan
        history = History(folder, plan.about("server"), coordinator.n)
        self.warnings += history.warnings
        self.watch = watch = Watch(server)
        about = {
            "run": plan.deploy.run,
            "method": plan.experiment.methods[plan.deploy.method or 0].title(),
            "clock": plan.deploy.clock,
            "clients": plan.experiment.clients,
            "cohort": plan.experiment.cohort,
            "rounds": rounds,
            "targets": targets,
            "deadline": server.deadline,
            "columns": COLUMNS,
        }
        self._hub = hub = Hub(Board(watch, about, history))
        self._status = server.status
        self.listener.show(hub, plan.deploy.run)
        for name, work in (("looks", self._look), ("listens", self._listen)):
            thread = threading.Thread(target=work, name=f"dashboard {name}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        """Tell the watchers that it is over, and stop listening."""
        self._stop.set()
        if self._hub is not None:
            self._threads[0].join()
            self._hub.end()
            self.listener.shutdown()
            self._threads[1].join()
            self.listener.drain()
        self.listener.server_close()

    def _listen(self) -> None:
        self.listener.serve_forever(poll_interval=0.1)

    def _look(self) -> None:
        assert self._hub is not None
        while not self._stop.wait(PACE):
            guesses = self.listener.guesses
            self._status.logins = guesses.total, guesses.last
            self._hub.look()
            self.listener.reap()

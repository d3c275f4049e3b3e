"""The gateway: lines to microcontrollers, each of which is a member of a run over MQTT.

A line is a serial port, or a Unix socket that carries the same bytes. Each has a thread that reads,
and one that does all else; none waits for another. A line that is lost is opened again.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from psofed.fleet.broker import Address, down_topic, up_topic
from psofed.fleet.identity import Identity
from psofed.fleet.lines import frames
from psofed.fleet.lines.relay import Relayed
from psofed.fleet.mqtt import POLL, Event, Link
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.deployment import Deployment
from psofed.fleet.protocol.store import StateFolder, in_words, starting

RETRY = 1.0  # seconds until a line that is lost is tried again
PATIENCE = 5.0  # seconds until hello is repeated if no server answers
CHUNK = 4096  # bytes that are read at once


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A line: every byte as it is, at the speed that the port has, and nobody waits to write."""
    if stat.S_ISSOCK(os.stat(path).st_mode):
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(str(path))
            link.setblocking(False)
            yield link.fileno()
        return
    import tty  # which not every system has

    handle = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not os.isatty(handle):
            raise OSError(0, "is neither a serial port nor a socket", str(path))
        tty.setraw(handle)
        yield handle
    finally:
        os.close(handle)


@dataclass
class Relay:
    """A relayed member on its link and its line."""

    member: Relayed
    link: Link
    path: Path
    name: str
    on_news: Callable[[str], None] = lambda line: None
    stopped: bool = False
    down: int = 0  # bytes of frames, to the device
    up: int = 0  # and from it
    failed: BaseException | None = None
    _line: int | None = None  # open, while who closes it cannot have the lock
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _said: dict[str, str] = field(default_factory=dict)
    _greeted_at: float = 0.0
    _heard: bool = True  # whether the server has answered the last hello

    def run(self) -> None:
        """Until `stop`, whatever happens to line, server and broker."""
        try:
            self.link.open()
            threading.Thread(target=self._read, daemon=True, name=f"line {self.name}").start()
            while not self.stopped:
                self._step(self.link.get(POLL))
        except BaseException as error:  # whoever waits for this thread says it
            self.failed = error
        finally:
            self.link.close()

    def stop(self) -> None:
        """End soon."""
        self.stopped = True

    def _read(self) -> None:
        """What comes on the line, in a thread of its own: a frame is an event."""
        while not self.stopped:
            try:
                with opened(self.path) as line:
                    self._say("line", "", f"{self.path} is open again")
                    self._listen(line)
            except OSError as error:
                why = f"no line to {self.name}: {in_words(error)}"
                self._say("line", f"Warning: {why}; trying again")
                time.sleep(RETRY)

    def _listen(self, line: int) -> None:
        found, self._line = frames.SerialLine(), line
        try:
            while not self.stopped:
                if select.select([line], [], [], POLL)[0]:
                    if not (data := os.read(line, CHUNK)):
                        raise OSError(0, "the other end has gone", str(self.path))
                    for frame in found.feed(data):
                        self.link.put(Event("sample", data=frame))
        finally:
            with self._lock:
                self._line = None

    def _write(self, some: list[bytes]) -> None:
        """Frames on the line; what does not fit there is lost, and the server asks again."""
        with self._lock, suppress(OSError):
            if (line := self._line) is not None:
                for frame in some:
                    os.write(line, frames.packed(frame))
                    self.down += len(frame)

    def _step(self, event: Event | None) -> None:
        if event is None:
            if not self._heard and monotonic() > self._greeted_at + PATIENCE:
                self._hello()
        elif event.kind == "sample":
            self.up += len(event.data)
            self._send(self.member.hear(event.data))
            text = f"Warning: the device {self.name} is of another run or version: export it again"
            self._say("foreign", "" if self.member.foreign is None else text)
        elif event.kind == "message":
            self._message(event)
        elif event.kind == "up":
            self.on_news(f"{self.name} is connected to {self.link.address}")
            self._hello()
        else:
            self._say("broker", f"Warning: no broker at {self.link.address}: {event.data}")

    def _message(self, event: Event) -> None:
        refused, late = self._counts()
        down, up, what = self.member.take(event.data)
        more, later = self._counts()
        self._heard = self._heard or more == refused
        if more > refused:
            self._say("refused", f"Warning: a message to {self.name} is refused: {what}")
        if later > late and monotonic() > self._greeted_at + 1.0:
            self._hello()  # the server may have fallen behind
        standing = self.member.standing
        text = f"Warning: the server says that {self.name} is {standing}" if standing else ""
        self._say("standing", text, f"{self.name} is a member")
        self._write(down)
        self._send(up)
        self._say("disk", self.member.trouble and f"Warning: {self.member.trouble}: nothing leaves")
        self.link.handled(event)

    def _counts(self) -> tuple[int, int]:
        return sum(self.member.refused.values()), self.member.refused.get("late", 0)

    def _hello(self) -> None:
        self._heard, self._greeted_at = False, monotonic()
        self._send(self.member.hello())

    def _send(self, message: bytes | None) -> None:
        if message is not None:
            self.link.send(up_topic(self.member.plan.deploy.run, self.member.k), message)

    def _say(self, topic: str, text: str, over: str = "") -> None:
        """What is new about a topic: a text, or that it is over."""
        if text != self._said.get(topic, ""):
            self._said[topic] = text
            if text or over:
                self.on_news(text or over)


def relay(
    plan: Deployment, who: str, path: Path, state: Path, broker: Address,
    identity: Identity | None = None, key: bytes | None = None,
) -> Relay:  # fmt: skip
    """The member of that name behind a line, ready to `run`."""
    k = plan.names.number(who)
    if broker.tls and identity is not None:
        identity.check(plan.names(k), str(k))
    folder = StateFolder(state)
    with starting(folder):
        member = Relayed(plan, k, folder, key)
        plan.keep(folder)
    most = plan.largest + wire.SEAL
    link = Link(broker, str(k), down_topic(plan.deploy.run, k), most, plan.deploy.qos, identity)
    return Relay(member, link, path, plan.names(k))

"""The network of fleets that live: disks that fill up, and an oracle that is given everything.

The deployed handlers and the oracle are compared at every message, commit, command and start.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from errno import ENOSPC
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fleet_oracle import Device, Oracle, World
from network import RETRY, SERVER, Network, Weather
from trials import close, same

from helpers.virtual_disk import Chance, VirtualDisk
from psofed.errors import InputError
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.history import LOG
from psofed.fleet.protocol.member import Member


class FullDisk(VirtualDisk):
    """A disk that refuses so many writes, as a full one does."""

    full = 0

    def _refuse(self) -> None:
        if self.full:
            self.full -= 1
            raise OSError(ENOSPC, "No space left on device", self.name)

    def write(self, name: str, data: bytes) -> None:
        self._refuse()
        super().write(name, data)

    def sync(self, name: str) -> None:
        self._refuse()
        super().sync(name)

    def append(self, name: str, data: bytes) -> None:
        self._refuse()
        super().append(name, data)


class Fleet(Network):
    """One run: the network, with an oracle that is given everything."""

    steps, disk = 16, FullDisk

    def __init__(self, world: World, weather: Weather, chance: Chance) -> None:
        self.world, self.oracle = world, Oracle(world)
        self.devices: dict[int, Device] = {}  # as they are, and as their disks have them
        self.durable: dict[int, Device] = {}
        self.said: dict[tuple[int, int], bytes] = {}  # (client, round) to its answer
        self.started = self.acts = self.revived = 0
        self.began: list[int] = [0]  # rounds in which the server was started, or that were void
        self.copied: tuple[dict[str, bytes], Any, list[int]] | None = None
        self.revoked: dict[int, int] = {}  # clients that the broker refuses, and when they go
        self.inexact = False  # whether something happened of which no file can say all
        streams: list[Any] = [self._source(k) for k in range(world.clients)]
        super().__init__(world.plan, weather, chance, streams)
        found = dict(enumerate(self.members))
        self.members: dict[int, Member] = found  # type: ignore[assignment]
        for k in found:
            self.devices[k] = self.durable[k] = Device(world, k, np.zeros(world.dim))
        self._begin()

    def _source(self, k: int) -> Any:
        x, _, y = self.world.stream(k)
        return lambda start, stop: (x[start:stop], y[start:stop])

    def _member(self, k: int) -> Member:
        return Member(self.plan, k, self.disks[k], self._source(k))

    def _begin(self) -> None:
        """After each start of the server."""
        self.server.snapshots.every, self.server.snapshots.most = 3, 4
        same(self.server.incarnation > self.started, True, "whether the start is a later one")
        self.started = self.server.incarnation
        self._check()

    def _check(self) -> None:
        self.oracle.check(self.server, self.disks[SERVER].read(LOG))

    def _start(self) -> None:
        """The server starts again, and may crash while it does, or find its disk full."""
        while not self._survives(SERVER, self.weather.server_crash / 2, self._made):
            self.trace.server_crashes += 1
        self.began.append(self.server.n)
        self._opened = self.time

    def _made(self) -> None:
        try:
            self.server = Coordinator(self.plan, self.disks[SERVER])
        except OSError:
            self._made()

    def _survives(self, who: int, probability: float, work: Callable[[], Any]) -> bool:
        try:
            return super()._survives(who, probability, work)
        except OSError:
            if self.disks[who].steps_left is None:
                raise
            self.disks[who].crash()
            return False

    def _durable(self, work: Callable[[], Any], told: Callable[[], Any]) -> bool:
        """A step of the server that may be cut off, and the same at the oracle: all or nothing."""
        if self.oracle.held:
            return self._refused(work, InputError)
        try:
            if self._survives(SERVER, self.weather.server_crash, work):
                told()
                self.oracle.save()
                self._check()
                return True
        except OSError:  # then it has not happened
            self._check()
            return False
        self.trace.server_crashes += 1
        self._start()
        self._settle(told)
        return False

    def _refused(self, work: Callable[[], Any], kind: type[Exception]) -> bool:
        try:
            work()
        except kind:
            self._check()
            return False
        raise AssertionError("what is not possible was done")

    def _settle(self, told: Callable[[], Any] | None = None) -> None:
        """The server has started: what was under way is durable as a whole, or not at all."""
        oracle, counts = self.oracle, self.server.server.ledger.counts
        if (self.server.n, self.server.log.count, self.server.server.now.behind) != oracle.marks:
            if oracle.held:
                oracle.book = next((b for b in oracle.held if b.counts == counts), oracle.book)
            elif told is not None:
                told()
            oracle.save()
        oracle.crash()
        self._begin()

    def _close(self) -> None:
        """Rule 6, on a disk that may be full: the round is then held."""
        oracle, after = self.oracle, self.oracle.closed()
        oracle.held.append(after)
        try:
            alive = self._survives(SERVER, self.weather.server_crash, self.server.commit)
        except OSError:
            oracle.held *= self.server.held
            self._check()
            return
        if alive:
            oracle.commit(after)
            oracle.save()
            self._check()
        else:
            self.trace.server_crashes += 1
            self._start()
            self._settle()
        self._opened = self.time
        if self.server.n < self.rounds:
            self._invite()

    def _send(self, sender: int, receiver: int, data: bytes) -> None:
        if sender not in self.revoked and receiver not in self.revoked:
            super()._send(sender, receiver, data)

    def _invite(self) -> None:
        """Who is asked, and with which bytes."""
        frames, n = self.server.frames(), self.oracle.book.n
        same(sorted(frames), self.oracle.missing, f"who is asked in round {n}")
        for k, frame in frames.items():
            kind, values = self.oracle.body(k)
            head = kind, n, self.server.incarnation
            same(_head(frame), head, f"the head of the invitation to {k}")
            close(np.frombuffer(frame[12:], "<f8"), values, f"round {n}: what {k} is told")
            self._send(SERVER, k, frame)
        self._again = self.time + RETRY

    def _hand(self, k: int, data: bytes) -> None:
        """One message: the outcome is the one that the rules name."""
        n = int.from_bytes(data[5:9], "little")
        if data[0] >> 2 & 3 == 1:
            same(self.server.take(k, data), self.oracle.upload(k, n, data[9:]), f"the fate of {k}")
            return
        expected, later = self.oracle.hello(k, n)
        if later is None:
            same(self.server.take(k, data), expected, f"the hello of {k}")
        elif not self._durable(lambda: self.server.take(k, data), lambda: self._follow(later)):
            return
        frame = self.server.frame_for(k) if expected == "hello" else None
        self._send(SERVER, k, frame or self.server.hello(k))

    def _follow(self, n: int) -> None:
        self.began += range(self.oracle.book.n, n)
        self.oracle.follow(n)

    def _ask(self, k: int, data: bytes) -> None:
        """An invitation or a hello to a client, which may crash while it answers."""
        before, kind = self.devices[k], data[0] >> 2 & 3
        if kind == 2:
            same(self.members[k].take(data), (None, "welcome"), "the answer to a hello")
            return
        kind, n, incarnation = _head(data)
        after = before.asked(kind, n, incarnation, data[12:])
        answer: bytes | None = None

        def work() -> None:
            nonlocal answer
            answer, _ = self.members[k].take(data)

        if self._survives(k, self.weather.client_crash, work):
            self.devices[k] = after or before
            held = after is None or self.members[k].trouble
            same(answer is None, bool(held), f"whether {k} is silent in round {n}")
        else:
            self._crashed(k, after)
            answer = None
        self._compare(k)
        if answer is not None:
            same(self.said.setdefault((k, n), answer), answer, f"the answer of {k} to round {n}")
            close(np.frombuffer(answer[9:], "<f8"), self.devices[k].upload, f"the answer of {k}")
            self._send(k, SERVER, answer)
        elif after is None and n < before.last:
            self._say_hello(k)  # it is ahead, and says so

    def _save(self, k: int) -> None:
        """A client whose disk was full tries again."""
        if not self._survives(k, self.weather.client_crash, self.members[k].save):
            self._crashed(k, None)
        self._compare(k)

    def _crashed(self, k: int, after: Device | None) -> None:
        """Its record is the last one, or the one that it was about to make."""
        self.trace.client_crashes += 1
        self.members[k] = self._member(k)
        for found in (after, self.devices[k]):
            if found is not None and self._record(k) == (found.last, found.seen):
                self.durable[k] = found
        self.devices[k] = self.durable[k]

    def _compare(self, k: int) -> None:
        device, member = self.devices[k], self.members[k]
        same(self._record(k), (device.last, device.seen), f"the record of {k}")
        close(member.client.state["w"], device.local, f"the model of {k}")
        if not member.trouble:
            self.durable[k] = device

    def _record(self, k: int) -> tuple[int, int]:
        return self.members[k].client.last_round, self.members[k].incarnation

    def _say_hello(self, k: int) -> None:
        hello = self.members[k].hello()
        same(int.from_bytes(hello[5:9], "little"), self.devices[k].last + 1, "the round of a hello")
        self._send(k, SERVER, hello)


def _head(frame: bytes) -> tuple[int, int, int]:
    """Kind, round and incarnation of an invitation, read by hand."""
    n, incarnation = frame[5:9], frame[9:12]
    return frame[0] >> 2 & 3, int.from_bytes(n, "little"), int.from_bytes(incarnation, "little")

"""A network, its disks and its crashes in one process: every schedule is a function of a seed.

`Coordinator` and `Member` are the deployed ones. What is virtual is what they stand on: the disks
of tests/helpers, and a post that loses, delays, repeats and reorders messages.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from protocol_oracle import ProtocolOracle

from helpers.virtual_disk import Chance, CrashError, VirtualDisk
from psofed.fleet.protocol.client import Source
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deployment
from psofed.fleet.protocol.member import Member
from psofed.fleet.samples import replay

SERVER = -1


@dataclass(frozen=True)
class Weather:
    """How bad it is: probabilities per message and per step, and whether rounds have a deadline."""

    lost: float = 0.1
    repeated: float = 0.1
    slow: float = 0.2  # arrives so late that others overtake it
    server_crash: float = 0.0  # while the server commits
    client_crash: float = 0.0  # while a client answers
    mutated: float = 0.0
    deadline: int | None = None  # ticks; None waits for all


@dataclass
class Trace:
    """What happened to messages, and what clients have done for good."""

    answers: dict[tuple[int, int], set[bytes]] = field(default_factory=dict)  # (k, n) -> bodies
    took_part: list[set[int]] = field(default_factory=list)  # by client: rounds, for good
    sent: int = 0
    delivered: int = 0
    dropped: int = 0
    server_crashes: int = 0
    client_crashes: int = 0
    stale: int = 0  # answers to a server that the client knew to be replaced


RETRY = 12  # ticks after which those who have not answered are asked again


class Network:
    """One run of a plan under some weather."""

    steps = 8  # of writing, in which a crash may come
    disk = VirtualDisk

    def __init__(
        self,
        plan: Deployment,
        weather: Weather,
        chance: Chance,
        streams: list[Source] | None = None,
    ) -> None:
        self.plan, self.weather, self.chance = plan, weather, chance
        self.streams = streams or [replay(plan.experiment, k) for k in range(self._clients)]
        self.trace = Trace(took_part=[set() for _ in range(plan.experiment.clients)])
        self.time = self._order = self.rounds = 0
        self._post: list[tuple[int, int, int, int, bytes]] = []
        self._again = self._opened = 0
        self._seen = [0] * self._clients  # the highest incarnation that each has answered
        self.reference = ProtocolOracle(plan)
        self.disks = {k: self.disk(str(k), chance) for k in range(SERVER, self._clients)}
        self.server = Coordinator(plan, self.disks[SERVER])
        self.members = [self._member(k) for k in range(self._clients)]

    @property
    def _clients(self) -> int:
        return self.plan.experiment.clients

    def _member(self, k: int) -> Member:
        return Member(self.plan, k, self.disks[k], self.streams[k])

    def run(self, rounds: int, most: int = 100_000) -> Trace:
        """Play until so many rounds are closed; what is still under way then is delivered."""
        self.rounds = rounds
        self._invite()
        while self.server.n < rounds:
            self._tick()
            if self.time > most:
                raise RuntimeError(f"no end after {most} ticks, in round {self.server.n}")
        while self._post:
            self._deliver()
        return self.trace

    def _tick(self) -> None:
        deadline = self.weather.deadline
        over = deadline is not None and self.time >= self._opened + deadline
        if not self.server.missing or over:
            self._close()
        elif self._post and self._post[0][0] <= self.time:
            self._deliver()
        elif self.time >= self._again:
            self._invite()
        else:
            self.time += 1

    def _send(self, sender: int, receiver: int, data: bytes) -> None:
        weather, chance = self.weather, self.chance
        for _ in range(1 + chance(weather.repeated)):
            self.trace.sent += 1
            if chance(weather.lost):
                self.trace.dropped += 1
                continue
            if chance(weather.mutated):
                data = self._mutate(data)
            slow = 40 if chance(weather.slow) else 4
            self._order += 1
            at = self.time + 1 + chance.below(slow)
            heapq.heappush(self._post, (at, self._order, sender, receiver, data))

    def _mutate(self, data: bytes) -> bytes:
        at = self.chance.below(len(data))
        return data[:at] + bytes([data[at] ^ (1 + self.chance.below(255))]) + data[at + 1 :]

    def _deliver(self) -> None:
        at, _, sender, receiver, data = heapq.heappop(self._post)
        self.time = max(self.time, at)
        self.trace.delivered += 1
        if receiver == SERVER:
            self._hand(sender, data)
        else:
            self._ask(receiver, data)

    def _hand(self, k: int, data: bytes) -> None:
        self.reference.upload(k, data)
        self.server.take(k, data)

    def _ask(self, k: int, data: bytes) -> None:
        answer: bytes | None = None

        def work() -> None:
            nonlocal answer
            answer, _ = self.members[k].take(data)

        if self._survives(k, self.weather.client_crash, work):
            if answer is not None:
                incarnation = int.from_bytes(data[9:12], "little")
                self.trace.stale += incarnation < self._seen[k]
                self._seen[k] = max(self._seen[k], incarnation)
                self._note(k)
                self._send(k, SERVER, answer)
        else:
            self.trace.client_crashes += 1
            self.members[k] = self._member(k)
            self._note(k)

    def _note(self, k: int) -> None:
        """A client's round and answer, as they are after its record was made (or came back)."""
        client = self.members[k].client
        n = client.last_round
        if n >= 0:
            self.trace.took_part[k].add(n)
            body = client.take_part(n, b"")
            self.trace.answers.setdefault((k, n), set()).add(body)

    def _close(self) -> None:
        n = self.server.n
        if not self._survives(SERVER, self.weather.server_crash, self.server.commit):
            self.trace.server_crashes += 1
            self.server = Coordinator(self.plan, self.disks[SERVER])
        if self.server.n > n:  # if it crashed, then after the record was made
            self.reference.commit()
        else:
            self.reference.crash()
        self._opened = self.time
        if self.server.n < self.rounds:
            self._invite()

    def _invite(self) -> None:
        for k, frame in self.server.frames().items():
            self._send(SERVER, k, frame)
        self._again = self.time + RETRY

    def _survives(self, who: int, probability: float, work: Callable[[], Any]) -> bool:
        disk = self.disks[who]
        if self.chance(probability):
            disk.steps_left = self.chance.below(self.steps)
        try:
            work()
        except CrashError:
            disk.crash()
            return False
        if disk.steps_left is not None:  # it ended before the crash came: then it comes now
            disk.crash()
            return False
        return True

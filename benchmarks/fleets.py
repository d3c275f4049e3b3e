"""Fleets that live: members come and go, the server goes back and comes back, all in bad weather.

Every run is a function of a seed. Beside the deployed handlers stands an oracle; the two are
compared at every message, every commit, every command and every start.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fleet_oracle import NUMBERS, WORLDS, Device, Oracle, World, fleet_world
from trials import Tally, close, same, weather

from helpers.network import RETRY, SERVER, Chance, CrashError, Network, VirtualDisk, Weather
from psofed.errors import InputError
from psofed.protocol.change_log import LOG, changes
from psofed.protocol.client import Member
from psofed.protocol.coordinator import Coordinator
from psofed.protocol.deployment import Deployment
from psofed.verify.twin import simulate

END, MOST_ACTS = 14, 10  # rounds of a run, and things that happen to its fleet
LEAP = 1000  # starts that an old copy is taken to have missed
ACTS = (
    "add", "add", "remove", "remove", "exclude", "exclude", "readmit", "readmit", "mistake",
    "restore", "restore", "without", "without", "restart", "copy", "revive", "revoke",
)  # fmt: skip


class Fleet(Network):
    """One run: the network, with an oracle that is told everything."""

    steps = 16

    def __init__(self, world: World, weather: Weather, chance: Chance) -> None:
        self.world, self.oracle = world, Oracle(world)
        self.devices: dict[int, Device] = {}
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
            self.devices[k] = Device(world, k, np.zeros(world.dim))
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
        """The server starts again, and may crash while it does."""
        while not self._survives(SERVER, self.weather.server_crash / 2, self._made):
            self.trace.server_crashes += 1
        self.began.append(self.server.n)
        self._opened = self.time

    def _made(self) -> None:
        self.server = Coordinator(self.plan, self.disks[SERVER])

    def _durable(self, work: Callable[[], Any], told: Callable[[], Any]) -> bool:
        """A step of the server that may be cut off, and the same at the oracle: all or nothing."""
        if self._survives(SERVER, self.weather.server_crash, work):
            told()
            self.oracle.save()
            self._check()
            return True
        self.trace.server_crashes += 1
        self._start()
        if (self.server.n, self.server.log.count, self.server.behind) != self.oracle.marks:
            told()
            self.oracle.save()
        self.oracle.crash()
        self._begin()
        return False

    def _tick(self) -> None:
        if self.chance(0.05):
            self._say_hello(self._one_of(sorted(self.members)))
        if self.acts < MOST_ACTS and self.chance(0.06):
            self.acts += 1
            getattr(self, f"_{ACTS[self.chance.below(len(ACTS))]}")()
            self._invite()
        for k in [k for k, at in self.revoked.items() if at <= self.time]:
            self._dismiss(k)
        if self._hopeless and self.weather.deadline is None:
            # An operator's way out: those who cannot answer are not waited for without end.
            self.weather = replace(self.weather, deadline=60)
        super()._tick()

    @property
    def _hopeless(self) -> bool:
        """An old copy of a server, or one that waits for a client that the broker refuses."""
        gone = [k for k in self.server.missing if k in self.revoked and self.oracle.word(k)]
        return bool(self.revived or gone)

    def _one_of(self, whom: Sequence[int]) -> int:
        return whom[self.chance.below(len(whom))]

    def _some(self, whom: Sequence[int]) -> list[int]:
        left, found = list(whom), []
        for _ in range(min(1 + self.chance.below(3), len(left))):
            found.append(left.pop(self.chance.below(len(left))))
        return found

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
            same(answer is not None, after is not None, f"whether {k} answers in round {n}")
            self.devices[k] = after or before
        else:
            self.trace.client_crashes += 1
            self.members[k] = self._member(k)
            if after is not None and self._record(k) == (after.last, after.seen):
                self.devices[k] = after
            answer = None
        same(self._record(k), (self.devices[k].last, self.devices[k].seen), f"the record of {k}")
        close(self.members[k].client.state["w"], self.devices[k].local, f"the model of {k}")
        if answer is not None:
            same(self.said.setdefault((k, n), answer), answer, f"the answer of {k} to round {n}")
            close(np.frombuffer(answer[9:], "<f8"), self.devices[k].upload, f"the answer of {k}")
            self._send(k, SERVER, answer)
        elif after is None and n < before.last:
            self._say_hello(k)  # it is ahead, and says so

    def _record(self, k: int) -> tuple[int, int]:
        return self.members[k].client.last_round, self.members[k].incarnation

    def _say_hello(self, k: int) -> None:
        hello = self.members[k].hello()
        same(int.from_bytes(hello[5:9], "little"), self.devices[k].last + 1, "the round of a hello")
        self._send(k, SERVER, hello)

    def _close(self) -> None:
        self._durable(self.server.commit, self.oracle.commit)
        self._opened = self.time
        if self.server.n < self.rounds:
            self._invite()

    def _command(self, act: str, clients: list[int]) -> None:
        """One that is possible."""
        self._durable(
            lambda: self.server.change(act, clients), lambda: self.oracle.change(act, clients)
        )

    def _add(self) -> None:
        lost = [k for k in self.members if k >= self.oracle.book.next]  # an old copy forgets some
        first = self._one_of(lost) if lost else self.oracle.book.next + self.chance.below(2)
        whom = [first + i for i in range(1 + self.chance.below(3)) if first + i < NUMBERS]
        self._command("add", whom)
        for k in whom:
            if k not in self.members and k in self.oracle.book.people:
                self.disks[k] = VirtualDisk(str(k), self.chance)
                self.devices[k] = Device(self.world, k, np.zeros(self.world.dim))
                self.members[k] = self._member(k)

    def _spare(self, count: int) -> list[int]:
        """Members that can go: some stay now and later, whatever else is under way."""
        book, going = self.oracle.book, len(self.revoked)
        here = [k for k in self.oracle.members(book.n) if not book.people[k].word]
        enough = len([k for k in here if k not in self.revoked]) > count + going + 1
        return [k for k in here if k not in self.revoked] if enough else []

    def _remove(self) -> None:
        out = [k for k, p in self.oracle.book.people.items() if p.word == "excluded"]
        new = [k for k, p in self.oracle.book.people.items() if p.since > self.oracle.book.n]
        if whom := self._some([*self._spare(3), *out * self.chance(0.5), *new]):
            whom = [k for k in whom if self.oracle.word(k) != "removed"]
            self._command("remove", list(dict.fromkeys(whom))[:3])

    def _exclude(self) -> None:
        if whom := self._some(self._spare(3)):
            self._command("exclude", whom)

    def _readmit(self) -> None:
        book = self.oracle.book
        out = [k for k, p in book.people.items() if p.word == "excluded" and p.left <= book.n]
        if out:
            self._command("readmit", self._some(out))

    def _revoke(self) -> None:
        """The broker refuses a client from now on; a little later it is removed."""
        if whom := self._spare(1):
            self.revoked[self._one_of(whom)] = self.time + self.chance.below(40)

    def _dismiss(self, k: int) -> None:
        self.revoked[k] = 10**9
        if not self.oracle.word(k):
            self._command("remove", [k])
            if not self.oracle.word(k):  # the server crashed before it was durable: once more
                self.revoked[k] = self.time + 1
            self._invite()

    def _mistake(self) -> None:
        """A command that is not possible has changed nothing."""
        book, here = self.oracle.book, self.server.server.seats.present
        removed = [k for k, p in book.people.items() if p.word == "removed"]
        wrong: list[tuple[str, list[int]]] = [
            ("add", [book.next, book.next]), ("add", [here[0]]), ("exclude", [here[0], here[0]]),
            ("exclude", [book.next + 1]), ("readmit", [here[-1]]), ("remove", here),
            *[(act, [here[0], k]) for k in removed for act in ("remove", "exclude")],
            *[("add", [k]) for k in removed], *[("readmit", [k]) for k in removed],
        ]  # fmt: skip
        act, clients = wrong[self.chance.below(len(wrong))]
        files = dict(self.disks[SERVER].files)
        try:
            self.server.change(act, clients)
        except InputError:
            same(self.disks[SERVER].files, files, "the files after a command that was refused")
            self._check()
        else:
            raise AssertionError(f"{act} {clients} was done")

    def _restore(self, without: Sequence[int] = ()) -> None:
        known = self.server.snapshots.rounds()
        if not known:
            return
        n, keep, now = self._one_of(known), self.chance(0.3), self.server.n
        if without and self._unknown(n, without):
            return
        self._durable(
            lambda: self.server.put_back(n, keep, without),
            lambda: self.oracle.put_back(n, keep, without),
        )
        if self.server.n > now:
            self.began.append(now)
            self.inexact |= keep or bool(without)

    def _without(self) -> None:
        self._restore(self._some(sorted(self.members)))

    def _unknown(self, n: int, without: Sequence[int]) -> bool:
        """Whether what was folded in since round n is not kept; a start may have cost some."""
        server, now = self.server, self.server.n
        try:
            server.snapshots.answers(n, now)
        except InputError:
            same(n <= max(self.began), True, f"whether the answers since round {n} may be unknown")
        else:
            same(any(n <= m < now for m in self.began), False, f"whether {n} to {now} are believed")
            return False
        try:
            server.put_back(n, False, without)
        except InputError:
            self._check()
            return True
        raise AssertionError(f"rounds since {n} were folded in again from answers not kept")

    def _restart(self) -> None:
        self.disks[SERVER].crash()
        self._start()
        self.oracle.crash()
        self._begin()

    def _copy(self) -> None:
        """A copy of the server's folder, between two rounds."""
        self.copied = dict(self.disks[SERVER].files), self.oracle.saved.copy(), list(self.began)

    def _revive(self) -> None:
        """The server is lost; the old copy takes its place."""
        if self.copied is None:
            self._copy()
            return
        disk = self.disks[SERVER]
        files, book, self.began = self.copied[0], self.copied[1].copy(), list(self.copied[2])
        disk.put(files)
        self.revived, self.copied = 1, None
        later = Coordinator(self.plan, disk).incarnation + LEAP
        Coordinator(self.plan, disk, start=max(later, self.started + 1)).revive()
        self._start()
        book.behind = True
        self.oracle.saved = book
        self.oracle.crash()
        self._begin()


def _head(frame: bytes) -> tuple[int, int, int]:
    """Kind, round and incarnation of an invitation, read by hand."""
    n, incarnation = frame[5:9], frame[9:12]
    return frame[0] >> 2 & 3, int.from_bytes(n, "little"), int.from_bytes(incarnation, "little")


def live(seed: int, number: int) -> tuple[int, int]:
    """One run; an AssertionError if anything is not as it must be."""
    chance, world = Chance(seed, number), fleet_world(number % WORLDS)
    fleet = Fleet(world, weather(chance, crashes=True), chance)
    trace = fleet.run(END)
    if fleet.weather.deadline is None and not fleet.inexact:
        simulated(fleet)
    return trace.server_crashes, trace.client_crashes


def simulated(fleet: Fleet) -> None:
    """The simulation of what the log says ends with the same models."""
    server, plan = fleet.server, fleet.plan
    history = changes(fleet.disks[SERVER].read(LOG), server.log.count, "")
    twin = Deployment(replace(plan.experiment, fleet=tuple(history)), plan.deploy)
    w, local = simulate(twin, server.n)
    close(server.server.model, w, "the global model of the simulation")
    for k in fleet.oracle.members(server.n):
        if fleet.oracle.book.people[k].begun and fleet.devices[k].last < server.n:
            client = fleet.members[k].client
            client.catch_up(server.n)
            close(client.state["w"], local[k], f"the simulation's model of {k}")


def lives(seed: int, start: int, stop: int) -> Tally:
    """Some runs in a row."""
    tally = Tally()
    for number in range(start, stop):
        tally.trials += 1
        try:
            servers, clients = live(seed, number)
        except (Exception, CrashError):
            tally.failures += 1
            tally.first = tally.first or f"number {number}:\n{traceback.format_exc(limit=-3)}"
        else:
            tally.server_kills += servers
            tally.client_kills += clients
    return tally

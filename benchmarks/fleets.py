"""Fleets that live: members come and go, the server goes back and comes back, all in bad weather.

Every run is a function of a seed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fleet_network import Fleet, FullDisk
from fleet_oracle import NUMBERS, WORLDS, Device, fleet_world
from network import SERVER
from trials import Tally, close, in_a_row, same, weather

from helpers.virtual_disk import Chance
from psofed.cli.laws.executors import simulate
from psofed.errors import InputError
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deployment
from psofed.fleet.protocol.history import LOG, changes

END, MOST_ACTS = 14, 10  # rounds of a run, and things that happen to its fleet
LEAP = 1000  # starts that an old copy is taken to have missed
ACTS = (
    "add", "add", "remove", "remove", "exclude", "exclude", "readmit", "readmit", "mistake",
    "restore", "restore", "restart", "copy", "revive", "revoke",
    "fill", "fill",
)  # fmt: skip


class LivingFleet(Fleet):
    """What happens to a fleet, at any instant."""

    def _tick(self) -> None:
        if self.chance(0.05):
            self._say_hello(self._one_of(sorted(self.members)))
        if self.acts < MOST_ACTS and self.chance(0.06):
            self.acts += 1
            getattr(self, f"_{ACTS[self.chance.below(len(ACTS))]}")()
            self._invite()
        for k in [k for k, at in self.revoked.items() if at <= self.time]:
            self._dismiss(k)
        for k in [k for k, member in self.members.items() if member.trouble and self.chance(0.2)]:
            self._save(k)
        if self._hopeless and self.weather.deadline is None:
            # An operator's way out: those who cannot answer are not waited for without end.
            self.weather = replace(self.weather, deadline=60)
        if self.oracle.held and self.chance(0.6):
            self.time += 1
            while self._post and self._post[0][0] <= self.time:
                self._deliver()
            return
        super()._tick()

    @property
    def _hopeless(self) -> bool:
        """An old copy of a server, or one that waits for a client that the broker refuses."""
        gone = [k for k in self.server.missing if k in self.revoked and self.oracle.word(k)]
        return bool(self.revived or gone)

    def _one_of(self, whom: Sequence[int]) -> int:
        return whom[self.chance.below(len(whom))]

    def _some(self, whom: Sequence[int]) -> list[int]:
        left, count = list(whom), min(1 + self.chance.below(3), len(whom))
        return [left.pop(self.chance.below(len(left))) for _ in range(count)]

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
                self.disks[k] = FullDisk(str(k), self.chance)
                new = Device(self.world, k, np.zeros(self.world.dim))
                self.devices[k] = self.durable[k] = new
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
        new = [k for k in new if not self.oracle.word(k)]
        if whom := self._some([*self._spare(3), *out * self.chance(0.5), *new]):
            self._command("remove", whom)

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
        book, here = self.oracle.book, self.server.server.table.present
        removed = [k for k, p in book.people.items() if p.word == "removed"]
        wrong: list[tuple[str, list[int]]] = [
            ("add", [book.next, book.next]), ("add", [here[0]]), ("exclude", [here[0], here[0]]),
            ("exclude", [book.next + 1]), ("readmit", [here[-1]]), ("remove", here),
            *[(act, [here[0], k]) for k in removed for act in ("remove", "exclude")],
            *[("add", [k]) for k in removed], *[("readmit", [k]) for k in removed],
        ]  # fmt: skip
        act, clients = wrong[self.chance.below(len(wrong))]
        files = dict(self.disks[SERVER].files)
        self._refused(lambda: self.server.change(act, clients), InputError)
        same(self.disks[SERVER].files, files, "the files after a command that was refused")

    def _restore(self) -> None:
        known = self.server.snapshots.rounds()
        if not known:
            return
        n, keep, now = self._one_of(known), self.chance(0.3), self.server.n
        self._durable(lambda: self.server.put_back(n, keep), lambda: self.oracle.put_back(n, keep))
        if self.server.n > now:
            self.began.append(now)
            self.inexact |= keep

    def _restart(self) -> None:
        self.disks[SERVER].crash()
        self._start()
        self._settle()

    def _fill(self) -> None:
        """A disk is full for a while: the server's, or that of a client."""
        who = self._one_of([SERVER, SERVER, *sorted(self.members)])
        self.disks[who].full = 1 + self.chance.below(20)

    def _copy(self) -> None:
        """A copy of the server's folder, between two rounds."""
        if not self.oracle.held:
            self.copied = dict(self.disks[SERVER].files), self.oracle.saved.copy(), list(self.began)

    def _revive(self) -> None:
        """The server is lost; the old copy takes its place."""
        if self.copied is None:
            self._copy()
            return
        disk = self.disks[SERVER]
        files, book, self.began = self.copied[0], self.copied[1].copy(), list(self.copied[2])
        disk.put(files)
        disk.full = 0
        self.revived, self.copied = 1, None
        later = Coordinator(self.plan, disk).incarnation + LEAP
        Coordinator(self.plan, disk, start=max(later, self.started + 1)).revive()
        self._start()
        book.behind = True
        self.oracle.saved = book
        self.oracle.crash()
        self._begin()


def live(seed: int, number: int) -> tuple[int, int]:
    """One run; an AssertionError if anything is not as it must be."""
    chance, world = Chance(seed, number), fleet_world(number % WORLDS)
    fleet = LivingFleet(world, weather(chance, crashes=True), chance)
    trace = fleet.run(END)
    latest = max((line["round"] for line in fleet.oracle.book.log), default=0)
    if fleet.weather.deadline is None and not fleet.inexact and latest < fleet.server.n:
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
    return in_a_row(lambda number: live(seed, number), start, stop)

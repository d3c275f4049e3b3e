"""Rules 5 to 9, 17 and 18 restated, in sets and loops: who is a member when, and all models.

It shares no code with table, cohorts, server, ledger or client. It is told what arrives, what was
commanded and what is durable, and knows what must have become of it. PSO-Fed in lockstep only.
It stands on a plan, its streams and one device by hand, as the deployment beside it does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from trials import close, same

from psofed.experiment import Experiment, Features
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.samples import replay
from psofed.methods import psofed

WORLDS, ROUNDS, NUMBERS = 12, 100, 64  # plans, samples of a client, numbers that clients may have
INVITE, BEGIN = 0, 3  # kinds of frames


class World:
    """A small plan, and by client and round: samples, windows and keys, as the rules have them."""

    def __init__(self, number: int) -> None:
        self.clients, dim = 3 + number % 4, 5 + number % 5
        options = psofed.Options(
            shared=1 + number % 3, scheme=("uncoordinated", "coordinated")[number % 2]
        )
        self.size = 1 + number % 3
        self.plan = Deployment(
            Experiment(clients=self.clients, cohort=self.size, rounds=ROUNDS, seed=number,
                       dtype="float64", features=Features(dim=dim), methods=(options,)),
            Deploy(wire="float64"),
        )  # fmt: skip
        method: Any = self.plan.method()
        self.method, self.task, self.dim = method, method.task, dim
        self.first = method.schedule.initial(np.arange(NUMBERS))
        self.samples: dict[int, Any] = {}
        self._keys: dict[int, list[float]] = {}

    def window(self, k: int, n: int) -> Any:
        """Rule 1: S(k, n) = (S(k, 0) + tau n) mod D."""
        return (self.first[k % len(self.first)] + self.method.schedule.shift * n) % self.dim

    def stream(self, k: int) -> Any:
        """x, z and y of client k."""
        if k not in self.samples:
            x, y = replay(self.plan.experiment, k)(0, ROUNDS)
            self.samples[k] = x, self.task.features(x), y
        return self.samples[k]

    def keys(self, n: int) -> list[float]:
        """Rule 17: by number; of the first K, those of rule 1's cohort have the smallest."""
        if n not in self._keys:
            drawn = [
                float(self.task.seeds.uniforms("fleet", client=k, round=n, count=1)[0])
                for k in range(NUMBERS)
            ]
            chosen = {int(k) for k in self.task.cohorts.cohort(n)}
            order = sorted(range(self.clients), key=lambda k: (k not in chosen, drawn[k]))
            for k, key in zip(order, sorted(drawn[: self.clients]), strict=True):
                drawn[k] = key
            self._keys[n] = drawn
        return self._keys[n]


@cache
def fleet_world(number: int) -> World:
    """Made once."""
    return World(number)


@dataclass(frozen=True)
class Device:
    """Rules 5, 7 and 17 of one client: what its record must say."""

    world: World
    k: int
    local: Any
    last: int = -1
    seen: int = 0  # the highest incarnation
    upload: Any = None

    def asked(self, kind: int, n: int, incarnation: int, body: bytes) -> Device | None:
        """As it is after an invitation; None: it refuses."""
        if incarnation < self.seen or n < self.last:
            return None
        if n == self.last:
            return replace(self, seen=incarnation)
        (_, z, y), world, values = self.world.stream(self.k), self.world, np.frombuffer(body, "<f8")
        local = values.copy() if kind == BEGIN else self.local.copy()
        for m in range(n if kind == BEGIN else self.last + 1, n + 1):
            if m == n and kind != BEGIN:
                local[world.window(self.k, n)] = values
            local += world.method.step * (y[m] - local @ z[m]) * z[m]
        upload = local[world.window(self.k, n + 1)]
        return replace(self, local=local, last=n, seen=incarnation, upload=upload)


@dataclass(frozen=True)
class Person:
    """Rule 17 of one client: a member from `since` on and before `left`."""

    since: int = 0
    left: float = inf
    word: str = ""  # empty: a member
    begun: bool = True


@dataclass
class Book:
    """What a server's record must say. Arrays in it are never changed, only replaced."""

    w: Any
    people: dict[int, Person]
    n: int = 0
    next: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    heard: dict[int, int] = field(default_factory=dict)  # by client: answers that were folded in
    lost_at: dict[int, int] = field(default_factory=dict)  # by client: the last round it missed
    log: list[dict[str, Any]] = field(default_factory=list)
    history: dict[int, Any] = field(default_factory=dict)  # by round: the model before it
    behind: bool = False

    def copy(self) -> Book:
        made = replace(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | list):
                setattr(made, name, value.copy())
        return made


class Oracle:
    """The server of one run."""

    def __init__(self, world: World) -> None:
        self.world, w = world, np.zeros(world.dim)
        names = ("asked", "accepted", "refused", "lost", "received", "repeated", "rejected")
        people = {k: Person() for k in range(world.clients)}
        self.book = Book(w, people, 0, world.clients, dict.fromkeys(names, 0), history={0: w})
        self.saved = self.book.copy()
        self.most = world.clients  # who had to have a row at once, so far
        self.held: list[Book] = []  # while the disk does not take a round: what may be on it
        self.forget()

    def forget(self) -> None:
        """Rule 6: what is not durable."""
        self.held = []
        self.heard: dict[int, tuple[bytes, Any]] = {}
        self.tried: set[int] = set()
        self.claims: dict[int, int] = {}

    def save(self) -> None:
        self.saved = self.book.copy()
        here = [p for p in self.book.people.values() if p.word != "removed" or p.left > self.book.n]
        self.most = max(self.most, len(here))

    def crash(self) -> None:
        self.book = self.saved.copy()
        self.forget()

    @property
    def marks(self) -> tuple[int, int, bool]:
        """What tells whether a step at the server is durable."""
        return self.saved.n, len(self.saved.log), self.saved.behind

    def members(self, n: int) -> list[int]:
        return [k for k, p in sorted(self.book.people.items()) if p.since <= n < p.left]

    @property
    def cohort(self) -> list[int]:
        keys = self.world.keys(self.book.n)
        chosen = sorted(self.members(self.book.n), key=lambda k: keys[k])[: self.world.size]
        return sorted(chosen)

    @property
    def missing(self) -> list[int]:
        return [] if self.held else [k for k in self.cohort if k not in self.heard]

    def word(self, k: int) -> str:
        """What client k is told that it is; empty: a member."""
        if k in self.book.people:
            return self.book.people[k].word
        return "removed" if k < self.book.next and self.book.log else "no member"

    def body(self, k: int) -> tuple[int, Any]:
        """The kind and the values of the invitation to client k."""
        if self.book.people[k].begun:
            return INVITE, self.book.w[self.world.window(k, self.book.n)]
        return BEGIN, self.book.w

    def _reject(self, k: int, reason: str, tries: bool = True) -> str:
        self.book.counts["received"] += 1
        self.book.counts["rejected"] += 1
        if tries:
            self.tried.add(k)
        return reason

    def upload(self, k: int, n: int, body: bytes) -> str:
        """Rules 8 and 9; the outcome."""
        book = self.book
        if self.word(k) and k not in self.cohort:
            return self._reject(k, self.word(k).replace("no member", "stranger"))
        if n < book.n:
            if book.lost_at.get(k) == n:  # it was not lost, only late
                del book.lost_at[k]
                book.counts["lost"] -= 1
                book.counts["refused"] += 1
            return self._reject(k, "late", tries=False)
        if n > book.n:
            return self._reject(k, "early")
        if k not in self.cohort:
            return self._reject(k, "stranger")
        if k in self.heard:
            if self.heard[k][0] != body:
                return self._reject(k, "conflict")
            book.counts["received"] += 1
            book.counts["repeated"] += 1
            return "repeated"
        if self.held:
            return self._reject(k, "late")
        self.heard[k] = body, np.frombuffer(body, "<f8")
        self.claims.pop(k, None)
        return "accepted"

    def hello(self, k: int, said: int) -> tuple[str, int | None]:
        """Rules 9 and 18; the outcome, and the round that the server must open, if another."""
        if self.word(k) and k not in self.cohort:
            return self._reject(k, self.word(k).replace("no member", "stranger")), None
        self.claims.pop(k, None)
        if said <= self.book.n + 1:
            return "hello", None
        self.claims[k] = said - 1
        present = sum(not p.word for p in self.book.people.values())
        doubted = (len(self.cohort) - 1) // 2 or int(present > 1)  # the highest claims
        if self.held or not self.book.behind or len(self.claims) <= doubted:
            return "ahead", None
        return "ahead", sorted(self.claims.values())[-1 - doubted] + 1

    def follow(self, n: int) -> None:
        """Rule 18: an old copy opens a later round."""
        last, copied = self.book.log[-1] if self.book.log else {}, self.book.n
        if last.get("restore") is not None and last["round"] == copied:
            copied = last["restore"]  # nothing has happened since
        self.book.log.append({"round": n, "restore": copied, "keep": True})
        self._skip(n)
        self.claims = {k: later for k, later in self.claims.items() if later > n}

    def _skip(self, n: int) -> None:
        self.book.n, self.heard, self.tried = n, {}, set()
        self.book.history[n] = self.book.w

    def closed(self) -> Book:
        """Rule 9: fold in who was heard; everybody who was asked is accounted for."""
        book, n, cohort = self.book.copy(), self.book.n, self.cohort
        uploads = {k: self.heard[k][1] for k in sorted(self.heard)}
        book.w = self.folded(book.w, n, uploads)
        for k in cohort:
            book.counts["asked"] += 1
            if k in uploads:
                book.counts["accepted"] += 1
                book.counts["received"] += 1
                book.heard[k] = book.heard.get(k, 0) + 1
                book.people[k] = replace(book.people[k], begun=True)
            elif k in self.tried:
                book.counts["refused"] += 1
            else:
                book.counts["lost"] += 1
                book.lost_at[k] = n
        book.behind = book.behind and 2 * len(uploads) <= len(cohort)
        book.n, book.history[n + 1] = n + 1, book.w
        return book

    def commit(self, book: Book) -> None:
        """Rule 6: the round is closed for good."""
        self.book, self.held, self.heard, self.tried = book, [], {}, set()
        self.claims = {k: later for k, later in self.claims.items() if later > book.n}

    def folded(self, w: Any, n: int, uploads: dict[int, Any]) -> Any:
        """Eq. (11)."""
        new = w.copy()
        for k, values in uploads.items():
            window = self.world.window(k, n + 1)
            new[window] += (values - w[window]) / len(uploads)
        return new

    def change(self, act: str, clients: Sequence[int]) -> None:
        """Rule 17, of a command that is possible."""
        for k in clients:
            since = self.book.n + 1
            if act in ("add", "readmit"):
                self.book.people[k] = Person(since, begun=False)
                self.book.next = max(self.book.next, k + 1)
            else:
                since = self._leave(k, act + ("d" if act.endswith("e") else ""))
            self.book.log.append({"round": since, act: [k]})

    def _leave(self, k: int, word: str) -> int:
        """At once; if its answer of the open round is there, after the round."""
        at, person = self.book.n + (k in self.heard), self.book.people[k]
        left = person.left if person.word else max(at, person.since)
        self.book.people[k] = replace(person, left=left, word=word)
        return int(left)

    def put_back(self, n: int, keep: bool) -> None:
        """Rule 18: the open round is void, the next one has the model before round n."""
        book = self.book
        book.log.append({"round": book.n + 1, "restore": n, "void": book.n})
        book.log[-1] |= {"keep": True} if keep else {}
        book.w = book.history[n]
        if not keep:
            book.people = {k: replace(p, begun=False) for k, p in book.people.items()}
        self._skip(book.n + 1)

    def check(self, server: Any, lines: bytes | None) -> None:
        """The server is as it must be; an AssertionError if not."""
        book, table = self.book, server.server.table
        same(server.n, book.n, "the round")
        close(server.server.state["w"], book.w, f"round {book.n}: the global model")
        same(server.missing, self.missing, f"who is waited for in round {book.n}")
        same(server.server.ledger.counts, book.counts, "the ledger's counters")
        told = sum(book.counts[name] for name in ("accepted", "refused", "lost"))
        same(book.counts["asked"], told, "the sum")
        same(table.next, book.next, "the next number")
        same(table.members(book.n).tolist(), self.members(book.n), "the members")
        same(table.members(book.n + 1).tolist(), self.members(book.n + 1), "the next members")
        for k in range(book.next):
            same(server.is_member(k), not self.word(k), f"whether {k} is a member")
            if not self.word(k):
                same(not server.server.begins(k), book.people[k].begun, f"whether {k} has begun")
                heard = server.server.ledger.accepted[table.row(k)]
                same(heard, book.heard.get(k, 0), f"how often {k} was heard")
        most = self.most + self.most // 8 + 1
        same(len(table) <= most, True, f"whether {len(table)} rows are at most {most}")
        same(len(server.server.ledger.accepted), len(table), "the rows of the ledger")
        found = [json.loads(line) for line in (lines or b"").splitlines()[: server.log.count]]
        same(found, book.log, "the log")

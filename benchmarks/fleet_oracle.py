"""Rules 5 to 9, 17 and 18 told again, in sets and loops: who is a member when, and all models.

It shares no code with seats, cohorts, server, ledger or client. It is told what arrives, what was
commanded and what is durable, and knows what must have become of it. PSO-Fed in lockstep only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fleet_world import BEGIN, INVITE, World
from trials import close, same


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
    journal: dict[int, dict[int, Any]] = field(default_factory=dict)  # by round: what was folded in
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
        self.most = world.clients  # who had to have a seat at once, so far
        self.held: list[Book] = []  # a round that the disk does not take: what may be on it
        self.forget()

    @property
    def n(self) -> int:
        """The round that is open, or held."""
        return self.book.n - bool(self.held)

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
        if n > self.n:
            return self._reject(k, "early")
        if k not in self.cohort:
            return self._reject(k, "stranger")
        if k in self.heard:
            if self.heard[k][0] != body:
                return self._reject(k, "conflict")
            book.counts["received"] += 1
            book.counts["repeated"] += 1
            return "repeated"
        self.heard[k] = body, np.frombuffer(body, "<f8")
        self.claims.pop(k, None)
        return "accepted"

    def hello(self, k: int, said: int) -> tuple[str, int | None]:
        """Rules 9 and 18; the outcome, and the round that the server must open, if another."""
        if self.word(k) and k not in self.cohort:
            return self._reject(k, self.word(k).replace("no member", "stranger")), None
        self.claims.pop(k, None)
        if said <= self.n + 1:
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

    def commit(self) -> None:
        """Rule 9: fold in who was heard; everybody who was asked is accounted for."""
        book, n, cohort = self.book, self.book.n, self.cohort
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
        book.journal[n] = uploads
        self._skip(n + 1)
        self.claims = {k: later for k, later in self.claims.items() if later > n + 1}

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

    def put_back(self, n: int, keep: bool, without: Sequence[int]) -> None:
        """Rule 18: the open round is void, the next one has the model before round n."""
        book = self.book
        book.log.append({"round": book.n + 1, "restore": n, "void": book.n})
        book.log[-1] |= {"keep": True} if keep else {}
        book.log[-1] |= {"without": list(without)} if without else {}
        stop, book.w = book.n, book.history[n]
        for m in range(n, stop) if without else ():
            kept = {k: v for k, v in book.journal[m].items() if k not in without}
            book.w = self.folded(book.w, m, kept)
        if not keep:
            book.people = {k: replace(p, begun=False) for k, p in book.people.items()}
        self._skip(book.n + 1)

    def check(self, server: Any, lines: bytes | None) -> None:
        """The server is as it must be; an AssertionError if not."""
        book, seats = self.book, server.server.seats
        same(server.n, self.n, "the round")
        close(server.server.state["w"], book.w, f"round {book.n}: the global model")
        same(server.missing, self.missing, f"who is waited for in round {book.n}")
        same(server.server.ledger.counts, book.counts, "the ledger's counters")
        told = sum(book.counts[name] for name in ("accepted", "refused", "lost"))
        same(book.counts["asked"], told, "the sum")
        same(seats.next, book.next, "the next number")
        same(seats.members(book.n).tolist(), self.members(book.n), "the members")
        same(seats.members(book.n + 1).tolist(), self.members(book.n + 1), "the next members")
        for k in range(book.next):
            same(server.is_member(k), not self.word(k), f"whether {k} is a member")
            if not self.word(k):
                same(not server.server.begins(k), book.people[k].begun, f"whether {k} has begun")
                heard = server.server.ledger.accepted[seats.row(k)]
                same(heard, book.heard.get(k, 0), f"how often {k} was heard")
        most = self.most + self.most // 8 + 1
        same(len(seats) <= most, True, f"whether {len(seats)} seats are at most {most}")
        same(len(server.server.ledger.accepted), len(seats), "the rows of the ledger")
        found = [json.loads(line) for line in (lines or b"").splitlines()[: server.log.count]]
        same(found, book.log, "the log")

"""Snapshots: the server's state every few rounds, and the answers since then (rule 18).

`snapshot.N` is a record of the state before round N. `answers.N` has what was folded in from round
N on, so that the model can be computed again without some client. The oldest are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.fleet import LAST
from psofed.errors import InputError
from psofed.methods.contract import State
from psofed.methods.defending import defended
from psofed.methods.round import Uniform, close_round
from psofed.protocol.seats import Seats
from psofed.protocol.server import Server
from psofed.protocol.store import Disk
from psofed.records import DamagedError, NewerError, Record, pack, unpack

Array = NDArray[Any]
EVERY, KEEP = 100, 50  # rounds from one to the next, and how many are kept
MOST = 2**26  # bytes of all answers that are kept
STATE, ANSWERS = "snapshot.", "answers."
_ROUND, _ANSWER = Struct("<QI"), Struct("<II")
Round = tuple[int, dict[int, bytes]]


class Snapshots:
    """Those of one folder. The newest can be a hundred rounds old; none is needed to go on."""

    def __init__(self, disk: Disk, about: Mapping[str, Any]) -> None:
        self.disk, self.about = disk, dict(about)
        self.every, self.most = EVERY, KEEP
        self._begun: int | None = None  # the snapshot to which answers are added
        self._sizes: dict[int, int] = {}  # bytes of answers, by snapshot

    def rounds(self) -> list[int]:
        """The rounds of which there is one."""
        return sorted(_number(name, STATE) for name in self.disk.names() if _is(name, STATE))

    def keep(self, n: int, state: State) -> None:
        """After a commit: the state before round n, if it is time for one."""
        if not self.most or (n % self.every and self._begun is not None):
            return
        arrays = {"n": np.array(n, np.int64), **{f"state.{k}": a for k, a in state.items()}}
        self.disk.write("snapshot.new", pack(Record(self.about, arrays)))
        self.disk.sync("snapshot.new")
        self.disk.rename("snapshot.new", f"{STATE}{n}")
        self.disk.remove(f"{ANSWERS}{n}")
        if self._begun is None:  # what earlier starts have left
            known = ((m, self.disk.read(f"{ANSWERS}{m}")) for m in self.rounds())
            self._sizes = {m: len(data) for m, data in known if data is not None}
        self._begun, self._sizes[n] = n, 0
        self._prune()

    def note(self, n: int, answers: Mapping[int, bytes]) -> None:
        """Before a commit: what is folded in in round n."""
        if self._begun is None:
            return
        parts = [_ROUND.pack(n, len(answers))]
        for k, answer in sorted(answers.items()):
            parts += [_ANSWER.pack(k, len(answer)), answer]
        data = b"".join(parts)
        self.disk.append(f"{ANSWERS}{self._begun}", data)
        self._sizes[self._begun] += len(data)

    def open(self, n: int) -> None:
        """After a start in round n: what was noted of it before may not be what is folded in."""
        for m in self.rounds()[-1:]:
            if any(noted >= n for noted, _ in _read(self.disk.read(f"{ANSWERS}{m}") or b"")):
                self.disk.remove(f"{ANSWERS}{m}")

    def _prune(self) -> None:
        for n in self.rounds()[: -self.most]:
            self.disk.remove(f"{STATE}{n}")
            self._drop(n)
        for n in sorted(self._sizes)[:-1]:
            if sum(self._sizes.values()) > MOST:
                self._drop(n)

    def _drop(self, n: int) -> None:
        self.disk.remove(f"{ANSWERS}{n}")
        self._sizes.pop(n, None)

    def state(self, n: int) -> State:
        """The state before round n."""
        data, known = self.disk.read(f"{STATE}{n}"), self.rounds()
        if data is None:
            there = ", ".join(map(str, known[-10:])) or "none"
            right = f"use one of the last: {there}" if known else "there is no snapshot yet"
            raise InputError("--round", f"is {n}, of which there is no snapshot", right)
        try:
            record = unpack(data)
        except DamagedError as error:
            where = f"{self.disk.name}/{STATE}{n}"
            raise InputError(where, f"is damaged: {error}", "use another round") from None
        except NewerError as error:
            raise error.inside(where=f"{self.disk.name}/{STATE}{n}") from None
        found = {k[6:]: a for k, a in record.arrays.items() if k.startswith("state.")}
        if record.about.get("run") != self.about.get("run") or not all(
            np.isfinite(array).all() for array in found.values()
        ):
            where = f"{self.disk.name}/{STATE}{n}"
            raise InputError(where, "is no sound state of this run", "use another round")
        return found

    def answers(self, first: int, stop: int) -> list[Round]:
        """What was folded in in rounds first..stop-1, or an InputError if it is not known."""
        found: dict[int, dict[int, bytes]] = {}
        for start in self.rounds():
            # Of a round that was repeated, the last ones.
            found |= dict(_read(self.disk.read(f"{ANSWERS}{start}") or b""))
        lost = [n for n in range(first, stop) if n not in found]
        if lost:
            found_text = f"of round {lost[0]} are not kept"
            raise InputError(
                "the answers", found_text, "use a later --round, or leave out --without"
            )
        return [(n, found[n]) for n in range(first, stop)]


def _read(data: bytes) -> Iterator[Round]:
    """Whole rounds; a crash may have torn the last one."""
    place = 0
    try:
        while place < len(data):
            n, count = _ROUND.unpack_from(data, place)
            place, answers = place + _ROUND.size, {}
            for _ in range(count):
                k, size = _ANSWER.unpack_from(data, place)
                place += _ANSWER.size
                if place + size > len(data) or k > LAST:
                    return
                answers[k] = data[place : place + size]
                place += size
            yield n, answers
    except Exception:  # struct.error has no name of its own in type checkers
        return


def replayed(
    server: Server, state: State, rounds: Sequence[Round], without: Iterable[int]
) -> State:
    """The state after these rounds, had some clients not answered; with a defence of no memory."""
    assert server.seated is not None
    out = set(without)
    seats = Seats(0)
    seats.ids = np.array(sorted({k for _, answers in rounds for k in answers}), np.int64)
    method = server.seated(seats, 0)
    rows = {int(k): row for row, k in enumerate(seats.ids)}
    if unknown := sorted(out - rows.keys()):
        found = f"is {unknown[0]}, but no answer of that client was folded in since then"
        raise InputError("--without", found, "name another, or leave it out")
    if state.keys() != {"w"}:
        found = "remembers clients one by one, so their answers cannot be left out later"
        raise InputError("--without", f"is given, but the method {found}", "restore without it")
    state, guard, who = {k: a.copy() for k, a in state.items()}, defended(method), Uniform(method)
    for n, answers in rounds:
        uploads = {
            rows[k]: method.decode(answer, up=True) if answer else None
            for k, answer in sorted(answers.items())
            if k not in out
        }
        close_round(method, state, n, uploads, who.weights(n, state, uploads), guard)
    return state


def _is(name: str, kind: str) -> bool:
    return name.startswith(kind) and name[len(kind) :].isdecimal()


def _number(name: str, kind: str) -> int:
    return int(name[len(kind) :])

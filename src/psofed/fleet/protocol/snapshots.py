"""Snapshots: the server's state every few rounds, and the answers since then (rule 18).

`snapshot.N` is a record of the state before round N. `answers.N` has what was folded in from round
N on, so that the model can be computed again without some client. The oldest are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct, error
from typing import Any

import numpy as np

from psofed.errors import InputError
from psofed.federation.contract import State
from psofed.federation.membership import LAST
from psofed.federation.records import reading, taken
from psofed.fleet.protocol.folding import folded
from psofed.fleet.protocol.members import MemberTable
from psofed.fleet.protocol.server import Server
from psofed.fleet.protocol.store import Disk, Store

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
        there = (name.removeprefix(STATE) for name in self.disk.names() if name.startswith(STATE))
        return sorted(int(number) for number in there if number.isdecimal())

    def keep(self, n: int, state: State) -> None:
        """After a commit: the state before round n, if it is time for one."""
        if not self.most or (n % self.every and self._begun is not None):
            return
        self._store(n).save({f"state.{k}": a for k, a in state.items()})
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
        store, known = self._store(n), self.rounds()
        arrays = store.load()
        if arrays is None:
            there = ", ".join(map(str, known[-10:]))
            right = f"use one of the last: {there}" if known else "there is no snapshot yet"
            raise InputError("--round", f"is {n}, of which there is no snapshot", right)
        with reading(store.file):
            return {
                name.removeprefix("state."): taken(arrays, name, a.dtype, a.shape, -np.inf, np.inf)
                for name, a in arrays.items()
            }

    def _store(self, n: int) -> Store:
        return Store(self.disk, self.about, [f"{STATE}{n}"])

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
    except error:  # of Struct: there are too few bytes
        return


def replayed(
    server: Server, state: State, rounds: Sequence[Round], without: Iterable[int]
) -> State:
    """The state after these rounds, had some clients not answered; with a defence of no memory."""
    out, table = set(without), MemberTable(0)
    table.ids = np.array(sorted({k for _, answers in rounds for k in answers}), np.int64)
    method = server.bind(table)
    rows = {int(k): row for row, k in enumerate(table.ids)}
    if unknown := sorted(out - rows.keys()):
        found = f"is {unknown[0]}, but no answer of that client was folded in since then"
        raise InputError("--without", found, "name another, or leave it out")
    if state.keys() != {"w"}:
        found = "remembers clients one by one, so their answers cannot be left out later"
        raise InputError("--without", f"is given, but the method {found}", "restore without it")
    after = method.server() | {name: array.copy() for name, array in state.items()}
    for n, answers in rounds:
        uploads = {
            rows[k]: method.decode(answer, up=True) if answer else None
            for k, answer in sorted(answers.items())
            if k not in out
        }
        after = folded(method, after, n, uploads)
    return {name: after[name] for name in state}

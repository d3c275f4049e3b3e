"""History: earlier states of a server, and the changes of its fleet.

`snapshot.N` is a record of the state before round N. The oldest are deleted (rule 18).

The log has one line of JSON for each change, in the order in which they were made. The record says
how many lines count, and a line is durable before the record that counts it (rule 17).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from psofed.errors import InputError
from psofed.federation import schema
from psofed.federation.contract import State
from psofed.federation.membership import Change
from psofed.federation.records import taken
from psofed.federation.schema import inside
from psofed.fleet.protocol.store import Disk, Store, put

LOG = "fleet.jsonl"
STATE = "snapshot."


class Snapshots:
    """Those of one folder. The newest may be old: none is needed to go on."""

    def __init__(self, disk: Disk, about: Mapping[str, Any], every: int, most: int) -> None:
        self.disk, self.about = disk, dict(about)
        self.every, self.most = every, most  # rounds from one to the next, and how many are kept
        self._begun = False  # whether this start has made one

    def rounds(self) -> list[int]:
        """The rounds of which there is one."""
        there = (name.removeprefix(STATE) for name in self.disk.names() if name.startswith(STATE))
        return sorted(int(number) for number in there if number.isdecimal())

    def keep(self, n: int, state: State) -> None:
        """After a commit: the state before round n, if it is time for one."""
        if not self.most or (n % self.every and self._begun):
            return
        self._store(n).save({f"state.{k}": a for k, a in state.items()})
        self._begun = True
        for old in self.rounds()[: -self.most]:
            self.disk.remove(f"{STATE}{old}")

    def state(self, n: int) -> State:
        """The state before round n."""
        store, known = self._store(n), self.rounds()
        arrays = store.load()
        if arrays is None:
            there = ", ".join(map(str, known[-10:]))
            right = f"use one of the last: {there}" if known else "there is no snapshot yet"
            raise InputError("--round", f"is {n}, of which there is no snapshot", right)
        with inside(where=store.file):
            return {
                name.removeprefix("state."): taken(arrays, name, a.dtype, a.shape, -np.inf, np.inf)
                for name, a in arrays.items()
            }

    def _store(self, n: int) -> Store:
        return Store(self.disk, self.about, [f"{STATE}{n}"])


class ChangeLog:
    """The changes of a deployment since its first day."""

    def __init__(self, disk: Disk) -> None:
        self.disk, self.count = disk, 0
        self._there: int | None = None  # lines in the file, if that is known

    def open(self, count: int) -> None:
        """Believe so many lines; what a crash has left behind them is cut off."""
        self.count, self._there = count, None
        data = self.disk.read(LOG)
        if data is not None and (data.count(b"\n") != count or data[-1:] not in (b"", b"\n")):
            lines = data.split(b"\n")[:count]
            put(self.disk, LOG, b"".join(line + b"\n" for line in lines))
        self._there = count

    def add(self, changes: Iterable[Change]) -> None:
        """More lines, durable when this returns."""
        lines = [json.dumps(change.to_table()) + "\n" for change in changes]
        if self._there != self.count:  # a disk that was full may have left lines that do not count
            self.open(self.count)
        new, self._there = LOG not in self.disk.names(), None
        self.disk.append(LOG, "".join(lines).encode())
        self.disk.sync(LOG)
        if new:
            self.disk.sync_folder()
        self.count += len(lines)
        self._there = self.count

    def last(self) -> Change | None:
        """The newest of them; None also if they cannot be read, because a server can go on."""
        try:
            found = changes(self.disk.read(LOG), self.count, self.disk.name)
        except InputError:
            return None
        return found[-1] if found else None


def changes(data: bytes | None, count: int, where: str) -> list[Change]:
    """The changes in a log."""
    lines = (data or b"").splitlines()[:count]
    try:
        found = [schema.build(Change, json.loads(line)) for line in lines]
        if len(found) == count:
            return found
    except (ValueError, TypeError, AttributeError):
        pass
    raise InputError(
        f"{where}/{LOG}", "is damaged", "only a simulation needs it: the members are in the record"
    )

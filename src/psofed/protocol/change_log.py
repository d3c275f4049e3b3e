"""The log of a fleet's changes: one line of JSON each, in the order in which they were made.

The record says how many lines count. A line is durable before the record that counts it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from psofed import schema
from psofed.core.fleet import Change
from psofed.errors import InputError
from psofed.protocol.store import Disk

LOG = "fleet.jsonl"


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
            self.disk.write("log.new", b"".join(line + b"\n" for line in lines))
            self.disk.sync("log.new")
            self.disk.rename("log.new", LOG)
            self.disk.sync_folder()
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

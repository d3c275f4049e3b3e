"""State on disk: atomic, digested, two generations, under a lock.

Records alternate between two files; a new one is written beside them, made durable, then renamed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from psofed.errors import InputError
from psofed.records import DamagedError, NewerError, Record, pack, unpack

Array = NDArray[Any]
SLOTS = ("record.0", "record.1")
SELDOM = ("defence.0", "defence.1")  # what is large and need not be of the last round


class InUseError(InputError):
    """A folder that another process has locked."""


class Disk(Protocol):
    """What a store needs of a folder, step by step, so that a test can crash between two steps."""

    name: str

    def read(self, name: str) -> bytes | None: ...

    def write(self, name: str, data: bytes) -> None: ...

    def sync(self, name: str) -> None: ...

    def rename(self, old: str, new: str) -> None: ...

    def sync_folder(self) -> None: ...

    def append(self, name: str, data: bytes) -> None: ...

    def remove(self, name: str) -> None: ...

    def names(self) -> list[str]: ...


class StateFolder:
    """A real folder, used by one process at a time (rule 7)."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = str(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            _fsync(self.path.parent)  # or a new folder could be lost with the power
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            found = f"cannot be used: {error.strerror}"
            raise InputError(self.name, found, "give another state folder") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            right = "stop that process, or give another state folder"
            raise InUseError(self.name, "is in use by another process", right) from None

    def close(self) -> None:
        """Let others use the folder; the end of the process does it too."""
        os.close(self._lock)

    def read(self, name: str) -> bytes | None:
        """The bytes of a file, or None if there is no such file."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """A new file; not durable yet."""
        (self.path / name).write_bytes(data)

    def sync(self, name: str) -> None:
        """Make the bytes of a file durable."""
        _fsync(self.path / name)

    def rename(self, old: str, new: str) -> None:
        """Put a file in another's place, in one step."""
        os.replace(self.path / old, self.path / new)

    def sync_folder(self) -> None:
        """Make the names durable."""
        _fsync(self.path)

    def append(self, name: str, data: bytes) -> None:
        """More bytes at the end of a file; not durable yet."""
        with (self.path / name).open("ab") as file:
            file.write(data)

    def remove(self, name: str) -> None:
        """A file is not needed any more."""
        (self.path / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        """The files that there are."""
        return sorted(path.name for path in self.path.iterdir())


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Store:
    """The newest complete record of a folder. `about` says whose it is; another's is refused."""

    def __init__(
        self,
        disk: Disk,
        about: Mapping[str, Any],
        slots: tuple[str, str] = SLOTS,
        digests: tuple[str, ...] = (),  # of this run in records of earlier versions
    ) -> None:
        self.disk, self.about, self.slots = disk, dict(about), slots
        self.digests, self.sequence = digests, 0
        self.notes: list[str] = []  # warnings about the state that was found

    def load(self) -> dict[str, Array] | None:
        """The newest complete generation; None in a new folder."""
        record, self.notes = newest(self.disk.read, self.disk.name, self.slots)
        if record is None:
            return None
        check_owner(record.about, self.about, self.disk.name, self.digests)
        self.sequence = record.sequence
        return record.arrays

    def save(self, arrays: Mapping[str, Array]) -> None:
        """Make one record durable: it is valid when this returns; until then the old one is."""
        sequence = self.sequence + 1
        self.disk.write("new", pack(Record(self.about, dict(arrays), sequence)))
        self.disk.sync("new")
        self.disk.rename("new", self.slots[sequence % 2])
        self.disk.sync_folder()
        self.sequence = sequence


def newest(
    read: Callable[[str], bytes | None], name: str, slots: tuple[str, str] = SLOTS
) -> tuple[Record | None, list[str]]:
    """The newest complete record of a folder, None if it has none; warnings about the others."""
    found, damaged = [], []
    for slot in slots:
        data = read(slot)
        if data is None:
            continue
        try:
            found.append(unpack(data))
        except NewerError as error:  # never go on from the generation before it
            raise InputError(name, f"has {slot}, which {error.found}", error.right) from None
        except DamagedError as error:
            damaged.append(f"{slot} is damaged: {error}")
    if damaged and not found:
        right = "restore the folder from a copy, or give a new one to start from the beginning"
        raise InputError(name, "; ".join(damaged), right)
    if not found:
        return None, []
    notes = [f"{damaged[0]}; continuing from the generation before it"] if damaged else []
    return max(found, key=lambda record: record.sequence), notes


def check_owner(
    about: Mapping[str, Any], wanted: Mapping[str, Any], name: str, digests: tuple[str, ...] = ()
) -> None:
    """Refuse the record of another run."""
    for key, mine in wanted.items():
        theirs = about.get(key)
        if theirs == mine or (key == "digest" and theirs in digests):
            continue
        found = f"holds the state of {key} {theirs}, not {mine}"
        right = "give the folder that belongs to this run, or a new one"
        if key == "digest":
            found = f"holds the state of another experiment ({theirs}, not {mine})"
            right = "compare the file with run.toml in the folder, or give another folder"
        raise InputError(name, found, right)


def reader(path: Path) -> Callable[[str], bytes | None]:
    """Files of a folder that another process may be using: nothing is locked or made."""

    def read(name: str) -> bytes | None:
        try:
            return (path / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            found = f"cannot be read: {error.strerror}"
            raise InputError(str(path / name), found, "give another state folder") from None

    return read

"""State on disk: atomic, digested, two generations, under a lock.

A record is one file: a line of magic, the length of a JSON header, the header (sequence number,
what the record is about, names and shapes of the arrays), the arrays, a digest of all that.
Records alternate between two files; a new one is written beside them, made durable, then renamed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError

Array = NDArray[Any]
MAGIC = b"psofed 1\n"
DIGEST = 16
DTYPES = ("<f4", "<f8", "<i8", "|u1", "|b1")
SLOTS = ("record.0", "record.1")


class DamagedError(ValueError):
    """A file that is not a whole record."""


class Disk(Protocol):
    """What a store needs of a folder, each step by itself, so that a crash can come between."""

    name: str

    def read(self, name: str) -> bytes | None: ...

    def write(self, name: str, data: bytes) -> None: ...

    def sync(self, name: str) -> None: ...

    def rename(self, old: str, new: str) -> None: ...

    def sync_folder(self) -> None: ...


class Folder:
    """A real folder, used by one process at a time (rule 7)."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = str(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            _fsync(self.path.parent)  # or a new folder could be gone with the power
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            found = f"cannot be used: {error.strerror}"
            raise InputError(self.name, found, "give another state folder") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            right = "stop that process, or give another state folder"
            raise InputError(self.name, "is in use by another process", right) from None

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


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True, eq=False)
class Record:
    """Named arrays, and what they are about."""

    about: dict[str, Any]
    arrays: dict[str, Array]
    sequence: int = 0


def pack(record: Record) -> bytes:
    """A record as bytes."""
    arrays = {name: np.asarray(array) for name, array in record.arrays.items()}
    table = [[name, a.dtype.str, list(a.shape)] for name, a in arrays.items()]
    header = {"sequence": record.sequence, "about": record.about, "arrays": table}
    text = json.dumps(header).encode()
    parts = [MAGIC, len(text).to_bytes(4, "little"), text, *(a.tobytes() for a in arrays.values())]
    data = b"".join(parts)
    return data + hashlib.blake2b(data, digest_size=DIGEST).digest()


def unpack(data: bytes) -> Record:
    """The record that `pack` was given, or DamagedError; nothing is read before the digest."""
    body, digest = data[:-DIGEST], data[-DIGEST:]
    if not body.startswith(MAGIC):
        raise DamagedError("it does not begin as a record")
    if hashlib.blake2b(body, digest_size=DIGEST).digest() != digest:
        raise DamagedError("its digest does not fit its content")
    start = len(MAGIC) + 4
    stop = start + int.from_bytes(body[start - 4 : start], "little")
    header = json.loads(body[start:stop])
    arrays = {}
    for name, dtype, shape in header["arrays"]:
        if dtype not in DTYPES:
            raise DamagedError(f"it has an array of type {dtype}")
        count = math.prod(shape)
        array = np.frombuffer(body, dtype, count, stop).reshape(shape)
        arrays[name] = array.copy()
        stop += count * array.itemsize
    return Record(header["about"], arrays, header["sequence"])


class Store:
    """The newest whole record of a folder. `about` says whose it is; another's is refused."""

    def __init__(self, disk: Disk, about: Mapping[str, Any]) -> None:
        self.disk, self.about = disk, dict(about)
        self.sequence = 0
        self.notes: list[str] = []  # what a person should know about the state that was found

    def load(self) -> dict[str, Array] | None:
        """The newest whole generation; None in a new folder."""
        found, damaged = [], []
        for name in SLOTS:
            data = self.disk.read(name)
            if data is None:
                continue
            try:
                found.append(unpack(data))
            except DamagedError as error:
                damaged.append(f"{name} is damaged: {error}")
        if damaged and not found:
            right = "restore the folder from a copy, or give a new one to start from the beginning"
            raise InputError(self.disk.name, "; ".join(damaged), right)
        if not found:
            return None
        newest = max(found, key=lambda record: record.sequence)
        if damaged:
            self.notes.append(f"{damaged[0]}; going on from the generation before it")
        self._check(newest.about)
        self.sequence = newest.sequence
        return newest.arrays

    def _check(self, about: dict[str, Any]) -> None:
        for key, mine in self.about.items():
            if about.get(key) != mine:
                found = f"holds the state of {key} {about.get(key)}, not {mine}"
                right = "give the folder that belongs to this run, or a new one"
                raise InputError(self.disk.name, found, right)

    def save(self, arrays: Mapping[str, Array]) -> None:
        """Make one record durable: when this returns it is there, before that the old one is."""
        sequence = self.sequence + 1
        self.disk.write("new", pack(Record(self.about, dict(arrays), sequence)))
        self.disk.sync("new")
        self.disk.rename("new", SLOTS[sequence % 2])
        self.disk.sync_folder()
        self.sequence = sequence

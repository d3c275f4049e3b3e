"""State on disk: atomic, digested, two generations, under a lock, for nobody else to read.

Records alternate between two files; a new one is written next to them, made durable, then renamed.
Clients write over the older one instead, with one fsync: the newer one is whole at any moment. A
server's folder is copied while it runs, so there both are. A disk that is full or read-only is an
OSError that names the file; the newest record is whole.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from psofed.core.native import Array
from psofed.errors import FAILED, InputError, ResourceError
from psofed.extras import locks
from psofed.federation.records import DamagedError, Record, VersionError, pack, unpack

SLOTS = ("record.0", "record.1")
SELDOM = ("defence.0", "defence.1")  # what is large and need not be of the last round


class InUseError(ResourceError):
    """A folder that another process has locked, perhaps a command that will end soon."""


class DamagedFolderError(ResourceError):
    """A folder in which no record is whole."""


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
    """A real folder, used by one process at a time (rule 7), and closed to other users."""

    def __init__(self, path: str | Path) -> None:
        self.path, fcntl = Path(path), locks()
        self.name = str(path)
        self.notes: list[str] = []  # what was changed about the folder, for the operator
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            parent = self.path.parent  # or a new folder could be lost with the power
            _fsync(os.open(parent, os.O_RDONLY), parent)
            self._close_to_others()
            self._lock = private(self.path / "lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            found = f"cannot be used: {error.strerror}"
            right = "give another state folder"
            kind = ResourceError if error.errno in FAILED else InputError
            raise kind(str(error.filename or self.name), found, right) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            right = "stop that process, or give another state folder"
            raise InUseError(self.name, "is in use by another process", right) from None

    def _close_to_others(self) -> None:
        """Refuse what others may have changed; what they could only read is closed to them."""
        found = owned(self.path)
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            right = f"if you trust what is in it: chmod 700 {self.name}"
            raise InputError(self.name, "can be changed by other users", right)
        if found.st_mode & 0o077:
            with suppress(PermissionError):  # some file systems have one mode for all
                os.chmod(self.path, 0o700)
                self.notes.append("other users could read it; from now on they cannot (mode 700)")

    def close(self) -> None:
        """Let others use the folder; the end of the process does it too."""
        os.close(self._lock)

    def read(self, name: str) -> bytes | None:
        """The bytes of a file, or None if there is no such file."""
        return reader(self.path)(name)

    def write(self, name: str, data: bytes) -> None:
        """A new file; not durable yet. If it cannot be whole, nothing is left of it."""
        path = self.path / name
        handle = private(path, os.O_WRONLY | os.O_CREAT)
        try:
            with naming(path), os.fdopen(handle, "wb") as file:
                file.write(data)  # over what is there: its place on the disk stays the same
                file.truncate()
        except OSError:
            with suppress(OSError):
                path.unlink()  # on a full disk, others may need the room
            raise

    def sync(self, name: str) -> None:
        """Make the bytes of a file durable."""
        sync = getattr(os, "fdatasync", os.fsync)  # not its times, which cost flash, too
        _fsync(private(self.path / name, os.O_RDONLY), self.path / name, sync)

    def rename(self, old: str, new: str) -> None:
        """Put a file in another's place, in one step."""
        os.replace(self.path / old, self.path / new)

    def sync_folder(self) -> None:
        """Make the names durable."""
        _fsync(os.open(self.path, os.O_RDONLY), self.path)

    def append(self, name: str, data: bytes) -> None:
        """More bytes at the end of a file, all of them or none; not durable yet."""
        path = self.path / name
        handle = private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with naming(path), os.fdopen(handle, "ab") as file:
            size = os.fstat(handle).st_size
            try:
                file.write(data)
                file.flush()
            except OSError:
                os.ftruncate(handle, size)
                raise

    def remove(self, name: str) -> None:
        """A file is not needed any more."""
        (self.path / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        """The files that there are."""
        return sorted(path.name for path in self.path.iterdir())


def private(path: Path, flags: int) -> int:
    """Open a file of the state: no link is followed, and nobody else can read it."""
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "is a symbolic link", str(path)) from None
        raise
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    if flags & (os.O_WRONLY | os.O_RDWR):
        with suppress(PermissionError):
            if found.st_mode & 0o077:
                os.fchmod(handle, 0o600)
    return handle


def owned(folder: Path) -> os.stat_result:
    """A folder of ours; what is in another's can be anything, and change at any time."""
    found = folder.stat()
    if found.st_uid != os.geteuid():
        right = f"run it as that user (sudo -u '#{found.st_uid}'), or make the folder yours (chown)"
        raise InputError(str(folder), f"belongs to user {found.st_uid}, not to you", right)
    return found


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of a file that is already open do not say which it is."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def in_words(error: OSError) -> str:
    """Which file, and what the system says: "state/new: No space left on device"."""
    where = error.filename2 or error.filename
    return f"{f'{where}: ' if where else ''}{error.strerror or error}"


@contextmanager
def starting(disk: Disk) -> Iterator[None]:
    """A disk on which a start cannot be recorded is refused: nothing has begun yet."""
    try:
        yield
    except OSError as error:
        found = f"cannot be written: {error.strerror}"
        right = "repair that, or give another state folder"
        raise ResourceError(str(error.filename or disk.name), found, right) from None


def _fsync(handle: int, path: Path, sync: Callable[[int], None] | None = None) -> None:
    try:
        with naming(path):
            (sync or os.fsync)(handle)
    finally:
        os.close(handle)


def put(disk: Disk, name: str, data: bytes, durable: bool = True) -> None:
    """A file in the place of another in one step: it is always whole."""
    disk.write("new", data)
    if durable:
        disk.sync("new")
    disk.rename("new", name)
    if durable:
        disk.sync_folder()


class Store:
    """The newest complete record of a folder. `about` says whose it is; another's is refused.

    `over`: a record is written over the older one. If the power fails meanwhile, that one is found
    damaged at the next start, as if it had been the newest.
    """

    def __init__(
        self, disk: Disk, about: Mapping[str, Any], slots: Sequence[str] = SLOTS, over: bool = False
    ) -> None:
        self.disk, self.about, self.slots, self.over = disk, dict(about), slots, over
        self._there: set[str] = set()  # files whose names are durable
        self.sequence = 0
        self.file = disk.name  # from which the state was loaded
        self.notes: list[str] = []  # warnings about the state that was found

    def load(self) -> dict[str, Array] | None:
        """The newest complete generation; None in a new folder."""
        record, self.notes = newest(self.disk.read, self.disk.name, self.slots)
        if record is None:
            return None
        check_owner(record.about, self.about, self.disk.name)
        self.sequence = record.sequence
        self.file = f"{self.disk.name}/{self.slots[record.sequence % len(self.slots)]}"
        return record.arrays

    def set_aside(self) -> None:
        """Both records are damaged: they are kept under other names, and there are none."""
        for slot in self.slots:
            if self.disk.read(slot) is not None:
                self.disk.rename(slot, f"damaged.{slot}")
        self.disk.sync_folder()

    def generations(self) -> list[Record]:
        """All that are complete, and of this run."""
        found, _ = whole(self.disk.read, self.disk.name, self.slots)
        return [record for record in found if record.about == self.about]

    def save(self, arrays: Mapping[str, Array]) -> None:
        """Make one record durable: it is valid when this returns; until then the old one is."""
        sequence = self.sequence + 1
        data, slot = pack(Record(self.about, dict(arrays), sequence)), sequence % len(self.slots)
        name = self.slots[slot]
        if self.over and name in self._there:
            self._there.remove(name)  # until it is whole
            self.disk.write(name, data)
            self.disk.sync(name)
        else:
            put(self.disk, name, data)
        self._there.add(name)
        self.sequence = sequence


def newest(
    read: Callable[[str], bytes | None], name: str, slots: Sequence[str] = SLOTS
) -> tuple[Record | None, list[str]]:
    """The newest complete record of a folder, None if it has none; warnings about the others."""
    found, damaged = whole(read, name, slots)
    if damaged and not found:
        right = "restore the folder from a copy, or start over: with a new one, or, as a client, by"
        right += " --set on_damage=restart"
        raise DamagedFolderError(name, "; ".join(damaged), right)
    if not found:
        return None, []
    why = "or was not written to its end; continuing from the generation before it"
    notes = [f"{damaged[0]}, {why}"] if damaged else []
    return max(found, key=lambda record: record.sequence), notes


def whole(
    read: Callable[[str], bytes | None], name: str, slots: Sequence[str]
) -> tuple[list[Record], list[str]]:
    """The complete records of a folder, and what is wrong with the others."""
    found, damaged = [], []
    for slot in slots:
        data = read(slot)
        if data is None:
            continue
        try:
            found.append(unpack(data))
        except VersionError as error:  # never go on from the generation before it
            raise InputError(name, f"has {slot}, which {error.found}", error.right) from None
        except DamagedError as error:
            damaged.append(f"{slot} is damaged: {error}")
    return found, damaged


def check_owner(about: Mapping[str, Any], wanted: Mapping[str, Any], name: str) -> None:
    """Refuse the record of another run."""
    for key, mine in wanted.items():
        if (theirs := about.get(key)) == mine:
            continue
        found = f"holds the state of {key} {theirs}, not {mine}"
        right = "give the folder that belongs to this run, or a new one"
        if key == "digest":
            found = f"holds the state of another experiment ({theirs}, not {mine})"
            right = "compare the file with run.toml in the folder, or give another folder; for new"
            right += " clients, `psofed deploy fleet add`"
        raise InputError(name, found, right)


def reader(path: Path) -> Callable[[str], bytes | None]:
    """Files of a folder that another process may be using: nothing is locked or made."""

    def read(name: str) -> bytes | None:
        try:
            owned(path)
            with os.fdopen(private(path / name, os.O_RDONLY), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            found = f"cannot be read: {error.strerror}"
            raise InputError(str(path / name), found, "give another state folder") from None

    return read

"""Files that only their owner may read, how they are written, and the secrets of seals."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from psofed.errors import InputError
from psofed.fleet.protocol import wire

PRIVATE, PUBLIC = 0o600, 0o644
SERVER, CLIENT = "psofed server secret", "psofed key of client {k}"
SIZE = 32  # bytes of a secret


def read(path: Path, right: str) -> str:
    """The text of a file that only its owner may read; `right` says where to get such a file.

    A link is followed: what counts is who can read the file that it leads to.
    """
    try:
        with path.open(encoding="ascii") as file:
            mode, text = os.fstat(file.fileno()).st_mode, file.read()
    except (OSError, UnicodeDecodeError) as error:
        found = f"cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}"
        raise InputError(str(path), found, right) from None
    _refuse(path, mode)
    return text


def check(path: Path) -> None:
    """Refuse a file that others can read; of one that is not there somebody else tells."""
    with suppress(OSError):
        _refuse(path, path.stat().st_mode)


def _refuse(path: Path, mode: int) -> None:
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(str(path), "can be read by others", f"chmod 600 {path}")


def make_folder(folder: Path) -> None:
    """A folder for its owner only, unless there is one."""
    with written(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def write(path: Path, data: str | bytes, mode: int = PRIVATE) -> None:
    """Replace a file as a whole, also for a program that reads it now; links are refused."""
    content = data.encode() if isinstance(data, str) else data
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with written(path):
        if path.is_symlink():
            raise InputError(str(path), "is a link to somewhere else", "move it away first")
        try:
            _create(new, content, mode)
            with suppress(FileNotFoundError, PermissionError):  # it stays whose it was
                before = path.stat()
                os.chown(new, before.st_uid, before.st_gid)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)


def create(path: Path, data: str) -> None:
    """A new file; an old one is never overwritten, nor a link followed."""
    make_folder(path.parent)
    with written(path):
        try:
            _create(path, data.encode(), PRIVATE)
        except FileExistsError:
            right = "to replace it, move it away first"
            raise InputError(str(path), "exists already", right) from None


def _create(path: Path, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, PRIVATE), "wb") as file:
        os.chmod(path, mode)  # whatever the umask
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def written(path: Path) -> Iterator[None]:
    """An error of the disk, with the path that cannot be written."""
    try:
        yield
    except OSError as error:
        found = f"cannot be written: {error.strerror}"
        raise InputError(str(path), found, "give another folder") from None


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One command at a time changes a folder, so that none undoes what another has written."""
    try:
        import fcntl
    except ImportError:  # not on this system
        yield
        return
    with written(folder):
        handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def make_secret(folder: Path) -> Path:
    """A new secret of a server, with which messages are sealed; an old one is never overwritten."""
    return _write_line(folder / "server.secret", SERVER, secrets.token_bytes(SIZE))


def give_secret(folder: Path, k: int) -> Path:
    """The key of client k, from the secret of the server in this folder."""
    key = wire.derive(read_secret(folder / "server.secret"), k)
    return _write_line(folder / f"{k}.secret", CLIENT.format(k=k), key)


def read_secret(path: Path, k: int | None = None) -> bytes:
    """The secret of the server or, with k, the key of that client."""
    kind = SERVER if k is None else CLIENT.format(k=k)
    right = f"make it with `psofed deploy keys secret{'' if k is None else f' {k}'}`"
    return read_line(path, kind, SIZE, right)


def read_line(path: Path, kind: str, size: int, right: str) -> bytes:
    """The bytes of this kind in a file that only its owner may read: one line, "KIND HEX"."""
    words, _, digits = read(path, right).strip().rpartition(" ")
    try:
        key = bytes.fromhex(digits)
    except ValueError:
        key = b""
    if words != kind or len(key) != size:
        found = f"is a {words!r}" if words and len(key) == size else "has no secret in it"
        raise InputError(str(path), f"{found}, not the {kind!r}", right)
    return key


def _write_line(path: Path, kind: str, key: bytes) -> Path:
    create(path, f"{kind} {key.hex()}\n")
    return path

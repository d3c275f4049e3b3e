"""Secret files: the server's secret, and the key of each client that is derived from it.

One line: "psofed server secret HEX", or "psofed key of client K HEX". Only its owner may read it.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from psofed.errors import InputError
from psofed.protocol import seal

SERVER = "psofed server secret"
SIZE = 32  # bytes


def make(folder: Path) -> Path:
    """A new secret of a server; an old one is never overwritten."""
    return _write(folder, "server.secret", SERVER, secrets.token_bytes(SIZE))


def give(folder: Path, k: int) -> Path:
    """The key of client k, from the secret in this folder."""
    secret = read(folder / "server.secret")
    return _write(folder, f"{k}.secret", _client(k), seal.derive(secret, k))


def read(path: Path, k: int | None = None) -> bytes:
    """The secret of the server or, with k, the key of that client."""
    kind = SERVER if k is None else _client(k)
    right = f"make it with `psofed keys secret{'' if k is None else f' {k}'}`"
    try:
        with path.open(encoding="ascii") as file:
            mode, text = os.fstat(file.fileno()).st_mode, file.read()
    except (OSError, UnicodeDecodeError) as error:
        found = f"cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}"
        raise InputError(str(path), found, right) from None
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(str(path), "can be read by others", f"chmod 600 {path}")
    words, _, digits = text.strip().rpartition(" ")
    try:
        key = bytes.fromhex(digits)
    except ValueError:
        key = b""
    if words != kind or len(key) != SIZE:
        found = f"is a {words!r}" if words and len(key) == SIZE else "has no secret in it"
        raise InputError(str(path), f"{found}, not the {kind!r}", right)
    return key


def _client(k: int) -> str:
    return f"psofed key of client {k}"


def _write(folder: Path, name: str, kind: str, key: bytes) -> Path:
    path = folder / name
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, flags, 0o600), "w") as file:
            file.write(f"{kind} {key.hex()}\n")
    except FileExistsError:
        right = "to replace it, move it away first"
        raise InputError(str(path), "exists already", right) from None
    except OSError as error:
        found = f"cannot be written: {error.strerror}"
        raise InputError(str(path), found, "give another folder") from None
    return path

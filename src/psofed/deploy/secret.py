"""Secret files: the server's secret, and the key of each client that is derived from it.

One line: "psofed server secret HEX", or "psofed key of client K HEX". Only its owner may read it.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from psofed.deploy import private
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
    return one_line(path, kind, SIZE, right)


def one_line(path: Path, kind: str, size: int, right: str) -> bytes:
    """The bytes of this kind in a file that only its owner may read."""
    text = private.read(path, right)
    words, _, digits = text.strip().rpartition(" ")
    try:
        key = bytes.fromhex(digits)
    except ValueError:
        key = b""
    if words != kind or len(key) != size:
        found = f"is a {words!r}" if words and len(key) == size else "has no secret in it"
        raise InputError(str(path), f"{found}, not the {kind!r}", right)
    return key


def _client(k: int) -> str:
    return f"psofed key of client {k}"


def _write(folder: Path, name: str, kind: str, key: bytes) -> Path:
    path = folder / name
    private.create(path, f"{kind} {key.hex()}\n")
    return path

"""Named arrays as one file with a digest: what state, checkpoint and model are on disk.

    psofed 1\\n | length of the header, 4 bytes | header, JSON | arrays | BLAKE2b, 16 bytes

The header has the version of the format, the psofed that wrote it, a sequence number, what the
record is about, and the arrays' names, types and shapes. A record of another version is refused.
Reading runs no code and believes nothing: a file may be damaged, or come from anybody. A record
with a right digest may still be of a mistaken or malicious writer: `taken` looks at each array.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from psofed.core import __version__
from psofed.core.native import Array
from psofed.errors import InputError

CHECKPOINT, IDENTITY = "checkpoint", "identity.json"  # the folder of unfinished work, and its mark
MAGIC = b"psofed 1\n"
VERSION = 1
DIGEST = 16
DTYPES = ("<f4", "<f8", "<i8", "|u1", "|b1")
HEADER, AXES, COUNT = 2**24, 32, 2**48  # at most: bytes of the header, sides, values
MOST = 2**62  # of a number: so that counting on cannot overflow
Shape = tuple[int | None, ...]  # None: any length


class DamagedError(ValueError):
    """A file that is not a whole record."""


class VersionError(InputError):
    """A whole record of another version of the format, which is not read here."""

    def __init__(self, version: int, made_by: Any) -> None:
        named = type(made_by) is str and re.fullmatch(r"[0-9A-Za-z.+-]{1,40}", made_by)
        writer = f"psofed {made_by}" if named else "another psofed"
        found = f"was written by {writer} with record version {version}"
        right = f"this is psofed {__version__}, which reads version {VERSION}: use the other one"
        super().__init__("", found, right)


@dataclass(frozen=True, eq=False)
class Record:
    """Named arrays, and what they are about."""

    about: dict[str, Any]
    arrays: dict[str, Array]
    sequence: int = 0


def pack(record: Record) -> bytes:
    """A record as bytes; ValueError for what `unpack` would not take."""
    arrays = {name: np.asarray(array) for name, array in record.arrays.items()}
    table = [[name, a.dtype.str, list(a.shape)] for name, a in arrays.items()]
    header = {"version": VERSION, "made_by": __version__, "sequence": record.sequence,
              "about": record.about, "arrays": table}  # fmt: skip
    text = json.dumps(header, allow_nan=False).encode()
    if len(text) > HEADER or any(dtype not in DTYPES for _, dtype, _ in table):
        raise ValueError(f"a record has {HEADER} bytes of header, and arrays of {DTYPES}")
    parts = [MAGIC, len(text).to_bytes(4, "little"), text, *(a.tobytes() for a in arrays.values())]
    data = b"".join(parts)
    return data + blake2b(data, digest_size=DIGEST).digest()


def unpack(data: bytes) -> Record:
    """The record that `pack` was given, or an error; the digest is checked before all else."""
    body, digest = data[:-DIGEST], data[-DIGEST:]
    if not body.startswith(MAGIC):
        raise DamagedError("it does not begin as a record")
    if blake2b(body, digest_size=DIGEST).digest() != digest:
        raise DamagedError("its digest does not fit its content")
    header, rest = split(body[len(MAGIC) :], 4)
    match header:
        case {"version": int(version), **more} if version != VERSION:
            raise VersionError(version, more.get("made_by"))
        case {"version": int(), "about": dict(about), "arrays": list(table), "sequence": int(n)}:
            return Record(about, cut(table, rest), n)
    raise DamagedError("its header makes no sense")


def split(body: bytes, width: int) -> tuple[Any, bytes]:
    """The header, whose length is in the first `width` bytes, and what follows it."""
    stop = width + int.from_bytes(body[:width], "little")
    if stop > min(len(body), width + HEADER):
        raise DamagedError("its header is too long")
    try:
        header = json.loads(body[width:stop])
        json.dumps(header, ensure_ascii=False, allow_nan=False).encode()  # finite, and real text
    except (ValueError, RecursionError):
        raise DamagedError("its header is not JSON") from None
    return header, body[stop:]


def cut(table: Iterable[Any], data: bytes) -> dict[str, Array]:
    """Arrays that lie one after another: those in the table (name, type, shape), and no more."""
    arrays: dict[str, Array] = {}
    place = 0
    for entry in table:
        match entry:
            case [str(name), str(dtype), list(shape)] if name not in arrays and _right(
                dtype, shape
            ):
                stop = place + math.prod(shape) * np.dtype(dtype).itemsize
            case _:
                raise DamagedError("its table of arrays makes no sense")
        if stop > len(data):
            raise DamagedError("its arrays are longer than the file")
        arrays[name] = np.frombuffer(data[place:stop], dtype).reshape(shape).copy()
        place = stop
    if place < len(data):
        raise DamagedError("it has more than its arrays")
    return arrays


def _right(dtype: str, shape: list[Any]) -> bool:
    """Whether there are such arrays; empty ones, too, must have sides that can be multiplied."""
    known = dtype in DTYPES and len(shape) <= AXES
    whole = known and all(type(side) is int and side >= 0 for side in shape)
    return whole and math.prod(side or 1 for side in shape) <= COUNT


def taken(
    arrays: Mapping[str, Array], name: str, dtype: Any, shape: Shape,
    least: Any = -MOST, most: Any = MOST, finite: bool = True,
) -> Array:  # fmt: skip
    """The array of this name, if it has this type and shape and no impossible value.

    The limits of the values are numbers, or arrays of as many.

    >>> taken({"w": np.zeros(3)}, "w", np.float64, (2,))
    Traceback (most recent call last):
    psofed.errors.InputError: the array 'w' has shape (3,), not (2,); restore the folder from a \
copy, or start with a new one
    """
    if name not in arrays:
        raise _wrong(name, "is missing")
    array = arrays[name]
    if array.dtype != dtype:
        raise _wrong(name, f"has values of type {array.dtype}, not {np.dtype(dtype)}")
    pairs = zip(array.shape, shape, strict=False)
    if array.ndim != len(shape) or any(want not in (None, side) for side, want in pairs):
        wanted = str(shape).replace("None", "any")
        raise _wrong(name, f"has shape {array.shape}, not {wanted}")
    if not finite or array.dtype.kind == "b":
        return array
    if not np.isfinite(array).all():
        raise _wrong(name, "has values that are not finite")
    outside = (array < least) | (array > most)
    if outside.any():
        value, low, high = (
            np.broadcast_to(a, array.shape)[outside][0] for a in (array, least, most)
        )
        raise _wrong(name, f"has the value {value}, not {low} to {high}")
    return array


def number(arrays: Mapping[str, Array], name: str, least: int = 0, most: int = MOST) -> int:
    """A whole number from least to most."""
    return int(taken(arrays, name, np.int64, (), least, most))


def restored(
    state: Mapping[str, Array], arrays: Mapping[str, Array], finite: bool = True
) -> dict[str, Array]:
    """The arrays of this state, as a record has them; finite, unless it begins otherwise."""
    found = {}
    for name, like in state.items():
        most, known = np.inf if like.dtype.kind == "f" else MOST, np.isfinite(like).all()
        record = taken(
            arrays, f"state.{name}", like.dtype, like.shape, -most, most, finite and bool(known)
        )
        found[name] = record.copy()
    return found


def _wrong(name: str, found: str) -> InputError:
    right = "restore the folder from a copy, or start with a new one"
    return InputError(f"the array {name!r}", found, right)


def write(path: Path, data: bytes, durable: bool = False) -> None:
    """A file in one step: written next to it, then renamed, so that `path` is always whole."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        with open(draft, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise

"""Records as version 0.1 wrote them: its checkpoints and models. (Its state was as it is now.)"""

from __future__ import annotations

import hashlib
from io import BytesIO
from zipfile import ZipFile

import numpy as np

from psofed.records import DTYPES, DamagedError, Record, cut, split

CHECKPOINT = b"psofed checkpoint 1\n"  # BLAKE2b, 32 bytes | npz
MODEL = b"PSOFED MODEL 1\n"  # length, 8 bytes | header, JSON | arrays, float32 | SHA-256


def checkpoint(data: bytes) -> Record:
    """The arrays of a checkpoint's file, or DamagedError."""
    start = len(CHECKPOINT) + 32
    digest, archive = data[len(CHECKPOINT) : start], data[start:]
    if hashlib.blake2b(archive, digest_size=32).digest() != digest:
        raise DamagedError("its digest does not fit its content")
    try:
        with ZipFile(BytesIO(archive)) as files:
            if sum(info.file_size for info in files.infolist()) > len(archive):
                raise DamagedError("it is larger inside than outside")
        with np.load(BytesIO(archive), allow_pickle=False) as loaded:
            arrays = {name: array for name, array in loaded.items() if array.dtype.str in DTYPES}
        return Record({"kind": "checkpoint"}, arrays)
    except Exception as error:  # there is no list of what an archive can do
        raise DamagedError(f"its arrays cannot be read ({type(error).__name__})") from None


def model(data: bytes) -> Record:
    """Header and arrays of a model, or DamagedError."""
    body, digest = data[len(MODEL) : -32], data[-32:]
    if hashlib.sha256(MODEL + body).digest() != digest:
        raise DamagedError("its digest does not fit its content")
    match split(body, 8):
        case {"arrays": dict(shapes)} as about, rest:
            table = [[name, "<f4", shape] for name, shape in shapes.items()]
            return Record(about | {"kind": "model"}, cut(table, rest))
    raise DamagedError("its header makes no sense")

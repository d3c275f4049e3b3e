"""Values as bytes: what an exchange of model entries costs, and what is sent."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

NOTHING = b"\0"  # "nothing to report", which is not the same as no message
FORMATS = {"float16": "<f2", "float32": "<f4", "float64": "<f8"}


def encode(values: NDArray[Any], wire: str) -> bytes:
    """Model entries as little-endian bytes; their positions are computed, so they do not travel.

    >>> len(encode(np.zeros(5), "float32"))
    20
    """
    return np.asarray(values).astype(FORMATS[wire]).tobytes()


def decode(data: bytes, wire: str) -> NDArray[np.float64]:
    """The inverse of `encode`, exact wherever the values fit the wire format."""
    return np.frombuffer(data, FORMATS[wire]).astype(np.float64)


def rounded(values: NDArray[Any], wire: str) -> NDArray[Any]:
    """Values as they are after the wire, in the type that they have.

    >>> rounded(np.array([1.0, 1.0001]), "float16").tolist()
    [1.0, 1.0]
    """
    if size(wire) >= values.dtype.itemsize:
        return values
    return values.astype(FORMATS[wire]).astype(values.dtype)


def size(wire: str) -> int:
    """Bytes of one value."""
    return int(np.dtype(FORMATS[wire]).itemsize)

"""Numbers in few bits, as they travel: packed codes, quantisers, positions, a fast rotation."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, inf, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core import native, payload
from psofed.core.native import Array

SMALLEST = -63  # smallest scale of a companded message, in quarter octaves


def pack(codes: Array, bits: int) -> bytes:
    """Codes 0..2^bits - 1, `bits` bits each, rounded up to whole bytes.

    >>> unpack(pack(np.array([5, 0, 7]), 3), 3, count=3).tolist()
    [5, 0, 7]
    """
    whole = np.asarray(codes).astype(np.uint32)
    return np.packbits((whole[:, None] >> np.arange(bits, dtype=np.uint32)) & 1).tobytes()


def unpack(data: bytes, bits: int, count: int) -> NDArray[np.int64]:
    """The codes that `pack` was given; a ValueError if it cannot have made these bytes."""
    flat = unpack_bits(data, count * bits)
    return flat.reshape(count, bits).astype(np.int64) @ (1 << np.arange(bits))


def unpack_bits(data: bytes, count: int) -> NDArray[np.uint8]:
    """The first `count` bits of whole bytes; the rest has to be 0, else a ValueError.

    >>> unpack_bits(bytes([0b10100000]), 3).tolist()
    [1, 0, 1]
    """
    if len(data) != ceil(count / 8):
        raise ValueError(f"{ceil(count / 8)} bytes were expected, {len(data)} came")
    flat = np.unpackbits(np.frombuffer(data, np.uint8))
    if flat[count:].any():
        raise ValueError(f"more than {count} bits are set")
    return flat[:count]


def quantise(h: Array, bits: int, u: Any, wire: str | None = None) -> Array:
    """Probabilistic q-bit quantisation: lo, hi, then c_j = floor((h_j - lo)/d + u_j), u_j ~ U(0,1).

    d = (hi - lo) / (2^q - 1); the mean of `restore(quantise(h))` over u is h. Rows of h [..., m]
    are quantised each by itself. With `wire`, lo and hi are rounded as they are on the wire.
    """
    lo, hi = h.min(axis=-1, keepdims=True), h.max(axis=-1, keepdims=True)
    if wire is not None:
        lo, hi = payload.rounded(lo, wire), payload.rounded(hi, wire)
    top = 2**bits - 1
    scale = top / np.where(hi > lo, hi - lo, np.inf)  # equal values have the code floor(u) = 0
    codes = np.clip(np.floor((h - lo) * scale + u), 0, top)
    return np.concatenate([lo, hi, codes], axis=-1).astype(h.dtype)


def restore(message: Array, bits: int) -> Array:
    """U_j = lo + d c_j."""
    lo, hi, codes = message[..., :1], message[..., 1:2], message[..., 2:]
    values: Array = lo + codes * ((hi - lo) / (2**bits - 1))
    return values


def compand(v: Array, bits: int) -> Array:
    """Square-root companding: e, then 2 level + sign for each value; no randomness.

    s = 2^(e/4) is just above max |v|, H = 2^(b-1), level = floor(H sqrt(|v|/s)). Small values are
    more precise than with equal steps, as differences to a reference need it.
    """
    if not native.available():
        return companded(v, bits)
    out = np.empty(len(v) + 1)
    native.function("compand")(v.astype(np.float64, order="C", copy=False), out, len(v), bits)
    return out


def companded(v: Array, bits: int) -> Array:
    """`compand` in NumPy."""
    out = np.zeros(len(v) + 1)
    size = np.abs(v)
    top = float(size.max())
    if top < 2.0 ** (SMALLEST / 4):
        out[0] = SMALLEST - 1  # nothing worth sending: decoded as zeros
        return out
    # Values that are too large or not finite (a step that diverges) are sent as the largest.
    out[0] = scale = min(ceil(4 * log2(top)), -SMALLEST) if top < inf else -SMALLEST
    half = 2 ** (bits - 1)
    size *= half**2 / 2.0 ** (scale / 4)
    levels = np.floor(np.sqrt(size, out=size), out=size)
    np.fmin(levels, half - 1, out=levels)
    levels += levels
    np.add(levels, v < 0, out=out[1:])
    return out


def expand(message: Array, bits: int) -> Array:
    """v_j = +-s ((level + 1/2) / H)^2, of a message [1 + m] or of several [s, 1 + m]."""
    values: Array = _expanded(bits).take(message[..., 1:].astype(np.intp))
    if message.ndim == 1:
        values *= _scale(float(message[0]))
    else:
        values *= np.array([[_scale(scale)] for scale in message[:, 0].tolist()])
    return values


def _scale(e: float) -> float:
    return 2.0 ** (e / 4) if e >= SMALLEST else 0.0


@lru_cache
def _expanded(bits: int) -> Array:
    """What each code stands for, at the scale 1."""
    codes, half = np.arange(2**bits), 2 ** (bits - 1)
    size = np.square(((codes >> 1) + 0.5) / half)
    return np.where(codes & 1, -size, size)


def encode_positions(positions: Array, dim: int) -> bytes:
    """Sorted positions, as a bitmap or a list, whichever is shorter; both ends know how many."""
    each = max(ceil(log2(dim)), 1)
    if len(positions) * each < dim:
        return pack(positions, each)
    bitmap = np.zeros(dim, np.uint8)
    bitmap[np.asarray(positions, np.intp)] = 1
    return np.packbits(bitmap).tobytes()


def decode_positions(data: bytes, count: int, dim: int) -> NDArray[np.int64]:
    """The inverse of `encode_positions`; a ValueError if it cannot have made these bytes."""
    each = max(ceil(log2(dim)), 1)
    listed = count * each < dim
    found = unpack(data, each, count) if listed else np.flatnonzero(unpack_bits(data, dim))
    if len(found) != count or (np.diff(found) <= 0).any() or found[-1] >= dim:
        raise ValueError(f"not {count} positions below {dim}, in order")
    return found


def hadamard(v: Array) -> Array:
    """H v / sqrt(m), H the Walsh-Hadamard matrix; its own inverse. v is [..., m], m a power of 2.

    >>> hadamard(hadamard(np.array([1.0, 2.0, 3.0, 4.0]))).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    # H of size a b is that of a times that of b (Kronecker): two small products, not log2 m passes.
    size = v.shape[-1]
    power = size.bit_length() - 1
    left, right = signs(power // 2), signs(power - power // 2)
    square = v.reshape(*v.shape[:-1], len(left), len(right))
    scaled: Array = (left @ square @ right).reshape(v.shape) / np.sqrt(size)
    return scaled


@lru_cache(maxsize=32)
def signs(power: int) -> Array:
    """The Walsh-Hadamard matrix of size 2^power, of ones and minus ones.

    >>> signs(1).tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """
    H = np.ones((1, 1))
    for _ in range(power):
        H = np.block([[H, H], [H, -H]])
    return H

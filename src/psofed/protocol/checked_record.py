"""Arrays of a record that are what they must be, or one line that says which is not, and why.

A record with a right digest may still be of a mistaken or malicious writer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError

Array = NDArray[Any]
Shape = tuple[int | None, ...]  # None: any length
# Beginnings of the names of arrays that older records do not have: the check of samples, trust.
LATER = ("check", "due", "trust", "middle", "usual", "many", "trace", "unseen")
MOST = 2**62  # of a number: so that counting on cannot overflow


def taken(
    arrays: Mapping[str, Array], name: str, dtype: Any, shape: Shape,
    least: float = -MOST, most: float = MOST, finite: bool = True,
) -> Array:  # fmt: skip
    """The array of this name, if it has this type and shape and no impossible value.

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
    outside = array[(array < least) | (array > most)]
    if outside.size:
        raise _wrong(name, f"has the value {outside.flat[0]}, not {least} to {most}")
    return array


def number(
    arrays: Mapping[str, Array], name: str, least: int = 0, most: int = MOST,
    default: int | None = None,
) -> int:  # fmt: skip
    """A whole number from least to most; the default where an older record has none."""
    if default is not None and name not in arrays:
        return default
    return int(taken(arrays, name, np.int64, (), least, most))


def restored(
    state: Mapping[str, Array], arrays: Mapping[str, Array], word: str = "state"
) -> dict[str, Array]:
    """This state with the arrays of a record; what older records may lack is kept.

    A defence may remember values that are not finite, and a check begins with some; a model may not
    have any.
    """
    found = {}
    for name, like in state.items():
        key, most = f"{word}.{name}", np.inf if like.dtype.kind == "f" else MOST
        if key in arrays or not name.startswith(LATER):
            finite = word == "state" and bool(np.isfinite(like).all())
            like = taken(arrays, key, like.dtype, like.shape, -most, most, finite)
        found[name] = like
    return found


@contextmanager
def reading(where: str) -> Iterator[None]:
    """What is wrong in here is wrong in this file."""
    try:
        yield
    except InputError as error:
        raise error.inside(where=where) from None


def _wrong(name: str, found: str) -> InputError:
    right = "restore the folder from a copy, or start with a new one"
    return InputError(f"the array {name!r}", found, right)

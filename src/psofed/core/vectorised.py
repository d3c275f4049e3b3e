"""A user's function of x in R^L, to a number or to D of them, for many x at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.foreign import call, shaped
from psofed.errors import InputError

Array = NDArray[Any]
PROBES = 5, 3  # inputs with which a function is tried


@dataclass(frozen=True, eq=False)
class Vectorised:
    """A function as its user wrote it, for x of any shape [..., L]; only finite values pass."""

    function: Callable[[Array], Any]
    flat: bool  # it wants x as [sample, L]
    field: str
    shape: tuple[int, ...] = ()  # of one value

    def __call__(self, x: Array) -> Array:
        """The values [..., *shape], in the precision of x."""
        given = x.reshape(-1, x.shape[-1]) if self.flat else x.view()
        given.flags.writeable = False
        wanted = (*given.shape[:-1], *self.shape)
        value = shaped(self.field, call(self.field, self.function, given), wanted)
        if not np.isfinite(value).all():
            raise _not_finite(self.field, given, value)
        value = value.astype(x.dtype, copy=False)
        return value.reshape(*x.shape[:-1], *self.shape) if self.flat else value


def _not_finite(field: str, x: Array, value: Array) -> InputError:
    bad = tuple(np.argwhere(~np.isfinite(value))[0])
    inputs = ", ".join(f"{v:.4g}" for v in x[bad[: x.ndim - 1]])
    right = "return finite numbers for all inputs"
    return InputError(field, f"gives {value[bad]} for x = [{inputs}]", right)


def vectorised(
    function: Callable[[Array], Any], x: Array, field: str, shape: tuple[int, ...] = ()
) -> Vectorised:
    """The function, after it was tried with a few x [15, L]; refused if it is not one of x.

    It may be written for [..., L], or for [sample, L] only.

    >>> vectorised(lambda x: x[:, 0], np.ones((15, 2)), "f").flat
    True
    """
    x = np.array(x)
    x.flags.writeable = False
    count, taps = x.shape
    right = f"take the inputs as x[..., 0] to x[..., {taps - 1}]; what is before the last axis of x"
    right = f"{right} are samples, each with its own value"

    def tried(given: Array) -> Array:
        value = call(field, function, given, right=right)
        value = shaped(field, value, (*given.shape[:-1], *shape), right)
        if not np.isfinite(value).all():
            raise _not_finite(field, given, value)
        return value.astype(np.float64)

    rows = np.concatenate([tried(x[i : i + 1]) for i in range(count)])
    if not np.array_equal(rows, np.concatenate([tried(x[i : i + 1]) for i in range(count)])):
        found = "gives other values for the same inputs when it is called again"
        raise InputError(field, found, "leave chance and memory out of it")
    for flat in (False, True):
        given = x if flat else x.reshape(*PROBES, taps)
        try:
            once = tried(given)
        except InputError:
            if flat:
                raise
            continue
        near = 1e-9 * np.abs(rows).max()
        if np.allclose(once.reshape(rows.shape), rows, rtol=1e-6, atol=near):
            _check_kept(function, given, field)
            return Vectorised(function, flat, field, shape)
    found = "gives other values for many samples at once than for each alone"
    raise InputError(field, found, right)


def _check_kept(function: Any, x: Array, field: str) -> None:
    """Refuse a function that works in one array for all its calls: threads would share it."""
    first = np.asarray(call(field, function, x))
    kept = first.copy()
    call(field, function, x[::-1])
    if not np.array_equal(first, kept):
        right = "return a new array each time: several threads call it"
        raise InputError(field, "returns an array that it changes when it is called again", right)

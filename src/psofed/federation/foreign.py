"""Functions that users bring: an error names their line, and what they return is checked."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from psofed.core.native import Array
from psofed.errors import InputError
from psofed.federation import plugins

HERE = str(Path(__file__).parent.parent)


def call(field: str, function: Callable[..., Any], *given: Any, right: str = "") -> Any:
    """function(*given), or an InputError that says where it failed."""
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused by those who need it
            return function(*given)
    except InputError:
        raise
    except Exception as error:
        if isinstance(error, ValueError) and "read-only" in str(error):
            right = "work on a copy of the inputs: x = x.copy()"
        found = f"fails{_where(error, function)}: {plugins.brief(error)}"
        raise InputError(field, found, right or "correct it there") from error


def _where(error: Exception, function: Any) -> str:
    """The last line outside of our libraries that was reached, or where the function begins."""
    lines = traceback.extract_tb(error.__traceback__)[1:]
    libraries = HERE, str(Path(np.__file__).parent)
    theirs = [f for f in lines if not f.filename.startswith(libraries)]
    if theirs:
        return f" at {theirs[-1].filename}:{theirs[-1].lineno}"
    code = getattr(function, "__code__", None)
    return f" at {code.co_filename}:{code.co_firstlineno}" if code else ""


def shaped(field: str, values: Any, shape: tuple[int, ...], right: str = "") -> Array:
    """`values` as real numbers of this shape, or an InputError."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(field, "returns a ragged list", "return an array of numbers") from None
    if array.dtype.kind not in "biuf":
        kind = {"c": "complex numbers", "U": "texts", "S": "texts"}.get(array.dtype.kind)
        found = f"returns {kind or f'a {type(values).__name__}'}"
        raise InputError(field, found, "return an array of real numbers")
    if array.shape != shape:
        found = f"returns an array of shape {list(array.shape)}, not {list(shape)}"
        raise InputError(field, found, right or "return one of that shape")
    return array


def real(field: str, values: Any, shape: tuple[int, ...]) -> Array:
    """`values` as finite numbers of this shape, or an InputError."""
    array = shaped(field, values, shape)
    if not np.isfinite(array).all():
        found = f"gives {array[~np.isfinite(array)].ravel()[0]}"
        raise InputError(field, found, "return finite numbers")
    return array


def place(field: str, function: Any) -> str:
    """Where a function is found again, as a file writes it: "./mine.py:f", "package.module:f".

    >>> from psofed.streams import paper
    >>> place("f", paper.f)
    'psofed.streams.paper:f'
    >>> place("f", lambda x: x)
    Traceback (most recent call last):
    psofed.errors.InputError: f is <lambda>, which no file can name; put it into a file...
    """
    name = title(function)
    if not name.isidentifier() or not hasattr(function, "__qualname__"):
        found = f"is {name.rpartition('.')[2]}, which no file can name"
        right = "put it into a file, as a function with a name, and give that: './mine.py:f'"
        plugins.unwritten(InputError(field, found, right))
        return name
    if plugins.is_ours(function):
        return f"{function.__module__}:{name}"
    try:
        return plugins.spelled(function)
    except InputError as error:
        raise InputError(field, error.found, error.right) from None


def title(function: Any) -> str:
    """The name of a function, or of the class of an object that is called like one."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def broken(plain: Any, name: str, found: str, right: str) -> InputError:
    """What is wrong with a handler of a class from outside: its line, unless it is inherited."""
    where = f"{plain.__module__}.{plain.__qualname__}"
    if plain.__module__ in plugins.loaded:
        where = plugins.loaded[plain.__module__].path
    handler = getattr(plain, name)
    code = getattr(handler, "__code__", None)
    if code is not None and not plugins.is_ours(handler):
        where = f"{code.co_filename}:{code.co_firstlineno}"
    return InputError("", f"{where}: {name} {found}", right)


def kind(value: Any) -> str:
    """What a value is, in words."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {list(value.shape)}"
    return "None" if value is None else f"a {type(value).__name__}"


PROBES = 15  # inputs with which a function is tried


@dataclass(frozen=True, eq=False)
class Vectorised:
    """A function as its user wrote it, called with x [sample, L]; only finite values pass."""

    function: Callable[[Array], Any]
    field: str
    shape: tuple[int, ...] = ()  # of one value
    right: str = ""  # what to say where the shape is wrong

    def __call__(self, x: Array) -> Array:
        """The values [..., *shape] for x [..., L], in the precision of x."""
        given = x.reshape(-1, x.shape[-1]).view()
        given.flags.writeable = False
        found = call(self.field, self.function, given, right=self.right)
        value = shaped(self.field, found, (len(given), *self.shape), self.right)
        if not np.isfinite(value).all():
            bad = tuple(np.argwhere(~np.isfinite(value))[0])
            inputs = ", ".join(f"{v:.4g}" for v in given[bad[0]])
            found = f"gives {value[bad]} for x = [{inputs}]"
            raise InputError(self.field, found, "return finite numbers for all inputs")
        return value.astype(x.dtype, copy=False).reshape(*x.shape[:-1], *self.shape)


def vectorised(
    function: Callable[[Array], Any], x: Array, field: str, shape: tuple[int, ...] = ()
) -> Vectorised:
    """The function, after it was tried with a few x [15, L]; refused if it is not one of x."""
    right = f"take the inputs as x[..., 0] to x[..., {x.shape[1] - 1}]"
    right = f"{right}; what is before the last axis of x are samples, each with its own value"
    made = Vectorised(function, field, shape, right)
    rows, once = np.concatenate([made(one[None]).copy() for one in x]), made(x)
    if not np.allclose(once, rows, rtol=1e-6, atol=1e-9 * np.abs(rows).max()):
        found = "gives other values for many samples at once than for each alone"
        raise InputError(field, found, right)
    first = np.asarray(call(field, function, x))
    kept = first.copy()
    call(field, function, x[::-1])
    if not np.array_equal(first, kept):
        right = "return a new array each time: several threads call it"
        raise InputError(field, "returns an array that it changes when it is called again", right)
    return made

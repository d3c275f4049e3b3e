"""Functions that users bring: their errors are told as theirs, and what they return is checked."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError
from psofed.federation import plugins

Array = NDArray[Any]
HERE = str(Path(__file__).parent.parent)


def call(field: str, function: Callable[..., Any], *given: Any, right: str = "") -> Any:
    """function(*given), or an InputError that says where it failed.

    >>> call("f", lambda x: x[3], (1, 2))
    Traceback (most recent call last):
    psofed.errors.InputError: f fails at <doctest ...>:1: IndexError: tuple index out of range...
    """
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused by those who need it
            return function(*given)
    except InputError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if isinstance(error, ValueError) and "read-only" in str(error):
            right = "work on a copy of the inputs: x = x.copy()"
        found = f"fails{_where(error, function)}: {' '.join(what.split())}"
        raise InputError(field, found, right or "correct it there") from error


def _where(error: Exception, function: Any) -> str:
    """The last line outside of our libraries that was reached, or where the function begins."""
    lines = traceback.extract_tb(error.__traceback__)[1:]
    known = [sys.modules[name] for name in ("numpy", "torch") if name in sys.modules]
    libraries = HERE, *(str(Path(str(each.__file__)).parent) for each in known)
    theirs = [f for f in lines if not f.filename.startswith(libraries)]
    if theirs:
        return f" at {theirs[-1].filename}:{theirs[-1].lineno}"
    code = getattr(function, "__code__", None)
    return f" at {code.co_filename}:{code.co_firstlineno}" if code else ""


def shaped(field: str, values: Any, shape: tuple[int, ...], right: str = "") -> Array:
    """`values` as real numbers of this shape, or an InputError.

    >>> shaped("f", [1, 2], (3,))
    Traceback (most recent call last):
    psofed.errors.InputError: f returns an array of shape [2], not [3]; return one of that shape
    """
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
    shown = name.rpartition(".")[2]
    try:
        if not name.isidentifier() or not hasattr(function, "__qualname__"):
            found = f"is {shown}, which no file can name"
            right = "put it into a file, as a function with a name, and give that: './mine.py:f'"
            error = InputError(field, found, right)
            plugins.unwritten(error)
            return name
        ours = plugins.is_ours(function)
        return f"{function.__module__}:{name}" if ours else plugins.spelled(function)
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
    """What a value is, in words.

    >>> kind(np.zeros(3)), kind("x")
    ('an array of float64 of shape [3]', 'a str')
    """
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {list(value.shape)}"
    return "None" if value is None else f"a {type(value).__name__}"


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

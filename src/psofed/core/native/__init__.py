"""The compiled part: functions in C, in a library next to this file, called through ctypes.

Nothing is compiled when psofed runs. The build makes the library for several levels of processors,
and the best that this one can run is taken; all with fused multiply-adds give the same bits. Where
there is none (a wheel built without a C compiler), the same equations run in NumPy, slower.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from functools import cache
from math import prod
from pathlib import Path
from threading import RLock
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError

Array = NDArray[Any]
LEVELS = ("base", "v3", "v4")  # of x86-64; other processors have the first only
FOLDER = Path(__file__).parent
_POINTER, _INTEGER, _NUMBER = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
_MEMORY: Any = ctypes.c_char * 0
_TYPES: Any = {int: _INTEGER, float: _NUMBER}
_lock = RLock()  # of two structs that threads make of one kind, C takes one for another


@cache
def library(level: str | None = None) -> Any:
    """The library for this processor, or for another level; None if there is none."""
    # Not .so: tools that look for modules of Python would take it for one.
    try:
        base = ctypes.CDLL(str(FOLDER / "psofed-base.shared"))
        best = LEVELS[base.psofed_level()] if level is None else level
        found = ctypes.CDLL(str(FOLDER / f"psofed-{best}.shared"))
    except OSError:
        return None
    found.psofed_source.restype = ctypes.c_char_p
    if not found.psofed_source().decode().startswith(_sources()):
        # Its functions may read memory that is laid out in another way: wrong numbers, or none.
        name = f"psofed-{best}.shared"
        right = "install psofed again; in a clone, `python3 dev.py` with any command does that"
        raise InputError(name, "was compiled from other sources than are here", right, str(FOLDER))
    return found


def _sources() -> str:
    """The digest of the sources next to this file, as hatch_build.py has it."""
    found = hashlib.blake2b(digest_size=8)
    for path in sorted(FOLDER.glob("*.[ch]")):
        found.update(path.read_bytes())
    return found.hexdigest()


def available() -> bool:
    """Whether there is compiled code."""
    return library() is not None


def about() -> str:
    """What was compiled, and for which processors: results depend on no more of it."""
    found = library()
    if found is None:
        return "none"
    fused = "fused" if found.psofed_fused() else "plain"
    return f"{found.psofed_source().decode()} {fused}"


@cache
def keep_memory() -> bool:
    """In a process that only simulates: memory of a run is kept for the next, which saves time."""
    return available() and bool(function("keep_memory")())


@cache
def function(name: str, dtype: Any = None) -> Callable[..., Any]:
    """A function of the library, by its name there; for arrays of this precision.

    Arguments are arrays (their memory, which must be contiguous), ints and floats.
    """
    suffix = {None: "", "float32": "_f32", "float64": "_f64"}[dtype and np.dtype(dtype).name]
    called = getattr(library(), f"psofed_{name}{suffix}")
    called.restype = _INTEGER

    def call(*arguments: Any) -> Any:
        if called.argtypes is None:  # every call has the same kinds
            called.argtypes = [_TYPES.get(type(value), _POINTER) for value in arguments]
        return called(*[v if type(v) in _TYPES else _address(v) for v in arguments])

    return call


def _address(value: Any) -> Any:
    if isinstance(value, ctypes.Structure):
        return ctypes.byref(value)
    flags = value.flags
    assert flags.c_contiguous
    # The first way is four times as fast, but needs memory that may be written to.
    return _MEMORY.from_buffer(value) if flags.writeable else value.__array_interface__["data"][0]


@cache
def _structure(kind: Any) -> Any:
    """The C struct with the fields of a NamedTuple of arrays, ints, floats and other such."""

    def of(hint: Any) -> Any:
        if isinstance(hint, type) and issubclass(hint, tuple):
            return _structure(hint)
        return _TYPES.get(hint, ctypes.c_void_p)

    fields = [(name, of(hint)) for name, hint in get_type_hints(kind).items()]
    return type(kind.__name__, (ctypes.Structure,), {"_fields_": fields})


def struct(values: Any) -> Any:
    """A NamedTuple as the C struct of the same fields; it does not keep the arrays alive.

    Only an array whose strides are a field too need not be contiguous.
    """
    kind: Any = type(values)
    with _lock:
        made = _structure(kind)()
    for name, value in zip(values._fields, values, strict=True):
        if isinstance(value, np.ndarray):
            assert value.flags.c_contiguous or f"{name}_strides" in values._fields
            value = value.__array_interface__["data"][0]
        elif isinstance(value, tuple):
            value = struct(value)
        setattr(made, name, value)
    made.kept = values
    return made


def aligned(shape: tuple[int, ...] | int, dtype: Any) -> Array:
    """Zeros that begin on a cache line, as vector loads like it."""
    size = prod(shape if isinstance(shape, tuple) else (shape,)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    return memory[begin : begin + size].view(dtype).reshape(shape)

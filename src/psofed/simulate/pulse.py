"""What goes on inside runs, here and in worker processes: how far they are, and what is compiled.

Numba itself says when it compiles, which it does only if its cache misses.
"""

from __future__ import annotations

from threading import Lock
from time import perf_counter
from typing import Any

from psofed.pace import KERNELS

_NAMES = tuple(KERNELS)
_lock = Lock()
_begun: list[str] = []  # functions that this process compiles, outermost first
_worked = [0.0]  # runs, or parts of runs, that were computed by this process and by former ones
_shared: list[Any] = []  # with processes: runs computed, then how many of them compile each name


def beat(part: float) -> None:
    """This part of a run has been computed."""
    if _shared:
        with _shared[0].get_lock():
            _shared[0][0] += part
        return
    with _lock:
        _worked[0] += part


def worked() -> float:
    """Runs and parts of runs computed so far, whatever for: what counts is how it grows."""
    return _worked[0] + (_shared[0][0] if _shared else 0.0)


def begin(name: str) -> None:
    """The compilation of a function begins."""
    _begun.append(name)
    _tell(name, 1)


def end(name: str) -> None:
    """It has ended."""
    _begun.remove(name)
    _tell(name, -1)


def compiling() -> tuple[str, ...]:
    """Functions that are being compiled, outermost first; empty if none is."""
    counts = _shared[0][1:] if _shared else []
    there = tuple(name for name, count in zip(_NAMES, counts, strict=False) if count > 0)
    return tuple(_begun) or there


def counters(context: Any) -> Any:
    """New counters for a pool of processes, each of which has to `follow` them."""
    _worked[0] = worked()
    _shared[:] = [context.Array("d", 1 + len(_NAMES))]
    return _shared[0]


def follow(shared: Any) -> None:
    """In a worker process: what it does is known to the process that started it."""
    _shared[:] = [shared]


def leave() -> None:
    """The pool has ended: this process counts by itself again."""
    _worked[0] = worked()
    _shared.clear()


def _tell(name: str, more: int) -> None:
    if _shared and name in _NAMES:
        with _shared[0].get_lock():
            _shared[0][1 + _NAMES.index(name)] += more


def loop() -> float:
    """Seconds of a fixed piece of Python: how fast this machine is just now, with all it does."""
    begun = perf_counter()
    for _ in range(3):
        table = {i: str(i) for i in range(100_000)}
        sum(len(table[i]) for i in range(0, 100_000, 3))
    return perf_counter() - begun

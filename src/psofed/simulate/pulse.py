"""How far runs are, here and in worker processes."""

from __future__ import annotations

from threading import Lock
from typing import Any

_lock = Lock()
_worked = [0.0]  # runs, or parts of runs, that were computed by this process and by former ones
_shared: list[Any] = []  # with processes: a counter of what they have computed


def beat(part: float) -> None:
    """This part of a run has been computed."""
    if _shared:
        with _shared[0].get_lock():
            _shared[0].value += part
        return
    with _lock:
        _worked[0] += part


def worked() -> float:
    """Runs and parts of runs computed so far, whatever for: what counts is how it grows."""
    return float(_worked[0] + (_shared[0].value if _shared else 0.0))


def counter(context: Any) -> Any:
    """A new counter for a pool of processes, each of which has to `follow` it."""
    _worked[0] = worked()
    _shared[:] = [context.Value("d", 0.0)]
    return _shared[0]


def follow(shared: Any) -> None:
    """In a worker process: what it does is known to the process that started it."""
    _shared[:] = [shared]


def leave() -> None:
    """The pool has ended: this process counts by itself again."""
    _worked[0] = worked()
    _shared.clear()

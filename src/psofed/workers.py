"""Worker processes that end with the process that started them, on any signal."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from typing import Any


@contextmanager
def processes(
    jobs: int, begin: Callable[..., None] | None = None, arguments: tuple[Any, ...] = ()
) -> Iterator[ProcessPoolExecutor]:
    """A pool of new processes; on Ctrl-C, SIGTERM or an error they end before this one does."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, _begin, (begin, arguments))
    with _terminable():
        try:
            yield pool
        except BaseException:
            own = list(getattr(pool, "_processes", None) or {})
            pool.shutdown(wait=False, cancel_futures=True)
            for number in own:
                with suppress(OSError):
                    os.kill(number, signal.SIGKILL)  # it may be too new to handle another
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin(begin: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    if begin is not None:
        begin(*arguments)


@contextmanager
def deaf() -> Iterator[None]:
    """Processes that are started in here ignore Ctrl-C: the process that started them decides.

    They inherit a mask that blocks it. In this process it is handled after the block, so that no
    process is half started when interrupted; a mask alone is not enough, as any thread may get it.
    """
    if current_thread() is not main_thread():
        yield
        return
    heard: list[int] = []
    both = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.signal(each, lambda number, frame: heard.append(number)) for each in both]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, both)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for each, handler in zip(both, handlers, strict=True):
            signal.signal(each, handler)
    if heard:
        raise KeyboardInterrupt


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM unwinds like Ctrl-C, so that everything is cleaned up."""
    if current_thread() is not main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

"""Worker processes that end with the process that started them, and what is sent to them."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import current_thread, main_thread
from types import SimpleNamespace
from typing import Any

from threadpoolctl import threadpool_limits

from psofed.errors import InputError
from psofed.federation.plugins import Plugin, loaded, relative_to
from psofed.federation.plugins.loading import execute, from_package


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


@dataclass(frozen=True)
class Packed:
    """Something to be sent to another process, with the plug-ins that it is made of."""

    data: bytes
    sources: tuple[Plugin, ...]

    def unpack(self) -> Any:
        """The thing itself, after its plug-ins have been made known to this process."""
        for plugin in self.sources:
            _settle(plugin)
        return pickle.loads(self.data)


def pack(thing: Any) -> Packed:
    """`thing` with the plug-ins whose classes and functions are in it.

    >>> pack({"a": 1}).unpack()
    {'a': 1}
    """
    data = pickle.dumps(thing)
    return Packed(data, tuple(p for name, p in loaded.items() if name.encode() in data))


def _settle(plugin: Plugin) -> None:
    """Make a plug-in of another process known here; refuse another version of it."""
    if plugin.module in loaded and loaded[plugin.module].digest == plugin.digest:
        return
    own = plugin.module.startswith("psofed_plugin_")
    try:
        there = own or importlib.util.find_spec(plugin.module) is not None
    except ModuleNotFoundError:
        there = False
    if own or (not there and plugin.source is not None):
        execute(plugin, plugin.path)
        return
    with relative_to(plugin.root or Path.cwd()):
        here = loaded[from_package(plugin.module).__name__]
    if here.digest != plugin.digest:
        found = f"{plugin.module} of a worker, {here.path}, is not the one of {plugin.path}"
        raise InputError("", found, "install the same everywhere, or use one file")


Tell = Callable[[float], None]  # the share of a piece that is done
HEAVY = 5e8  # numbers to be updated, above which processes save time
_here: dict[str, Any] = {}  # in a process of `Workers`: what it knows, and how much is done


class Workers:
    """Work on pieces of one thing, in this process or on up to `jobs` others that know it.

    In processes, because the products of one round of theory are so small that two threads spend a
    third of their time waiting for the interpreter's lock. They are started once there is enough
    to do.
    """

    def __init__(self, known: Any, jobs: int, stack: ExitStack) -> None:
        self.known, self.jobs, self._stack = known, jobs, stack
        self._pool: ProcessPoolExecutor | None = None
        self._done: Any = SimpleNamespace(value=0.0, get_lock=nullcontext)

    def work(
        self, work: Callable[[Any, Any, Tell], Any], pieces: Sequence[Any],
        costs: Sequence[float], on_share: Tell | None = None,
    ) -> list[Any]:  # fmt: skip
        """`work(known, piece, tell)` of all pieces, which costs so many numbers to be updated.

        It stands at the top of a module; `on_share` hears the share of everything that is done.
        """
        total = sum(costs)
        apart = self.jobs > 1 and len(pieces) > 1 and total >= HEAVY
        pool = (self._pool or self._start()) if apart else None
        self._done.value = 0.0

        def report() -> None:
            if on_share is not None:
                on_share(self._done.value / total)

        if pool is None:
            both = zip(pieces, costs, strict=True)
            return [work(self.known, piece, _telling(self._done, c, report)) for piece, c in both]
        with deaf():
            # The longest first, so that no process is left alone with one at the end.
            order = sorted(range(len(pieces)), key=lambda i: -costs[i])
            sent = {i: pool.submit(_work, work, pieces[i], costs[i]) for i in order}
        futures = [sent[i] for i in range(len(pieces))]
        while wait(futures, timeout=0.5, return_when="FIRST_EXCEPTION").not_done:
            report()
            if any(future.done() and future.exception() for future in futures):
                break
        return [future.result() for future in futures]

    def _start(self) -> ProcessPoolExecutor:
        self._done = multiprocessing.get_context("spawn").Value("d", 0.0)
        pool = processes(self.jobs, _know, (pack(self.known), self._done))
        self._pool = self._stack.enter_context(pool)
        return self._pool


@contextmanager
def in_parallel(known: Any, jobs: int) -> Iterator[Workers]:
    """Workers whose processes, if there are any, end with the block."""
    with ExitStack() as stack:
        yield Workers(known, jobs, stack)


def _telling(done: Any, cost: float, report: Callable[[], None] = lambda: None) -> Tell:
    """Adds what is done of a piece to the work of all processes."""
    before = 0.0

    def tell(share: float) -> None:
        nonlocal before
        with done.get_lock():
            done.value += (share - before) * cost
        before = share
        report()

    return tell


def _know(known: Packed, done: Any) -> None:
    threadpool_limits(1)
    _here.update(known=known.unpack(), done=done)


def _work(work: Callable[[Any, Any, Tell], Any], piece: Any, cost: float) -> Any:
    return work(_here["known"], piece, _telling(_here["done"], cost))

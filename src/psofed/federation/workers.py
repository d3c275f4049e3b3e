"""Worker processes that end with the process that started them, and what is sent to them."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from threading import current_thread, main_thread
from typing import Any

from threadpoolctl import threadpool_limits

from psofed.errors import InputError
from psofed.federation.plugins import Plugin, execute, from_package, loaded


@contextmanager
def processes(
    jobs: int, begin: Callable[..., None], arguments: tuple[Any, ...] = ()
) -> Iterator[ProcessPoolExecutor]:
    """A pool of new processes; on Ctrl-C, SIGTERM or an error they end before this one does."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, begin, arguments)
    with _handled(_stop, signal.SIGTERM):  # it unwinds like Ctrl-C, so that all is cleaned up
        try:
            yield pool
        except BaseException:
            for number in list(getattr(pool, "_processes", None) or {}):
                with suppress(OSError):
                    os.kill(
                        number, getattr(signal, "SIGKILL", signal.SIGTERM)
                    )  # it may be too new to handle another
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Processes that are started in here ignore Ctrl-C: the process that started them decides.

    They inherit a mask that blocks it. Here signals are heard after the block, so that no process
    is half started when interrupted.
    """
    heard: list[int] = []
    if not hasattr(signal, "pthread_sigmask"):  # a system without POSIX
        yield
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _handled(lambda number, frame: heard.append(number), signal.SIGINT, signal.SIGTERM):
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if heard:
        raise KeyboardInterrupt


@contextmanager
def _handled(handler: Callable[[int, Any], None], *signals: int) -> Iterator[None]:
    """These signals are handled in this way, where a thread may say so."""
    if current_thread() is not main_thread():
        yield
        return
    before = [signal.signal(each, handler) for each in signals]
    try:
        yield
    finally:
        for each, handled in zip(signals, before, strict=True):
            signal.signal(each, handled)


def _stop(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


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
    """`thing` with the plug-ins whose classes and functions are in it."""
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
    here = loaded[from_package(plugin.module).__name__]
    if here.digest != plugin.digest:
        found = f"{plugin.module} of a worker, {here.path}, is not the one of {plugin.path}"
        raise InputError("", found, "install the same everywhere, or use one file")


Tell = Callable[[float], None]  # the share of a piece that is done
HEAVY = 5e8  # numbers to be updated, above which processes save time
_known: list[Any] = []  # in a process of `Workers`: what it knows


class Workers:
    """Work on pieces of one thing, in this process or on up to `jobs` others that know it.

    In processes, because the products of one round of theory are so small that two threads spend a
    third of their time waiting for the interpreter's lock. They are started once there is enough
    to do.
    """

    def __init__(self, known: Any, jobs: int, stack: ExitStack) -> None:
        self.known, self.jobs, self._stack = known, jobs, stack
        self._pool: ProcessPoolExecutor | None = None

    def work(
        self, work: Callable[[Any, Any, Tell], Any], pieces: Sequence[Any],
        costs: Sequence[float], on_share: Tell | None = None,
    ) -> list[Any]:  # fmt: skip
        """`work(known, piece, tell)` of all pieces; `costs` are numbers to be updated in each.

        It stands at the top of a module; `on_share` hears the share of everything that is done.
        """
        total, done, report = sum(costs), 0.0, on_share or _nothing
        if self.jobs == 1 or len(pieces) == 1 or total < HEAVY:
            found = []
            for piece, cost in zip(pieces, costs, strict=True):

                def tell(share: float, done: float = done, cost: float = cost) -> None:
                    report((done + share * cost) / total)

                found.append(work(self.known, piece, tell))
                done += cost
            return found
        pool = self._pool or self._start()
        with interrupts_ignored():
            # The longest first, so that no process is left alone with one at the end.
            order = sorted(range(len(pieces)), key=lambda i: -costs[i])
            sent = {pool.submit(_work, work, pieces[i]): i for i in order}
        results = {}
        for future in as_completed(sent):
            results[sent[future]] = future.result()
            done += costs[sent[future]]
            report(done / total)
        return [results[i] for i in range(len(pieces))]

    def _start(self) -> ProcessPoolExecutor:
        self._pool = self._stack.enter_context(processes(self.jobs, _know, (pack(self.known),)))
        return self._pool


@contextmanager
def in_parallel(known: Any, jobs: int) -> Iterator[Workers]:
    """Workers whose processes, if there are any, end with the block."""
    with ExitStack() as stack:
        yield Workers(known, jobs, stack)


def _know(known: Packed) -> None:
    threadpool_limits(1)
    _known[:] = [known.unpack()]


def _work(work: Callable[[Any, Any, Tell], Any], piece: Any) -> Any:
    return work(_known[0], piece, _nothing)


def _nothing(share: float) -> None:
    pass

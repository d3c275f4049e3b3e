"""Several pieces of theory at once: in processes, because threads wait for each other.

The products of one round are so small that two threads spend a third of their time waiting for the
interpreter's lock. The processes are started once, when there is enough to do, and know the world.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

from psofed.workers import deaf, processes

Tell = Callable[[float], None]  # the share of a piece that is done
Work = Callable[[Any, Any, Tell], Any]  # (what is known, the piece, tell): at the top of a module
PIECES = 1000  # at once, at most
HEAVY = 5e8  # numbers to be updated, above which processes save time

_here: dict[str, Any] = {}


class Piece(NamedTuple):
    """What to work on, and how long that takes: numbers to be updated."""

    what: Any
    cost: float


class Staff:
    """Works on pieces, in this process or on up to `jobs` others."""

    def __init__(self, known: Any, jobs: int, stack: ExitStack) -> None:
        self.known, self.jobs, self._stack = known, jobs, stack
        self._pool: ProcessPoolExecutor | None = None
        self._shares: Any = None

    def work(
        self, work: Work, pieces: Sequence[Piece], on_share: Callable[[float], None] | None = None
    ) -> list[Any]:
        """The results in the order of the pieces; `on_share` hears the share that is done."""
        total = sum(piece.cost for piece in pieces)
        if self.jobs > 1 and 1 < len(pieces) <= PIECES and total >= HEAVY:
            return self._in_processes(work, pieces, total, on_share)
        done, before = [], 0.0
        for piece in pieces:

            def tell(share: float, before: float = before, cost: float = piece.cost) -> None:
                if on_share is not None:
                    on_share((before + share * cost) / total)

            done.append(work(self.known, piece.what, tell))
            before += piece.cost
        return done

    def _in_processes(
        self, work: Work, pieces: Sequence[Piece], total: float, on_share: Any
    ) -> list[Any]:
        pool = self._pool or self._start()
        with deaf():
            # The longest first, so that no process is left alone with one at the end.
            order = sorted(range(len(pieces)), key=lambda i: -pieces[i].cost)
            self._shares[: len(pieces)] = [0.0] * len(pieces)
            sent = {i: pool.submit(_work, work, i, pieces[i].what) for i in order}
        futures = [sent[i] for i in range(len(pieces))]
        while wait(futures, timeout=0.5, return_when="FIRST_EXCEPTION").not_done:
            if on_share is not None:
                shares = zip(self._shares[: len(pieces)], pieces, strict=True)
                on_share(sum(share * piece.cost for share, piece in shares) / total)
            if any(future.done() and future.exception() for future in futures):
                break
        return [future.result() for future in futures]

    def _start(self) -> ProcessPoolExecutor:
        self._shares = multiprocessing.get_context("spawn").Array("d", PIECES)
        pool = processes(self.jobs, _begin, (self.known, self._shares))
        self._pool = self._stack.enter_context(pool)
        return self._pool


@contextmanager
def staff(known: Any, jobs: int) -> Iterator[Staff]:
    """A staff whose processes, if it needs any, end with the block."""
    with ExitStack() as stack:
        yield Staff(known, jobs, stack)


def _begin(known: Any, shares: Any) -> None:
    threadpool_limits(1)
    _here.update(known=known, shares=shares)


def _work(work: Work, index: int, what: Any) -> Any:
    shares = _here["shares"]

    def tell(share: float) -> None:
        shares[index] = share

    return work(_here["known"], what, tell)

"""Rules 10 and 11: each answer is checked completely, then all are folded in client order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from psofed.federation.contract import Array, Method, State, rows
from psofed.federation.plugins import brief
from psofed.federation.round import close_round, closes
from psofed.federation.stage import within
from psofed.fleet.protocol.masking import GARBAGE, Unmasking, Uploads
from psofed.fleet.protocol.server_state import ServerState, model
from psofed.fleet.protocol.wire import RefusedError
from psofed.stages.attacks.contract import Attacked
from psofed.stages.defences.contract import OWN, Defended

BOUND = 1e9  # two finite uploads of 1.7e308 sum to infinity; no real model has such values


def values_of(
    now: ServerState, k: int, answer: bytes, bound: float, hidden: bool = False
) -> Array | None:
    """The values of an answer of client k, if each is finite, bounded and can be folded in.

    None: it has none. Of an upload that is `hidden` by masks, nothing is known.
    """
    uploads, n = closes(now.method, now.n), now.n
    if not answer and not (uploads and within(now.method).entrywise):
        return None
    try:
        if not uploads or not answer:
            raise ValueError(f"in round {n} there must be {'some' if uploads else 'none'}")
        with np.errstate(invalid="ignore"):  # a signalling NaN is refused below
            values = now.method.decode(answer, up=True)
    except Exception as error:  # whatever a decoder says of bytes that are not its own
        raise RefusedError("size", f"client {k} sent {len(answer)} bytes: {brief(error)}") from None
    if not np.isfinite(values).all():
        raise RefusedError("finite", f"client {k} sent values that are not finite")
    if not hidden and _largest(now, k, values, bound) > bound:
        raise RefusedError("bound", f"client {k} sent values above {bound:g}")
    return values


def _largest(now: ServerState, k: int, values: Array, bound: float) -> float:
    """The largest of the values or, if they are no entries of a model, of the model they give."""
    largest, row = float(np.abs(values).max(initial=0)), now.table.row(k)
    if row is None or largest > bound or (now.method.entrywise and "w" in now.state):
        return largest
    try:
        found = model(now.method, one_of(now, row, values))
        return largest if found is None else float(np.abs(found).max(initial=0))
    except Exception as error:
        raise RefusedError("values", f"client {k} sent unusable values: {brief(error)}") from None


@dataclass(frozen=True, eq=False)
class Folded:
    """What became of the uploads of a round: the new state, and whose were in it, by row."""

    state: State
    rows: list[int]
    left_out: list[int]  # answered, but could not be folded in with the others
    void: str = ""  # why nothing was folded in, of a masked round
    why: str = ""  # what was wrong with the first who was left out


def all_of(now: ServerState, uploads: Uploads) -> Folded:
    """The state after the open round, and who had to be left out.

    Whatever a fold raises, no client can end a server in this way, also not after its next start:
    first those are left out that cannot be folded in alone, and if the others give no finite model
    together, the largest, and the next largest, until they do.
    """
    left, why = dict(uploads), ""
    largest = sorted(uploads, key=lambda row: (_size(uploads[row]), row))
    for tried in range(len(uploads) + 2):
        try:
            state = folded(now.method, now.copied(), now.n, left)
            out = [row for row in uploads if row not in left]
            return Folded(state, list(left), out, why=why)
        except Exception as error:
            why = why or brief(error)
            if not tried:
                left = {row: values for row, values in left.items() if _alone(now, row, values)}
                largest = [row for row in largest if row in left]
            elif largest:
                del left[largest.pop()]
    return Folded(now.copied(), [], list(uploads), why=why)


def _alone(now: ServerState, row: int, values: Array | None) -> bool:
    """Whether an upload can be folded in if there is no other."""
    try:
        folded(now.method, now.copied(), now.n, {row: values})
    except Exception:
        return False
    return True


def sum_of(now: ServerState, uploads: Uploads, masks: Unmasking, answered: Sequence[int]) -> Folded:
    """Rule 19: the state after the open round, with the sum of all or without any."""
    try:
        opened, void = masks.opened(uploads, answered)
        state = folded(now.method, now.copied(), now.n, opened, np.float64)
    except Exception:
        opened, void = {}, GARBAGE
        state = all_of(now, opened).state
    return Folded(state, list(opened), [row for row in uploads if row not in opened], void)


def one_of(now: ServerState, row: int, values: Array) -> State:
    """The state had only this one been folded in, without what a defence would make of it."""
    method = now.method
    while isinstance(method, Attacked | Defended):
        method = method.inner
    state = {name: array.copy() for name, array in now.own.items()}
    return folded(method, state, now.n, {row: values})


def folded(method: Method, state: State, n: int, uploads: Uploads, dtype: Any = None) -> State:
    """This state, in which the uploads are folded; ValueError: it is not finite any more."""
    message = rows(list(uploads.values()), dtype or method.task.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        close_round(method, state, np.array(list(uploads), np.intp), n, message)
    if not all(np.isfinite(a).all() for name, a in state.items() if not name.startswith(OWN)):
        raise ValueError("the model would not be finite")
    return state


def _size(values: Array | None) -> float:
    return 0.0 if values is None else float(np.abs(values).max(initial=0))

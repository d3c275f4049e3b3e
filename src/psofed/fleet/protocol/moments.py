"""The moments of a client's mix, in files of their own: they are large, and each label changes all.

A (core/alone.py) has (d + L + 1)^2 numbers, 340 kB for D = 200; a record would wear out flash. So a
record holds the samples that were learned since A was last written, from which a start adds them up
and solves again, to the last bit. A is written when so many bytes of samples have been: whatever
comes, that is at most twice the least. Two generations of A are kept, so that both generations of
the record find theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from psofed.core import alone
from psofed.core.native import Array
from psofed.federation.contract import Method, State
from psofed.federation.records import restored, taken
from psofed.fleet.protocol.store import Store
from psofed.stages.mix import HEAVY, NAME

SLOTS = ("moments.0", "moments.1")
A, Q = HEAVY
W = NAME + "w"  # what they give
APART = (A, Q, W, NAME + "start")  # what a record does not have, but these files
NONE = -2  # labels: what is on disk is not that of now, whatever comes
COUNT, LABELS = NAME + "numbers", NAME + "past"


class Sums:
    """What the mix of one client has added up, and of which samples since it was written."""

    def __init__(self, method: Method, mix: Any, store: Store) -> None:
        self.method, self.mix, self.store = method, mix, store
        self.base = 0  # labels that are in the moments on disk; of none, there need not be any
        self.due = 1  # with how many labels the equations were to be solved when that was written
        self.spent = 0  # bytes of samples that were written since
        self.since: list[Array] = []  # x and y of the labels after those
        self.settled = True  # whether a record that goes on from these moments is durable

    def note(self, state: State, x: Array) -> None:
        """A sample that was offered to the mix; a check may have kept it from that."""
        count = int(state[COUNT][0, 0])
        if count == self.base + len(self.since) + 1:
            y = state[LABELS][0, (count - 1) % state[LABELS].shape[1]]
            self.since.append(np.append(x.astype(np.float64), y))

    def rewind(self, state: State) -> None:
        """The client has started over, or goes on from before a round that has not happened."""
        count = int(state[COUNT][0, 0])
        if count < self.base or not count:
            self.base, self.since = NONE, []
        del self.since[max(count - self.base, 0) :]

    def split(self, arrays: dict[str, Array], state: State) -> dict[str, Array]:
        """What a record holds: no moments, but the samples since they were written."""
        count = int(state[COUNT][0, 0])
        whole = sum(state[name].nbytes for name in APART)
        if count != self.base + len(self.since) or self.spent > whole:
            if not self.settled:  # those before the last ones are still needed
                self.store.sequence -= 1
            self.settled = False
            self.store.save({f"state.{name}": state[name] for name in APART})
            self.base, self.since, self.spent = count, [], 0
            self.due = int(state[COUNT][0, 1])
        since = np.array(self.since).reshape(-1, self.method.task.taps + 1)
        light = {k: array for k, array in arrays.items() if k.removeprefix("state.") not in APART}
        self.spent += since.nbytes
        numbers = np.array([self.base, self.store.sequence, self.due], np.int64)
        return light | {"moments": numbers, "moments.since": since}

    def restore(self, state: State, arrays: dict[str, Array]) -> str:
        """The moments of a record that was loaded; what was lost, in words."""
        if "moments" not in arrays:  # they are in it, as they once were
            self.base = NONE
            return ""
        task, found = self.method.task, {name: np.zeros_like(state[name]) for name in APART}
        self.base, sequence, self.due = taken(arrays, "moments", np.int64, (3,), 0).tolist()
        since = taken(arrays, "moments.since", np.float64, (None, task.taps + 1), -np.inf, np.inf)
        generations = {record.sequence: record for record in self.store.generations()}
        self.store.sequence = sequence  # the next ones replace others than these
        if sequence:
            if sequence not in generations:
                state[COUNT][0], self.base = (0, 1), NONE
                return "the moments of the mix are lost: line and ridge regression start over"
            found = restored(found, generations[sequence].arrays)
        state.update(found)
        due = self.due
        for count, row in enumerate(since, self.base + 1):
            x = row[None, :-1].astype(task.dtype)
            u = alone.inputs(task.features(x), x, self.mix.size)[0]
            state[A][0] += np.outer(u, u)
            state[Q][0] += float(row[-1]) * u  # as mix.py does, in its type
            if count >= due:
                state[W][0] = alone.solved(state[A][0], state[Q][0], task.taps)
                due = alone.due(count)
        self.since = list(since)
        return ""

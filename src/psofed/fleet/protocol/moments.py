"""The moments of a client's mix, in files of their own: they are large, and each label changes all.

A (core/alone.py) has (d + L + 1)^2 numbers, 340 kB for D = 200; a record would wear out flash. So a
record holds the samples that were learned since A was last written, from which a start adds them up
again, to the last bit. A is written when they are a sixteenth of its size. Two generations of it
are kept, so that both generations of the record find theirs.
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
SHARE = 16  # samples may take this part of the size of A
COUNT, LABELS = NAME + "numbers", NAME + "past"


class Sums:
    """What the mix of one client has added up, and of which samples since it was written."""

    def __init__(self, method: Method, mix: Any, store: Store) -> None:
        self.method, self.mix, self.store = method, mix, store
        self.base = 0  # labels that are in the moments on disk; of none, there need not be any
        self.since: list[Array] = []  # x and y of the labels after those
        self.settled = True  # whether a record that goes on from these moments is durable
        row, length = method.task.taps + 1, self.mix.size + method.task.taps + 1
        self.most = max(length * length // (SHARE * row), 1)

    def note(self, state: State, x: Array) -> None:
        """A sample that was offered to the mix; a check may have kept it from that."""
        count = int(state[COUNT][0, 0])
        if count == self.base + len(self.since) + 1:
            y = state[LABELS][0, (count - 1) % state[LABELS].shape[1]]
            self.since.append(np.append(x.astype(np.float64), y))

    def rewind(self, state: State) -> None:
        """The client has begun anew, or goes on from before a round that has not happened."""
        count = int(state[COUNT][0, 0])
        if count < self.base:
            self.base = 0
        del self.since[count - self.base :]

    def split(self, arrays: dict[str, Array], state: State) -> dict[str, Array]:
        """What a record holds: no moments, but the samples since they were written."""
        count = int(state[COUNT][0, 0])
        if count != self.base + len(self.since) or len(self.since) > self.most:
            if not self.settled:  # those before the last ones are still needed
                self.store.sequence -= 1
            self.settled = False
            self.store.save({f"state.{name}": state[name] for name in HEAVY})
            self.base, self.since = count, []
        since = np.array(self.since).reshape(-1, self.method.task.taps + 1)
        light = {k: array for k, array in arrays.items() if k.removeprefix("state.") not in HEAVY}
        numbers = np.array([self.base, self.store.sequence], np.int64)
        return light | {"moments": numbers, "moments.since": since}

    def restore(self, state: State, arrays: dict[str, Array]) -> str:
        """The moments of a record that was loaded; what was lost, in words."""
        if "moments" not in arrays:  # they are in it, as they once were
            self.base = -1
            return ""
        task, found = self.method.task, {name: np.zeros_like(state[name]) for name in HEAVY}
        self.base, sequence = taken(arrays, "moments", np.int64, (2,), 0).tolist()
        since = taken(arrays, "moments.since", np.float64, (None, task.taps + 1), -np.inf, np.inf)
        generations = {record.sequence: record for record in self.store.generations()}
        self.store.sequence = sequence  # the next ones replace others than these
        if self.base:
            if sequence not in generations:
                state[COUNT][0], self.base = (0, 1), 0
                return "the moments of the mix are lost: line and ridge regression begin anew"
            found = restored(found, generations[sequence].arrays)
        state.update(found)
        for row in since:
            x = row[None, :-1].astype(task.dtype)
            u = alone.inputs(task.features(x), x, self.mix.size)[0]
            state[HEAVY[0]][0] += np.outer(u, u)
            state[HEAVY[1]][0] += float(row[-1]) * u  # as mix.py does, in its type
        self.since = list(since)
        return ""

"""A fleet that changes, in one run of a method: who begins anew, what is put back, what is void."""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from dataclasses import replace

import numpy as np

from psofed.core.fleet import Change, Chronicle
from psofed.core.schedule import Indices
from psofed.methods import checked
from psofed.methods.client_rows import cleared, row_axes
from psofed.methods.contract import Array, Method, State
from psofed.methods.members import RoundSamples


class Membership:
    """The history of a fleet, as it happens to the server's state and to the terms of clients."""

    def __init__(self, method: Method, history: Chronicle, server: State) -> None:
        self.method, self.history, self.server = method, history, server
        self.fresh = method.server()
        self.axes = row_axes(self.fresh, _larger(method).server())
        self.waiting: set[int] = set()  # those who begin anew at their next contact
        self.since = np.zeros(history.everybody, np.intp)  # the first round that each learns from
        self.begun = np.arange(history.everybody) < history.clients  # those who have a model
        self.kept: dict[int, State] = {}  # of rounds whose state is put back later
        self.restores = {c.round: c for c in history.changes if c.restore is not None}
        self.needed = {change.restore for change in self.restores.values()}
        self.terms: dict[int, list[int]] = {}  # by round, those who begin anew from it on
        for k in range(history.everybody):
            for n in history.begins(k):
                self.terms.setdefault(n, []).append(k)

    def turn(self, n: int) -> bool:
        """What changes before round n; whether it takes place, and is not void."""
        if n in self.needed:  # as it is before the changes of this round
            whole = (name for name in self.server if name not in self.axes)
            self.kept[n] = {name: self.server[name].copy() for name in whole}
        if n in self.restores:
            self._put_back(self.restores[n])
        new = self.terms.get(n, [])
        self.waiting.update(new)
        cleared(self.server, self.fresh, self.axes, new)
        return n not in self.history.void

    def _put_back(self, change: Change) -> None:
        """The server's state becomes an older one, but for what it knows of each client."""
        assert change.restore is not None
        for name, array in self.kept[change.restore].items():
            self.server[name][...] = array
        if not change.keep:
            for name in self.axes:
                self.server[name][...] = self.fresh[name]

    def begin(self, n: int, members: Indices) -> Collection[int]:
        """Those of the members of round n who begin anew; the round is their first."""
        new = self.waiting.intersection(members.tolist()) if self.waiting else set()
        self.waiting -= new
        for k in new:
            self.since[k], self.begun[k] = n, True
        return new

    def conserve(self, clients: State, stop: int) -> None:
        """Samples seen = learned + clipped + refused, by client, where all learn in every round."""
        counts = checked.counts(clients)
        if self.method.idle and counts is not None:
            seen = np.where(self.begun, stop - self.since, 0)
            assert (counts.sum(axis=-1) == seen).all()


def _larger(method: Method) -> Method:
    """The method with a place for one more client."""
    more = copy(method)
    more.task = replace(method.task, room=method.task.places + 1)
    return more


class SinceBegun:
    """The samples of those who have a model: who joins learns from its first contact on."""

    def __init__(self, samples: RoundSamples, begun: Array) -> None:
        self.samples, self.begun = samples, begun

    def known(self, n: int) -> Indices | None:
        known = self.samples.known(n)
        if self.begun.all():
            return known
        return np.flatnonzero(self.begun) if known is None else known[self.begun[known]]

    def of(self, n: int, clients: Indices | None) -> tuple[Array, Array, Array]:
        return self.samples.of(n, clients)

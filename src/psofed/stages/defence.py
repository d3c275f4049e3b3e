"""The defence at the fold: w_{n+1} = w_n + sum_k a_k U_k, with the U_k that a defence leaves.

Where uploads are entries of a model, the entries themselves are replaced: the server's plus what is
left of the change. Other uploads are weighed: a_k times what is left of U_k along U_k.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from psofed.core import equations
from psofed.core.schedule import Indices
from psofed.federation.contract import Array, Message, Method, State
from psofed.federation.stage import Stage
from psofed.stages.defences.contract import Defence, Opinion

OWN = "defence."  # before the names of the defence's arrays, in the server's state


class Defended(Stage):
    """What the server folds in after a defence has looked at it."""

    def __init__(self, inner: Method, defence: Defence) -> None:
        super().__init__(inner)
        self.defence = defence
        self.several = self.several and inner.entrywise  # else each upload is folded by itself

    def server(self) -> State:
        """The state of the method, and of the defence."""
        own = {OWN + name: array for name, array in self.defence.start().items()}
        return self.inner.server() | own

    def resize(self) -> None:
        self.defence = copy(self.defence)
        self.defence.setting = replace(self.defence.setting, places=self.task.places)

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """The fold of the method, with what the defence leaves of the uploads."""
        if message.heard.any():
            if self.inner.entrywise:
                message = self._entrywise(server, k, n, message)
            else:
                weights = self._weighed(server, k, n, message, weights)
        self.inner.fold(server, k, n, message, weights)

    def _entrywise(self, server: State, k: Indices, n: int, message: Message) -> Message:
        """The uploads with the entries that are left of them."""
        entries, values = self.inner.entries(k, n, up=True), message.values
        base = equations.share(server["w"], entries)
        with np.errstate(over="ignore", invalid="ignore"):
            changes = values - base
            left = self._left(_own(server), k, n, changes, entries, message.heard)
        # Where nothing was changed, the values as they came: base + (v - base) may round.
        kept = np.where(left == changes, values, base + left).astype(values.dtype, copy=False)
        return Message(kept, message.length)

    def _left(
        self, state: State, k: Indices, n: int, changes: Array, entries: Indices, heard: Array
    ) -> Array:
        """What the defence leaves; where some members sent nothing, of the others."""
        if heard.all():
            return self.defence.defended(state, n, k, changes, entries)
        left = changes.copy()
        for r in np.ndindex(k.shape[:-1]):
            if (here := heard[r]).any():
                some = k[r][here], changes[r][here], entries[r][here]
                left[r][here] = self.defence.defended(_views(state, r), n, *some)
        return left

    def _weighed(
        self, server: State, k: Indices, n: int, message: Message, weights: Array
    ) -> Array:
        """a_k times <left of U_k, U_k> / <U_k, U_k>."""
        heard = np.flatnonzero(message.heard)
        changes = np.stack([change(self.inner, server, k, n, message, i) for i in heard.tolist()])
        entries = np.broadcast_to(np.arange(changes.shape[1]), changes.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            left = self.defence.defended(_own(server), n, k[heard], changes, entries)
            size = np.vecdot(changes, changes)
            along = np.where(size > 0, np.vecdot(left, changes) / np.where(size > 0, size, 1), 1.0)
        same = (left == changes).all(axis=1)
        weights = weights.copy()
        weights[heard] *= np.where(same, 1.0, along)
        return weights

    def passes(self, server: State, k: Indices, n: int, models: Array) -> Array:
        """Which members [..., s] could upload from such models [..., s, D], and be folded whole."""
        if not self.inner.entrywise:
            return np.ones(k.shape, bool)
        entries = self.inner.entries(k, n, up=True)
        U = np.take_along_axis(models, entries, axis=-1) - equations.share(server["w"], entries)
        state = _own(server)
        found = np.empty(k.shape, bool)
        for r in np.ndindex(k.shape[:-1]):
            found[r] = self.defence.passes(_views(state, r), k[r], U[r], entries[r])
        return found

    def opinion(self, server: State) -> Opinion | None:
        """What the defence thinks of each client."""
        return self.defence.opinion(_own(server))


def _own(server: State) -> State:
    """The arrays of the defence, which it changes in place."""
    return {name[len(OWN) :]: a for name, a in server.items() if name.startswith(OWN)}


def _views(state: State, run: tuple[int, ...]) -> State:
    """The arrays of one run; an ellipsis keeps numbers as views, so that they can change."""
    here: Any = (*run, ...)
    return {name: array[here] for name, array in state.items()}


def change(method: Method, server: State, k: Indices, n: int, message: Message, i: int) -> Array:
    """U_k: how the upload of member i alone would change the server's model, with weight 1."""
    alone = {name: array.copy() for name, array in server.items()}
    one = Message(message.values[i : i + 1], message.length[i : i + 1])
    method.fold(alone, k[i : i + 1], n, one, np.ones(1, message.values.dtype))
    return (alone["w"] - server["w"]).astype(np.float64)

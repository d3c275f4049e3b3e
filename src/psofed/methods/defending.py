"""The defence at the fold: w_{n+1} = w_n + sum_k a_k U_k, with the U_k that a defence leaves.

Where uploads are entries of a model, the entries themselves are replaced: the server's plus what is
left of the change. Other uploads are weighed: a_k times what is left of U_k along U_k.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from psofed.core import equations
from psofed.core.schedule import Indices
from psofed.defences.contract import Defence, Opinion
from psofed.methods.contract import Array, Message, Method, Rows, State, stack

Uploads = Mapping[int, Message]
Weights = Mapping[int, float]


class Defended:
    """What the server folds in after a defence has looked at it; `state` is the defence's."""

    def __init__(self, method: Method, defence: Defence, runs: int = 0) -> None:
        self.method, self.defence = method, defence
        alone = defence.start()
        self.state = {name: np.stack([a] * runs) for name, a in alone.items()} if runs else alone

    def fold(self, server: State, n: int, uploads: Uploads, weights: Weights) -> None:
        """The fold of the method, with what the defence leaves of the uploads."""
        ks, values, _ = stack(uploads, weights)
        if len(ks) and self.method.entrywise:
            uploads = self._entrywise(server, n, uploads, ks, values)
        elif len(ks):
            weights = self._weighed(server, n, uploads, weights)
        self.method.fold(server, n, uploads, weights)

    def _entrywise(self, server: State, n: int, uploads: Uploads, ks: Any, values: Any) -> Uploads:
        """The uploads with the entries that are left of them."""
        entries = self.method.entries(ks, np.asarray(n), True)
        base = equations.share(server["w"], entries)
        sent = uploads.sent if isinstance(uploads, Rows) else None
        with np.errstate(over="ignore", invalid="ignore"):
            changes = values - base
            left = self._left(n, ks, changes, entries, sent)
        # Where nothing was changed, the values as they came: base + (v - base) may round.
        kept = np.where(left == changes, values, base + left).astype(values.dtype, copy=False)
        if isinstance(uploads, Rows):
            return Rows(uploads.clients, kept, sent)
        heard = dict(zip(ks.tolist(), kept, strict=True))
        return {k: heard.get(k, message) for k, message in uploads.items()}

    def _left(self, n: int, ks: Any, changes: Array, entries: Indices, sent: Any) -> Array:
        """What the defence leaves; of several runs in which some members sent nothing, by run."""
        if sent is None:
            return self.defence.defended(self.state, n, ks, changes, entries)
        left = changes.copy()
        for r, here in enumerate(sent):
            if here.any():
                state = {name: array[r, ...] for name, array in self.state.items()}
                some = ks[r][here], changes[r][here], entries[r][here]
                left[r][here] = self.defence.defended(state, n, *some)
        return left

    def _weighed(self, server: State, n: int, uploads: Uploads, weights: Weights) -> Weights:
        """a_k times <left of U_k, U_k> / <U_k, U_k>."""
        heard = {k: m for k, m in uploads.items() if m is not None and len(m)}
        ks = np.array(list(heard))
        changes = np.stack([self._change(server, n, k, m) for k, m in heard.items()])
        entries = np.broadcast_to(np.arange(changes.shape[1]), changes.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            left = self.defence.defended(self.state, n, ks, changes, entries)
            size = np.vecdot(changes, changes)
            along = np.where(size > 0, np.vecdot(left, changes) / np.where(size > 0, size, 1), 1.0)
        same = (left == changes).all(axis=1)
        parts = dict(zip(ks.tolist(), np.where(same, 1.0, along).tolist(), strict=True))
        return {k: a * parts.get(k, 1.0) for k, a in weights.items()}

    def _change(self, server: State, n: int, k: int, message: Message) -> Array:
        alone = {name: array.copy() for name, array in server.items()}
        self.method.fold(alone, n, {k: message}, {k: 1.0})
        return (alone["w"] - server["w"]).astype(np.float64)

    def passes(self, server: State, n: int, k: Indices, models: Array) -> Array:
        """Which members [..., s] could upload from such models [..., s, D], and be folded whole."""
        if not self.method.entrywise:
            return np.ones(k.shape, bool)
        entries = self.method.entries(k, np.asarray(n), True)
        U = np.take_along_axis(models, entries, axis=-1) - equations.share(server["w"], entries)
        if k.ndim == 1:
            return self.defence.passes(self.state, k, U, entries)
        states = [{name: a[r, ...] for name, a in self.state.items()} for r in range(len(k))]
        rows = zip(states, k, U, entries, strict=True)
        return np.stack([self.defence.passes(*one) for one in rows])

    def opinion(self) -> Opinion | None:
        """What the defence thinks of each client."""
        return self.defence.opinion(self.state)


def defended(method: Method, runs: int = 0) -> Defended | None:
    """The same for a method whose task has a defence; None if it has none, or sees to it itself."""
    defence = method.task.defence
    if defence is None or defence.options.name in method.defends:
        return None
    return Defended(method, defence, runs)

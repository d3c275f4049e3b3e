"""Averaging: a method that is judged by a weighted mean of its models. It costs no bytes."""

from __future__ import annotations

from psofed.core.schedule import Indices
from psofed.federation.contract import Array, Message, State
from psofed.federation.stage import Stage


class Average(Stage):
    """The average of Shamir and Zhang (2013): v_{n+1} = v_n + (w_{n+1} - v_n) 4 / (n + 4).

    In it model n weighs as n^3, so that the last fifth of the rounds has more than half of the
    weight.
    """

    def server(self) -> State:
        """The state of the method, and v."""
        return self.inner.server() | {"average": self.task.initial()}

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """The fold of the method, then v."""
        self.inner.fold(server, k, n, message, weights)
        v = server["average"]
        v += (self.inner.models(server, {}) - v) * v.dtype.type(4 / (n + 4))

    def models(self, server: State | None, clients: State) -> Array:
        """v."""
        return self.inner.models(None, clients) if server is None else server["average"]

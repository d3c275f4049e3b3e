"""Averaging: the same method, judged by a weighted mean of its models."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from psofed.methods.messages import Array, Message, State


@cache
def averaged(plain: Any) -> Any:
    """The same method, judged by an average of its models. It costs D numbers and no bytes.

    The average of Shamir and Zhang (2013): v_{n+1} = v_n + (w_{n+1} - v_n) 4 / (n + 4), in which
    model n weighs as n^3, so that the last fifth of the rounds has more than half of the weight.
    """

    class Averaged(plain):  # type: ignore[misc]
        stacked, lazy, foresees = plain.stacked, plain.lazy, plain.foresees
        compiled, entrywise = plain.compiled, plain.entrywise
        restless = averages = True

        def server(self) -> State:
            """The state of the method, and v."""
            state: State = super().server() | {"average": self.task.initial()}
            return state

        def fold(
            self,
            server: State,
            n: int,
            uploads: Mapping[int, Message],
            weights: Mapping[int, float],
        ) -> None:
            """The fold of the method, then v."""
            super().fold(server, n, uploads, weights)
            v = server["average"]
            v += (super().models(server, {}) - v) * v.dtype.type(4 / (n + 4))

        def models(self, server: State, clients: State) -> Array:
            """v."""
            return server["average"]

        def unaveraged(self, server: State) -> Array:
            """The model that is averaged."""
            model: Array = super().models(server, {})
            return model

    return Averaged

"""What MEMO-Fed forgets: the same part of everything in every round.

`adapting.py` has the other form, in which the data decide.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.schedule import Indices

Array = NDArray[Any]
State = dict[str, Array]


class Fixed:
    """n_k <- beta n_k + 1 at the client; the server counts a sample a round."""

    def __init__(self, beta: float, least: int) -> None:
        self.beta, self.least = beta, least

    # The client.

    def client(self, size: int) -> State:
        """What a client keeps for it."""
        return {}

    def of(self, client: State) -> float:
        """The beta of this client."""
        return self.beta

    def drops(self, client: State, u: Array, y: Array) -> int:
        """How many of these samples are dropped, with all before them."""
        return 0

    def receives(self, client: State, lost: bool, drifts: bool) -> None:
        """A download has come; the contact before it may not have counted."""

    def tells(self, client: State) -> bool:
        """An upload leaves: whether with the number of samples."""
        return False

    # The server.

    def server(self, clients: int, size: int) -> State:
        """What the server keeps for it."""
        return {}

    def now(self, server: State) -> float:
        """The beta by which all weights fade from round to round."""
        return self.beta

    def drifts(self, server: State) -> bool:
        """Whether clients are told that f drifts."""
        return False

    def ready(self, server: State, members: Indices, n: int) -> Array:
        """Which of them have enough samples, as far as the server can know."""
        ready: Array = (server["contacts"][members] > 0) | (n + 1 >= self.least)
        return ready

    def waits(self, server: State, k: int, n: int, told: float | None) -> None:
        """A client had too few samples in round n, and may have told how many."""

    def hear(self, server: State, k: int, n: int, told: float | None, drifts: bool) -> float:
        """n_k of a client that has answered in round n, perhaps with its number of samples."""
        return count(self.beta, n + 1)

    def discount(self, server: State) -> None:
        """What is still remembered of clients that have not answered lately may weigh less."""

    def follow(self, server: State, n: int) -> None:
        """The server has a new c."""


def count(beta: float, samples: float) -> float:
    """n_k after a number of samples: the sum of the powers of beta."""
    return float(samples) if beta == 1 else (1 - beta**samples) / (1 - beta)


def lower(server: State, which: Array, part: float) -> None:
    """The weights of these clients become a part of what they were, and the sums with them."""
    less = (1 - part) * server["weight"][which]
    server["weight"][which] -= less
    for name in ("B", "g", "Br"):
        server[f"sum_{name}"] -= np.tensordot(less, server[name][which], 1)

"""FedProx: FedAvg with a pull towards the model that was received.

Source: T. Li, A. K. Sahu, M. Zaheer, M. Sanjabi, A. Talwalkar, V. Smith, "Federated optimization in
heterogeneous networks", MLSys 2020, arXiv 1812.06127.

Faithful: the local loss has the penalty (rho/2) |w_k - w_n|^2, the squared norm, and the server
takes the mean of the models.

Ours: E is a number of samples of a stream, all clients do the same work, and a local problem is
solved by one gradient step a sample; rho = 0.01. The option is `prox`, since mu is the step here.

Unverified: the grid of rho in the original (0.001 to 1) is from memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from psofed.contract import (
    Anchored,
    Array,
    Coded,
    Learns,
    Paced,
    State,
    Task,
    at_least_one,
    equations,
    require,
)


@dataclass(frozen=True)
class FedProx(Paced):
    """The options of FedProx: E and rho."""

    name: ClassVar[str] = "fedprox"
    coded: ClassVar[Coded] = "both"
    sums: ClassVar[bool] = True
    learners: ClassVar[Learns] = "descending"
    local_steps: int = 40  # E, rounds of a block
    prox: float = 0.01  # rho, strength of the pull

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """E and rho."""
        return {**super().choices(dim, rounds), "prox": (0.001, 0.01, 0.1)}

    def describe(self) -> str:
        return f"FedProx E={self.local_steps} rho={self.prox:g}"

    def check(self, dim: int, clients: int) -> None:
        """E is at least 1, rho at least 0."""
        at_least_one(self, "local_steps")
        require(self, "prox", self.prox >= 0, "use 0 or more")


Options = FedProx


class Method(Anchored):
    """w_k <- w_k + mu e g - mu rho (w_k - w_n), both terms at the old w_k; g = z with LMS."""

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.pull = self.times(options.prox, axes=2)  # mu rho

    def learn(self, client: State, x: Array, z: Array, y: Array) -> None:
        """Eq. (5) with the pull."""
        self.pulled(client["w"], client["start"], z, y)

    def pulled(self, w: Array, start: Array, z: Array, y: Array) -> None:
        """The same step of any model."""
        prediction, g = self.learner.both(w, z)
        w += equations.descent(y - prediction, g, self.step) - self.pull * (w - start)

"""Ditto: a personal model of each client, pulled towards the global one.

Source: T. Li, S. Hu, A. Beirami, V. Smith, "Ditto: fair and robust federated learning through
personalization", ICML 2021, arXiv 2012.04221; checked with the authors' code
(github.com/litian96/ditto, flearn/trainers_MTL/ditto.py).

Faithful: the global model is that of FedAvg, on which the personal models have no influence. A
personal model makes a step on each sample of its client, with a proximal pull of strength lambda
towards the global model that came down last; both models learn from the same samples.

Ours: cohorts and one sample a round, as in FedAvg on streams. Clients that are not selected go on
with their personal models, towards the global model of their last contact; in the original only
those who are selected learn. One step size for both models. Whole models are averaged with equal
weights, without the robust averages of the original.

Unverified: the paper's settings, which are not used; that the text of the paper agrees with the
code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from psofed.contract import Anchored, Array, Coded, State
from psofed.rivals import fedprox


@dataclass(frozen=True)
class Ditto(fedprox.Options):
    """E, and the strength lambda of the pull."""

    name: ClassVar[str] = "ditto"
    coded: ClassVar[Coded] = "both"
    sums: ClassVar[bool] = True
    local_steps: int = 1  # E, rounds of a block
    prox: float = 0.01  # lambda, strength of the pull

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """E and lambda."""
        return {**super().choices(dim, rounds), "prox": (0.0001, 0.001, 0.003, 0.01, 0.1)}

    def describe(self) -> str:
        steps = f" E={self.local_steps}" * (self.local_steps > 1)
        return f"Ditto lambda={self.prox:g}{steps}"


Options = Ditto


class Method(fedprox.Method):
    """v_k <- v_k + mu e g - mu lambda (v_k - w), w as it came down to k last; g = z with LMS."""

    idle = True

    def client(self) -> State:
        """w_k, the global model that came down last, and v_k."""
        return super().client() | {"own": self.task.initial()}

    def learn(self, client: State, x: Array, z: Array, y: Array) -> None:
        """A step of w_k, which is uploaded, and one of v_k."""
        self.pulled(client["own"], client["start"], z, y)
        Anchored.learn(self, client, x, z, y)

    def models(self, server: State | None, clients: State) -> Array:
        """w; of clients, v_k."""
        return clients["own"] if server is None else server["w"]

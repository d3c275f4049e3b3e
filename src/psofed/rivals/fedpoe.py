"""Fed-POE: each client mixes the predictions of the federated models and of its own.

Source: P. M. Ghari, Y. Shen, "Personalized federated learning with mixture of models for adaptive
prediction and model fine-tuning", NeurIPS 2024, arXiv 2410.21547; checked with the authors' code
for online regression (github.com/pouyamghari/Fed-POE, air.py and FedPOE_regression.py).

Faithful: every kernel p has random features z_p, a federated model theta_p and a local one, each
trained by the error of its own prediction. A client weighs the federated models among each other,
the local ones among each other, and the two means against each other; all weights are its own and
fall by exp(-eta loss). Local models learn from every sample, federated ones by averaged updates.

Ours: the kernels are parts of the D features, one after another and about equal: with `widths` in
[features] each has a width of its own, and the original's three are sqrt(0.1), 1 and sqrt(10).
Cohorts, in which the original has all clients in every round; those not selected go on with their
local models and weights, and the federated ones of their last contact. E local steps; the original
has one. eta is an option of its own, not the step. The regulariser of the original, 1e-6, is left
out, and so is its part for models that are not convex, which keeps old federated models. The global
model that is judged weighs all kernels alike, because the server does not know the weights.

Unverified: that the text of the paper agrees with the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from psofed.contract import Anchored, Array, Coded, Learns, Paced, State, Task
from psofed.rivals.pofmkl import Kernels, check_kernels, shares, weigh


@dataclass(frozen=True)
class FedPOE(Paced):
    """P kernels, the rate eta of all weights, and E."""

    name: ClassVar[str] = "fedpoe"
    coded: ClassVar[Coded] = "both"
    sums: ClassVar[bool] = True
    learners: ClassVar[Learns] = "linear"
    kernels: int = 3  # P, parts of the features
    rate: float = 0.1  # eta of all weights
    local_steps: int = 1  # E, rounds of a block

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """As many kernels as there are features."""
        return (cls(kernels=min(cls.kernels, dim)),)

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """E, P and eta."""
        own = {"kernels": (1, 3)[: 1 + (dim >= 3)], "rate": (0.01, 0.1, 1.0)}
        return {**super().choices(dim, rounds), **own}

    def describe(self) -> str:
        steps = f" E={self.local_steps}" * (self.local_steps > 1)
        kernels = f"{self.kernels} kernel{'s' * (self.kernels > 1)}"
        return f"Fed-POE {kernels} eta={self.rate:g}{steps}"

    def check(self, dim: int, clients: int) -> None:
        """There are features for each kernel, and the rate is one."""
        check_kernels(self, dim)


Options = FedPOE


class Method(Anchored):
    """f_k = a_k sum_p b_kp theta_p^T z_p + (1 - a_k) sum_p c_kp theta_kp^T z_p."""

    idle = True

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.kernels, self.rate = Kernels(task.dim, options.kernels, task.dtype), options.rate

    def client(self) -> State:
        """Also the local models, and the logarithms of the three kinds of weights."""
        count, zeros = len(self.kernels.sizes), self.task.zeros
        own = {"own": self.task.initial(), "mix": zeros(2)}
        return super().client() | own | {"federated": zeros(count), "local": zeros(count)}

    def learn(self, client: State, x: Array, z: Array, y: Array) -> None:
        """A step of all models; weights fall by the losses of what was predicted before it."""
        z = z * self.kernels.scale
        theirs = y[..., None] - self.kernels.predict(self.learner, client["start"], z)
        ours = self.kernels.learn(self.learner, client["own"], z, y, self.step)
        self.kernels.learn(self.learner, client["w"], z, y, self.step)
        # The error of a mean is the mean of the errors, because weights sum to 1.
        means = [
            np.vecdot(shares(client["federated"]), theirs),
            np.vecdot(shares(client["local"]), ours),
        ]
        weigh(client["mix"], self.rate * np.square(np.stack(means, axis=-1)))
        weigh(client["federated"], self.rate * np.square(theirs))
        weigh(client["local"], self.rate * np.square(ours))

    def models(self, server: State | None, clients: State) -> Array:
        """What is linear in z: the mean of the kernels; of clients, the mix of both kinds."""
        scale = self.kernels.scale
        if server is not None:
            return server["w"] * (scale / len(self.kernels.sizes)).astype(scale.dtype)
        federated = self.kernels.spread(shares(clients["federated"])) * clients["start"]
        local = self.kernels.spread(shares(clients["local"])) * clients["own"]
        mix = shares(clients["mix"])
        return scale * (mix[..., :1] * federated + mix[..., 1:] * local)

"""Perturbation by noise: v_k = w_k + N(0, sigma^2 I), each time with probability p_a.

Source: E. Lari, R. Arablouei, V. C. Gogineni, S. Werner, "Resilience in online federated learning:
mitigating model-poisoning attacks via partial sharing", arXiv 2403.13108: Byzantine clients perturb
what they send, now and then. docs/theory.md has what the theory says about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from psofed.federation import schema
from psofed.stages.attacks import contract
from psofed.stages.attacks.contract import Array


@dataclass(frozen=True)
class Perturbation(contract.Options):
    """sigma and p_a."""

    name: ClassVar[str] = "perturbation"
    sigma: float = 0.5  # size of the noise
    chance: float = 1.0  # p_a, the probability of noise in an upload

    def describe(self) -> str:
        often = "" if self.chance == 1 else f" with probability {self.chance:g}"
        return f"noise of {self.sigma:g}{often}"

    def check(self, clients: int, cohort: int) -> None:
        """A chance, and a size."""
        schema.require(self, "chance", 0 <= self.chance <= 1, "use a probability, 0 to 1")
        schema.require(self, "sigma", 0 <= self.sigma < float("inf"), "use 0 or more")


Options = Perturbation


class Attack(contract.Attack):
    """v_k = w_k + tau delta, tau ~ Bernoulli(p_a), delta ~ N(0, sigma^2 I)."""

    options: Options

    def offset(self, n: int, k: Any) -> Array:
        seeds, dim = self.attackers.seeds, self.attackers.dim
        delta = self.options.sigma * seeds.normals("attack noise", k, dim, round=n)
        chance = self.options.chance
        if chance < 1:
            hit = seeds.uniforms("attack chance", client=k, round=n, count=1) < chance
            delta = np.where(hit, delta, 0.0)
        return delta

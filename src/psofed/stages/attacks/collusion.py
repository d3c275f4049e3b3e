"""Collusion: all malicious clients send the same wrong model, v_k = t, t ~ N(0, sigma^2 I)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from psofed.stages.attacks import contract
from psofed.stages.attacks.contract import Array, Mix


@dataclass(frozen=True)
class Collusion(contract.Options):
    """sigma: how large the entries of the wrong model are."""

    name: ClassVar[str] = "collusion"
    sigma: float = 0.3  # size of the entries of the wrong model

    def describe(self) -> str:
        return f"one wrong model of {self.sigma:g}"


Options = Collusion


class Attack(contract.Attack):
    """v_k = t, drawn once per run."""

    options: Options

    def mix(self) -> Mix:
        return Mix(own=0.0)

    @cached_property
    def target(self) -> Array:
        """t [..., 1, D]."""
        seeds = self.attackers.seeds
        return self.options.sigma * seeds.matrix("attack target", 1, self.attackers.dim)

    def offset(self, n: int, k: Any) -> Array:
        return self.target

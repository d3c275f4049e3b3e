"""Scaling: v_k = a w_k. With a = -1 it is the sign flip, with a = -5 a reversed and boosted model.

Source: the sign flip and its scaled form are in most studies of Byzantine clients, such as L. Li et
al., "RSA: Byzantine-robust stochastic aggregation methods", AAAI 2019, arXiv 1811.03761.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from psofed.stages.attacks import contract
from psofed.stages.attacks.contract import Mix


@dataclass(frozen=True)
class Scale(contract.Options):
    """a."""

    name: ClassVar[str] = "scale"
    factor: float = -1.0  # a, by which the model is multiplied

    def describe(self) -> str:
        return "sign flip" if self.factor == -1 else f"model times {self.factor:g}"


Options = Scale


class Attack(contract.Attack):
    """v_k = a w_k."""

    options: Options

    def mix(self) -> Mix:
        return Mix(own=self.options.factor)

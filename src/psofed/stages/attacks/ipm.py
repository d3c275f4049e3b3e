"""IPM, inner product manipulation: v_k = w - epsilon (m - w), against the honest change.

Source: C. Xie, O. Koyejo, I. Gupta, "Fall of empires: breaking Byzantine-tolerant SGD by inner
product manipulation", UAI 2019, arXiv 1903.03936. A small epsilon hides among honest updates, a
large one reverses their mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from psofed.stages.attacks import contract
from psofed.stages.attacks.contract import Mix


@dataclass(frozen=True)
class IPM(contract.Options):
    """epsilon."""

    name: ClassVar[str] = "ipm"
    omniscient: ClassVar[bool] = True
    epsilon: float = 2.0  # the honest change is reversed, times this

    def describe(self) -> str:
        return f"IPM epsilon={self.epsilon:g}"


Options = IPM


class Attack(contract.Attack):
    """v_k = w - epsilon (m - w), m the mean of the round's honest members."""

    options: Options

    def mix(self) -> Mix:
        return Mix(own=0.0, server=1 + self.options.epsilon, mean=-self.options.epsilon)

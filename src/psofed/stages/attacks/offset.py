"""An offset: v_k = w_k + b + r n in every entry: it is there, or drifts away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from psofed.stages.attacks import contract


@dataclass(frozen=True)
class Offset(contract.Options):
    """b and r."""

    name: ClassVar[str] = "offset"
    begin: float = 0.0  # b, added in round 0
    rate: float = 0.001  # r, added more in each round

    def describe(self) -> str:
        parts = [f"{self.begin:+g}"] * bool(self.begin) + [f"{self.rate:+g} n"] * bool(self.rate)
        return f"model {' '.join(parts) or '+0'}"


Options = Offset


class Attack(contract.Attack):
    """v_k = w_k + b + r n."""

    options: Options

    def offset(self, n: int, k: Any) -> float:
        return self.options.begin + self.options.rate * n

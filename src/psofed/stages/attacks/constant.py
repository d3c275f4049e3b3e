"""A constant: v_k = c in every entry, whatever was learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from psofed.stages.attacks import contract
from psofed.stages.attacks.contract import Mix


@dataclass(frozen=True)
class Constant(contract.Options):
    """c."""

    name: ClassVar[str] = "constant"
    value: float = 1.0  # c, every entry of what is sent

    def describe(self) -> str:
        return f"constant {self.value:g}"


Options = Constant


class Attack(contract.Attack):
    """v_k = c."""

    options: Options

    def mix(self) -> Mix:
        return Mix(own=0.0)

    def offset(self, n: int, k: Any) -> float:
        return self.options.value

"""Labels: malicious clients learn from a y instead of y, and are honest in all else.

With a = -1 it is the label flip of regression, with a = 100 a unit that was mistaken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from psofed.core.schedule import Indices
from psofed.stages.attacks import contract
from psofed.stages.attacks.contract import Array


@dataclass(frozen=True)
class Labels(contract.Options):
    """a."""

    name: ClassVar[str] = "labels"
    on: ClassVar[Literal["values", "labels"]] = "labels"
    factor: float = -1.0  # a, by which labels are multiplied

    def describe(self) -> str:
        return "label flip" if self.factor == -1 else f"labels times {self.factor:g}"


Options = Labels


class Attack(contract.Attack):
    """y <- a y."""

    options: Options

    def samples(self, k: Indices, n: Indices, x: Array, y: Array) -> tuple[Array, Array]:
        return x, y * y.dtype.type(self.options.factor)

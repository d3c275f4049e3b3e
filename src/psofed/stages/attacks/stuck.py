"""A stuck sensor: from some round on all its readings are the same, x and y."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from psofed.core.schedule import Indices
from psofed.federation import schema
from psofed.stages.attacks import contract
from psofed.stages.attacks.contract import Array


@dataclass(frozen=True)
class Stuck(contract.Options):
    """The readings, and the round from which on they come."""

    name: ClassVar[str] = "stuck"
    on: ClassVar[Literal["values", "labels"]] = "labels"
    x: float = 0.0  # every input
    y: float = 3.0  # every label
    begin: int = 0  # the round from which on it is stuck

    def describe(self) -> str:
        return f"stuck at x={self.x:g}, y={self.y:g}"

    def check(self, clients: int, cohort: int) -> None:
        """A round."""
        schema.require(self, "begin", self.begin >= 0, "use the number of a round, 0 or more")


Options = Stuck


class Attack(contract.Attack):
    """x <- (a, a, ...), y <- b, from round `begin` on."""

    options: Options

    def samples(self, k: Indices, n: Indices, x: Array, y: Array) -> tuple[Array, Array]:
        after = n >= self.options.begin
        x = np.where(after[:, None], x.dtype.type(self.options.x), x)
        return x, np.where(after & ~np.isnan(y), y.dtype.type(self.options.y), y)

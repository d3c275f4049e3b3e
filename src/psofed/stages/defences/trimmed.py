"""The trimmed mean: every entry changes by the mean without the largest and the smallest values.

Source: D. Yin, Y. Chen, K. Ramchandran, P. Bartlett, "Byzantine-robust distributed learning:
towards optimal statistical rates", ICML 2018, arXiv 1803.01498.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from psofed.core.schedule import Indices
from psofed.federation import schema
from psofed.stages.defences import contract
from psofed.stages.defences.contract import Array, State, refuse_small


@dataclass(frozen=True)
class Trimmed(contract.Options):
    """b: values left out at either end."""

    name: ClassVar[str] = "trimmed"
    compares: ClassVar[bool] = True
    trim: int = 1  # b, values left out at either end

    def describe(self) -> str:
        return f"trimmed mean b={self.trim}"

    def check(self, clients: int, cohort: int) -> None:
        """Somebody is left."""
        schema.require(self, "trim", self.trim >= 1, "use 1 or more")
        refuse_small(self.name, cohort, 2 * self.trim + 1)


Options = Trimmed


class Defence(contract.Defence):
    """U_k <- the mean of the s - 2b middle values of all U_j, entry by entry."""

    options: Options

    def defended(self, state: State, n: int, k: Indices, changes: Array, entries: Indices) -> Array:
        # Where members are lost, there may be no more than the middle to keep.
        trim = min(self.options.trim, (changes.shape[-2] - 1) // 2)
        kept = np.sort(np.where(np.isnan(changes), np.inf, changes), axis=-2)[
            ..., trim : changes.shape[-2] - trim, :
        ]
        return np.broadcast_to(kept.mean(axis=-2, keepdims=True), changes.shape)

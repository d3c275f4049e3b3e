"""The coordinate median: every entry changes by the median of what the members say.

Source: D. Yin, Y. Chen, K. Ramchandran, P. Bartlett, "Byzantine-robust distributed learning:
towards optimal statistical rates", ICML 2018, arXiv 1803.01498. It holds while malicious members
are a minority of every cohort.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from psofed.core.schedule import Indices
from psofed.stages.defences import contract
from psofed.stages.defences.contract import Array, State, refuse_small


@dataclass(frozen=True)
class Median(contract.Options):
    """It has none of its own."""

    name: ClassVar[str] = "median"
    compares: ClassVar[bool] = True

    def describe(self) -> str:
        return "coordinate median"

    def check(self, clients: int, cohort: int) -> None:
        """Three members at least; of two, none is between the others."""
        refuse_small(self.name, cohort, 3)


Options = Median


class Defence(contract.Defence):
    """U_k <- median_j U_j, entry by entry."""

    def defended(self, state: State, n: int, k: Indices, changes: Array, entries: Indices) -> Array:
        known = np.where(np.isnan(changes), np.inf, changes)
        middle = np.median(known, axis=-2, keepdims=True).astype(changes.dtype)
        return np.broadcast_to(middle, changes.shape)

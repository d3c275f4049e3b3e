"""No defence: every upload is folded in as it came, also in a live deployment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from psofed.core.schedule import Indices
from psofed.stages.defences import contract
from psofed.stages.defences.contract import Array, State


@dataclass(frozen=True)
class NoDefence(contract.Options):
    """It has no options."""

    name: ClassVar[str] = "none"
    acts: ClassVar[bool] = False

    def describe(self) -> str:
        return "none"


Options = NoDefence


class Defence(contract.Defence):
    """U_k <- U_k."""

    def defended(self, state: State, n: int, k: Indices, changes: Array, entries: Indices) -> Array:
        """The changes as they are."""
        return changes

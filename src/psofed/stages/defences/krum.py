"""Krum: of all members only the one counts whose changes are closest to those of its neighbours.

Source: P. Blanchard, E. M. El Mhamdi, R. Guerraoui, J. Stainer, "Machine learning with adversaries:
Byzantine tolerant gradient descent", NeurIPS 2017, arXiv 1703.02757. Its guarantee takes 2f + 3
members where f are malicious, so a cohort of four has none.
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
class Krum(contract.Options):
    """f: malicious members of a cohort that it withstands."""

    name: ClassVar[str] = "krum"
    compares: ClassVar[bool] = True
    malicious: int = 1  # f, members that it withstands

    def describe(self) -> str:
        return f"Krum f={self.malicious}"

    def check(self, clients: int, cohort: int) -> None:
        """s >= 2f + 3."""
        schema.require(self, "malicious", self.malicious >= 1, "use 1 or more")
        refuse_small(self.name, cohort, 2 * self.malicious + 3)


Options = Krum


class Defence(contract.Defence):
    """U_k <- U_j of the j with the least sum of |U_j - U_i|^2 over its s - f - 2 nearest i."""

    options: Options

    def defended(self, state: State, n: int, k: Indices, changes: Array, entries: Indices) -> Array:
        apart = ((changes[..., :, None, :] - changes[..., None, :, :]) ** 2).sum(axis=-1)
        # The nearest of all is the member itself. Where members are lost, there are fewer others.
        near = max(changes.shape[-2] - self.options.malicious - 2, 1)
        score = np.sort(apart, axis=-1)[..., 1 : 1 + near].sum(axis=-1)
        best = np.argmin(np.nan_to_num(score, nan=np.inf), axis=-1)[..., None, None]
        return np.broadcast_to(np.take_along_axis(changes, best, axis=-2), changes.shape)

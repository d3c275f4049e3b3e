"""Centred clipping: changes are clipped in norm around a running centre, tau at most.

Source: S. P. Karimireddy, L. He, M. Jaggi, "Learning from history for Byzantine robust
optimization", ICML 2021, arXiv 2012.10333: v <- v + mean_k (U_k - v) min(1, tau / |U_k - v|). The
centre is what was folded last, on the entries in question.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from psofed.core.schedule import Indices
from psofed.federation import schema
from psofed.stages.defences import contract
from psofed.stages.defences.contract import Array, State


@dataclass(frozen=True)
class Centred(contract.Options):
    """tau, and the momentum of the centre."""

    name: ClassVar[str] = "centred"
    tau: float = 0.1  # how far from the centre a change may be
    memory: float = 0.9  # of the centre, from round to round

    def describe(self) -> str:
        return f"centred clipping tau={self.tau:g}"

    def check(self, clients: int, cohort: int) -> None:
        """A radius, and a memory below 1."""
        schema.positive(self, "tau")
        schema.require(self, "memory", 0 <= self.memory < 1, "use 0 or more, below 1")


Options = Centred


class Defence(contract.Defence):
    """U_k <- v + (U_k - v) min(1, tau / |U_k - v|); then v <- memory v + (1 - memory) mean U_k."""

    options: Options

    def start(self) -> State:
        """v = 0."""
        return {"centre": np.zeros(self.setting.dim)}

    def defended(self, state: State, n: int, k: Indices, changes: Array, entries: Indices) -> Array:
        centre, memory = state["centre"], self.options.memory
        rows = entries.reshape(*entries.shape[:-2], -1)
        v = np.take_along_axis(centre, rows, axis=-1).reshape(entries.shape)
        away = changes - v
        size = np.linalg.norm(away, axis=-1, keepdims=True)
        part = np.minimum(1.0, self.options.tau / np.where(size > 0, size, 1.0))
        left = np.where(part < 1, v + part * away, changes)
        left = np.where(np.isfinite(left), left, v)
        moved = (1 - memory) * (left - v) / changes.shape[-2]
        for i in np.ndindex(centre.shape[:-1]):
            np.add.at(centre[i], rows[i], moved[i].ravel())
        return left.astype(changes.dtype, copy=False)

"""An adaptive attacker: it knows the defence, and pushes as far as that lets pass.

Ours. It sends v_k = w + a u, u a direction that all malicious clients share, and a the largest for
which the defence would fold v_k in whole, now and at its next review. So a push is folded in whole,
and where none would pass, it is honest for a while. It has to know the global model and the state
of the defence, which real attackers could only guess. Without a defence a is the option `size`.

Ways to push: "against" its own model, entry by entry, u = -sign(w_k); "random", a sign for each
entry, drawn once; "weak", an eigenvector of the features' correlation, in which honest clients
correct a mistake more slowly, the higher its `rank`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from psofed.core.features import guess
from psofed.federation import schema
from psofed.stages.attacks import contract
from psofed.stages.attacks.contract import Array

HALVINGS = 16
WIDEST = 1e3  # times `size`: the largest push that is tried


@dataclass(frozen=True)
class Adaptive(contract.Options):
    """The way to push, and how far without a defence."""

    name: ClassVar[str] = "adaptive"
    omniscient: ClassVar[bool] = True
    adapts: ClassVar[bool] = True
    push: Literal["against", "random", "weak"] = "against"  # the direction
    rank: int = 10  # of the eigenvector, if it is a weak one
    size: float = 0.1  # the root mean square of the push, where no defence limits it

    @property
    def linear(self) -> bool:
        """Features have a correlation, parameters of other models have none."""
        return self.push == "weak"

    def describe(self) -> str:
        return f"adaptive, {self.push}" + (f" {self.rank}" if self.push == "weak" else "")

    def check(self, clients: int, cohort: int) -> None:
        """A size, and a rank from 0 on."""
        schema.positive(self, "size")
        schema.require(self, "rank", self.rank >= 0, "use 0 or more, below D")


Options = Adaptive


class Attack(contract.Attack):
    """v_k = w + a u, with the largest a that passes."""

    options: Options

    def mix(self) -> None:
        return None

    @cached_property
    def fixed(self) -> Array:
        """u [..., 1, D], where it is the same for all and in all rounds."""
        seeds, dim = self.attackers.seeds, self.attackers.dim
        if self.options.push == "random":
            return np.where(seeds.matrix("attack push", 1, dim) < 0, -1.0, 1.0)
        weak = [self._weak(each) for each in self.attackers.maps]
        return np.reshape(weak, (*np.shape(seeds.run), 1, dim))

    def _weak(self, features: Any) -> Array:
        taps = self.attackers.taps
        R = features.correlation(np.zeros(taps), guess(taps, 1.0, 0.5))
        _, vectors = np.linalg.eigh(R)
        return np.sqrt(self.attackers.dim) * vectors[:, -1 - min(self.options.rank, len(R) - 1)]

    def models(
        self, n: int, k: Any, w_k: Array, bad: Array, w: Array | None,
        passes: Callable[[Array], Array] | None = None,
    ) -> Array:  # fmt: skip
        """`passes` says which of the members' models [..., s, D] the defence would let pass."""
        assert w is not None
        u = -np.sign(w_k) if self.options.push == "against" else self.fixed
        base, low = w[..., None, :], np.zeros((*bad.shape, 1))
        if passes is None:
            return np.broadcast_to(base + self.options.size * u, w_k.shape).astype(w_k.dtype)
        high = np.full_like(low, WIDEST * self.options.size)
        for _ in range(HALVINGS):
            # In the first steps by powers, because nobody knows how small it has to be.
            middle = np.where(low > 0, (low + high) / 2, high / 8)
            fine = passes((base + middle * u).astype(w_k.dtype))[..., None]
            low, high = np.where(fine, middle, low), np.where(fine, high, middle)
        # Where no push would pass it is honest for a while, which wins trust back.
        return np.where(low > 0, base + low * u, w_k).astype(w_k.dtype)

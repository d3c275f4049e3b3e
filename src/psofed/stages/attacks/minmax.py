"""Min-max: v_k = m - gamma s, as far as the honest models are from one another.

Source: V. Shejwalkar, A. Houmansadr, "Manipulating the Byzantine: optimizing model poisoning
attacks and defenses for federated learning", NDSS 2021: gamma is the largest for which no honest
model is further from v_k than two honest models are from each other. The direction is theirs of the
standard deviations; they find gamma by bisection, here it is the root of a quadratic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from psofed.stages.attacks import contract
from psofed.stages.attacks.contract import Array, of_honest


@dataclass(frozen=True)
class MinMax(contract.Options):
    """It has none of its own."""

    name: ClassVar[str] = "minmax"
    omniscient: ClassVar[bool] = True

    def describe(self) -> str:
        return "min-max"


Options = MinMax


class Attack(contract.Attack):
    """v_k = m - gamma s, max_i |v_k - w_i| <= max_ij |w_i - w_j| over honest members."""

    def mix(self) -> None:
        return None

    def models(self, n: int, k: object, w_k: Array, bad: Array, w: Array | None) -> Array:
        mean, spread = of_honest(w_k, bad)
        honest = ~bad | bad.all(axis=-1, keepdims=True)
        pairs = honest[..., :, None] & honest[..., None, :]
        apart = ((w_k[..., :, None, :] - w_k[..., None, :, :]) ** 2).sum(axis=-1)
        most = np.where(pairs, apart, 0.0).max(axis=(-2, -1))
        # |m - gamma s - w_i|^2 = gamma^2 |s|^2 - 2 gamma s^T (m - w_i) + |m - w_i|^2 <= most.
        away = mean - w_k
        a = (spread**2).sum(axis=-1)
        b, c = (spread * away).sum(axis=-1), (away**2).sum(axis=-1) - most[..., None]
        gamma = (b + np.sqrt(np.maximum(b * b - a * c, 0.0))) / np.where(a > 0, a, 1.0)
        gamma = np.where(honest, gamma, np.inf).min(axis=-1)
        sent = mean - np.where(a[..., 0] > 0, gamma, 0.0)[..., None, None] * spread
        return np.broadcast_to(sent, w_k.shape).astype(w_k.dtype)

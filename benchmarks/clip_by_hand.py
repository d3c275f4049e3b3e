"""The defence clip told again, client by client in plain loops: an oracle that shares no code."""

from __future__ import annotations

from math import cos, inf, pi, sqrt
from typing import Any

import numpy as np


class ByHand:
    """The memory of a server that clips; `heard` is one round of changes, by client."""

    def __init__(self, clients: int, dim: int, clip: float = 4.0) -> None:
        self.K, self.D, self.clip = clients, dim, clip
        self.recent: list[int] = []
        self.changes = self.since = 0
        self.s = 0.0
        self.square: dict[int, float] = {}
        self.vote: dict[int, float] = {}
        self.weight = dict.fromkeys(range(clients), 1.0)
        self.memory = {k: np.zeros(dim) for k in range(clients)}
        count = max(min(6, clients // 5, dim // 2), 1)
        self.directions = [
            np.array([sqrt(2 / dim) * cos(pi * i * (j + 0.5) / dim) for j in range(dim)])
            for i in range(1, count + 1)
        ]

    def heard(self, changes: dict[int, tuple[Any, Any]]) -> dict[int, Any]:
        """Changes and their entries, by client; what is left of each."""
        own = {k: sqrt(sum(u * u for u in U) / len(U)) for k, (U, _) in changes.items()}
        left = {k: 0 * U for k, (U, _) in changes.items()}
        moved = {k: both for k, both in changes.items() if own[k] > 0}
        if not self._scaled({k: own[k] for k in moved}):
            return left
        s = self.s
        for k, (U, entries) in moved.items():
            short = U * min(1.0, self.clip * s / own[k])
            left[k] = self.weight[k] * _fallen(sqrt(self.square[k]) / (2.5 * s)) * short
            for j, u in zip(entries, short, strict=True):
                self.memory[k][j] = 0.97 * self.memory[k][j] + 0.03 * u / s
        self.since += len(moved)
        if self.since >= max(self.K, 100):
            self.since = 0
            self._review()
        return left

    def _scaled(self, own: dict[int, float]) -> bool:
        """Whether the size of a usual change is known, and what it is."""
        most = (50 * self.s) ** 2 or inf
        for k, r in own.items():
            known = k in self.vote
            self.square[k] = 0.8 * min(self.square[k], most) + 0.2 * r * r if known else r * r
            self.vote[k] = max(r * r, 0.98 * min(self.vote.get(k, 0.0), most))
        self.recent = (self.recent + list(own))[-64:]
        self.changes += len(own)
        voters = sorted(self.vote[k] for k in set(self.recent))
        if voters and self.changes >= 16 and len(voters) >= min(3, self.K):
            self.s = sqrt(voters[len(voters) // 2])
        return self.s > 0

    def _review(self) -> None:
        known = sorted(self.square)
        m = {k: self.memory[k] for k in known}
        made: list[Any] = []
        for i, v in enumerate(self.directions):
            g = sum((m[k] @ v) * m[k] for k in known) if i else sum(m.values())
            for u in made:
                g = g - (g @ u) * u
            length = sqrt(g @ g)
            made.append(g / length if length > 1e-30 else v)
        self.directions = made
        rest = {}
        for k in known:
            whole = m[k] @ m[k]
            left = whole - sum((m[k] @ v) ** 2 for v in made)
            rest[k] = sqrt(left) if left > 1e-9 * whole else 0.0
        usual = _median(list(rest.values()))
        far = {k: rest[k] / max(2.5 * usual, 1e-300) for k in known}
        for v in made:
            centre = _median([m[k] @ v for k in known])
            width = 1.4826 * _median([abs(m[k] @ v - centre) for k in known])
            width = 3 * max(width, 0.35 * (1 + 10 / self.K) * usual)
            far = {k: max(far[k], abs(m[k] @ v - centre) / width) for k in known}
        most = sorted(far.values())[len(far) - 1 - (len(far) - 1) // 3]
        self.weight |= {k: _fallen(far[k] / max(most, 1.0)) for k in known}


def _fallen(far: float) -> float:
    return 1.0 if far <= 1 else far**-2 if far < 10 else 0.0


def _median(values: list[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]

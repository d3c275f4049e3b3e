"""The defence clip told again, client by client in plain loops: an oracle that shares no code."""

from __future__ import annotations

from math import cos, inf, pi, sqrt
from typing import Any

import numpy as np


class ByHand:
    """The memory of a server that clips; `heard` is one round of changes, by client."""

    def __init__(self, clients: int, dim: int, clip: float = 6.0) -> None:
        self.K, self.D, self.clip = clients, dim, clip
        self.lengths: list[float] = []
        self.latest: dict[int, float] = {}
        self.least, self.since, self.usual = inf, 0, 2.0
        self.square: dict[int, float] = {}
        self.weight = dict.fromkeys(range(clients), 1.0)
        self.memory = {k: np.zeros(dim) for k in range(clients)}
        count = min(6, max(clients // 5, 1), dim)
        self.directions = [
            np.array([sqrt(2 / dim) * cos(pi * i * (j + 0.5) / dim) for j in range(dim)])
            for i in range(1, count + 1)
        ]

    def heard(self, changes: dict[int, tuple[Any, Any]]) -> dict[int, Any]:
        """Changes and their entries, by client; what is left of each."""
        own = {k: sqrt(sum(u * u for u in U) / len(U)) for k, (U, _) in changes.items()}
        self.latest |= {k: r for k, r in own.items() if r > 0}
        s = self._scale(list(own.values()))
        left = {k: 0 * U for k, (U, _) in changes.items()}
        moved = {k: both for k, both in changes.items() if own[k] > 0 and s > 0}
        for k, (U, entries) in moved.items():
            short = U * min(1.0, self.clip * s / own[k])
            new = min(own[k] / s, 100.0) ** 2
            old = self.square.get(k)
            self.square[k] = new if old is None else 0.9 * old + 0.1 * new
            left[k] = self.weight[k] * _fallen(sqrt(self.square[k] / self.usual) / 3) * short
            for j, u in zip(entries, short, strict=True):
                self.memory[k][j] = 0.98 * self.memory[k][j] + 0.02 * u / s
        self.since += len(moved)
        if self.since >= max(self.K, 100):
            self.since = 0
            self._review()
        return left

    def _scale(self, new: list[float]) -> float:
        self.lengths += new
        known = self.lengths[-64:]
        if len(known) < 16:
            return 0.0
        s = _median(known) if len(known) == 64 else sorted(known)[(len(known) - 1) // 4]
        if s == 0 and len(self.latest) >= min(3, self.K):
            s = _median(list(self.latest.values()))
        if len(self.lengths) > 2 * self.K:
            self.least = min(self.least, s) if s > 0 else self.least
            s = min(s, 3 * self.least)
        return s

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
        rest = {k: sqrt(max(m[k] @ m[k] - sum((m[k] @ v) ** 2 for v in made), 0)) for k in known}
        usual = _median(list(rest.values()))
        far = {k: rest[k] / (2.5 * usual) for k in known}
        for v in made:
            centre = _median([m[k] @ v for k in known])
            width = 1.4826 * _median([abs(m[k] @ v - centre) for k in known])
            width = 3 * max(width, 0.5 * (1 + 10 / self.K) * usual)
            far = {k: max(far[k], abs(m[k] @ v - centre) / width) for k in known}
        self.usual = min(max(_median(list(self.square.values())), 1.0), 4.0)
        self.weight |= {k: _fallen(far[k]) for k in known}


def _fallen(far: float) -> float:
    return 1.0 if far <= 1 else far**-2 if far < 10 else 0.0


def _median(values: list[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]

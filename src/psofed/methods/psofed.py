"""PSO-Fed: exchange M of D entries per round; clients also learn when they are not selected.

Source: V. C. Gogineni, S. Werner, Y.-F. Huang, A. Kuh, "Communication-Efficient Online Federated
Learning Framework for Nonlinear Regression", ICASSP 2022, arXiv 2110.06556, Algorithm 1.

Faithful: eq. (8) to (11): windows n down, n + 1 up, circular shifts, idle learning, both schemes.

Ours: what it leaves open: a random initial mask and a shift of 1; the other masks, and selections.

Unverified: the paper does not say which mask, shift and kernel width its figures have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from psofed.core import equations
from psofed.core.schedule import Ahead, Indices, Schedule
from psofed.federation.bases import SCHEMES, Windows
from psofed.federation.contract import BEFORE, Array, Message, Plain, State, Task, whole
from psofed.federation.options import Coded, geometric


@dataclass(frozen=True)
class PSOFed(Windows):
    """The options of PSO-Fed: M, how windows are chosen, and whether idle clients learn."""

    name: ClassVar[str] = "psofed"
    coded: ClassVar[Coded] = "both"
    sums: ClassVar[bool] = True

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """M = D/5, in both schemes."""
        return tuple(cls(max(dim // 5, 1), scheme) for scheme in SCHEMES)

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """M; the forms that are compared have both schemes."""
        return {"shared": geometric(1, dim)}

    def describe(self) -> str:
        return f"PSO-Fed {self.windows()}"


Options = PSOFed


class Method(Plain):
    """Algorithm 1."""

    entrywise = True

    def __init__(self, options: Windows, task: Task, schedule: Schedule | None = None) -> None:
        super().__init__(options, task)
        self.idle, self.shared = options.idle, options.shared
        common = options.scheme == "coordinated" or options.shared == task.dim
        self.delivery = "common" if common else "each"
        self.schedule: Schedule = schedule or options.schedule(task)
        # The windows of exchange t, which goes down, and of t + 1, which goes up.
        self.windows = tuple(Ahead(partial(self._window, up), task.cohorts, self.shared)
                             for up in (False, True))  # fmt: skip

    def _window(self, up: bool, k: Indices, n: Any) -> Indices:
        return self.schedule.entries(k, (n + up) // self.pace)

    def entries(self, k: Indices, n: Any, up: bool) -> Indices:
        """S_{k,n} down, S_{k,n+1} up; before round 0 all entries come down."""
        if np.ndim(n):
            return self._window(up, k, n)
        return super().entries(k, n, up) if n == BEFORE else self.windows[up](k, n)

    def download(self, server: State, k: Indices, n: int) -> Message:
        """S_{k,n} w_n."""
        return whole(equations.share(server["w"], self.entries(k, n, up=False)))

    def receive(self, client: State, k: Indices, n: int, message: Message) -> None:
        """Eq. (9): S_{k,n} w_n + (I - S_{k,n}) w_{k,n}."""
        equations.receive(client["w"], self.entries(k, n, up=False), message.values)

    def upload(self, client: State, k: Indices, n: int) -> Message:
        """S_{k,n+1} w_{k,n+1}: the *next* window."""
        return whole(equations.share(client["w"], self.entries(k, n, up=True)))

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """Eq. (11)."""
        if message.heard.any():
            equations.fold(server["w"], self.entries(k, n, up=True), message.values, weights)

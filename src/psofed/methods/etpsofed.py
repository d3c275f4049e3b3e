"""Event-triggered PSO-Fed: a client uploads only if the error of its last sample was large.

V. C. Gogineni, S. Werner, Y.-F. Huang, A. Kuh, "Communication-efficient online federated learning
strategies for kernel regression", IEEE Internet of Things J., 2023. The trigger is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from psofed.errors import InputError
from psofed.methods import psofed
from psofed.methods.contract import Array, Partly, State, Task, Who


@dataclass(frozen=True)
class Options(psofed.Options):
    """The options of PSO-Fed, and the threshold c in units of the rms error."""

    name: ClassVar[str] = "etpsofed"
    threshold: float = 0.6

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """M = D/5."""
        return (cls(max(dim // 5, 1)),)

    def describe(self) -> str:
        return f"ETPSO-Fed c={self.threshold:g} {self.windows()}"

    def check(self, dim: int, clients: int) -> None:
        """The windows are valid for PSO-Fed, the threshold is not negative."""
        super().check(dim, clients)
        if not self.threshold >= 0:
            raise InputError("threshold", f"is {self.threshold}", "use 0 or more")


class Method(psofed.Method):
    """Algorithm 1 with an upload only if |e_k| >= c sqrt(m_k), m_k a running mean of e_k^2."""

    stacked = True

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.threshold = options.threshold

    def client(self, k: int) -> State:
        """Also m_k, and whether the last error was large."""
        return super().client(k) | {"square": np.ones(()), "fire": np.zeros(())}

    def learn(self, client: State, x: Array, z: Array, y: Any) -> None:
        """Eq. (10); m_k <- 0.99 m_k + 0.01 e_k^2 at every sample, after the comparison."""
        error = self.learner.learn(client["w"], z, y, self.step)
        client["fire"][...] = np.abs(error) >= self.threshold * np.sqrt(client["square"])
        client["square"][...] = 0.99 * client["square"] + 0.01 * np.square(error)

    def upload(self, client: State, k: Who, n: int) -> Any:
        """S_{k,n+1} w_{k,n+1}, or an empty message; its client still counts in |S_n|."""
        fire, nothing = client["fire"], self.task.zeros(0)
        window: Any = super().upload(client, k, n)
        if fire.ndim == 0:
            return window if fire else nothing
        if fire.ndim == 2:
            return Partly(window, fire > 0)
        return [row if one else nothing for row, one in zip(window, fire, strict=True)]

    def lengths(self, n: int) -> tuple[int, ...] | None:
        return (0, self.shared)

"""The server's own step: what a fold has changed is a direction, taken with momentum or with Adam.

It costs no bytes and is nothing to clients. Source: S. J. Reddi, Z. Charles, M. Zaheer, Z. Garrett,
K. Rush, J. Konečný, S. Kumar, H. B. McMahan, "Adaptive federated optimization" (FedOpt), ICLR 2021,
arXiv 2003.00295; momentum as FedAvgM has it: T.-M. H. Hsu, H. Qi, M. Brown, 2019, arXiv 1909.06335.
"""

from __future__ import annotations

import numpy as np

from psofed.core.schedule import Indices
from psofed.federation.contract import Array, Message, Method, State
from psofed.federation.options import ServerStep
from psofed.federation.stage import Stage


class Stepping(Stage):
    """With U = w' - w, by which the fold of the method has moved w to w':

    momentum: m <- beta m + U,               w <- w + m, summed such that beta = 0 leaves w'
    Adam:     m <- beta m + (1 - beta) U,    v <- beta_2 v + (1 - beta_2) U^2,
              w <- w + rate m / (sqrt(v) + tau),   v = tau^2 at first

    A fold that moves nothing is no round of these papers: m, v and w stay as they are.
    """

    def __init__(self, inner: Method, options: ServerStep) -> None:
        super().__init__(inner)
        self.options = options

    def server(self) -> State:
        """The state of the method, m, and v of Adam."""
        zero = np.zeros_like(self.task.initial())
        own = {"step m": zero}
        if self.options.rule == "adam":
            own["step v"] = zero + self.options.tau**2
        return self.inner.server() | own

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """The fold of the method, then the step."""
        before = server["w"].copy()
        self.inner.fold(server, k, n, message, weights)
        change = server["w"] - before
        moved: Array = np.asarray(change.any(axis=-1, keepdims=True))
        if moved.any():
            step = self._momentum if self.options.rule == "momentum" else self._adam
            step(server, before, change, moved)

    def _momentum(self, server: State, before: Array, change: Array, moved: Array) -> None:
        m = server["step m"]
        carried = m * self.options.beta
        server["w"] += np.where(moved, carried, 0)
        m[...] = np.where(moved, carried + change, m)

    def _adam(self, server: State, before: Array, change: Array, moved: Array) -> None:
        known, m, v = self.options, server["step m"], server["step v"]
        m += np.where(moved, (1 - known.beta) * (change - m), 0)
        v += np.where(moved, (1 - known.second) * (change**2 - v), 0)
        taken = before + known.rate * m / (np.sqrt(v) + known.tau)
        server["w"][...] = np.where(moved, taken, server["w"])

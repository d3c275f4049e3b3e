"""Local only: every client learns alone by RFF-KLMS; nothing is sent. A control.

Source: RFF-KLMS: A. Singh, N. Ahuja, P. Moulin, "Online learning with kernels: overcoming the
growing sum problem", MLSP 2012; P. Bouboulis, S. Chouvardas, S. Theodoridis, "Online distributed
learning over networks in RKH spaces using random Fourier features", IEEE Trans. Signal Process.,
2018.

Faithful: LMS on random Fourier features.

Ours: its use as a control: whether there is anything to gain from an exchange.

Unverified: nothing that the result depends on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from psofed.core.schedule import Indices
from psofed.federation.contract import Array, Message, Plain, State
from psofed.federation.options import Common


@dataclass(frozen=True)
class Local(Common):
    """Learning alone has no options of its own."""

    name: ClassVar[str] = "local"
    uncoded: ClassVar[str] = "sends nothing"
    role: ClassVar[Literal["reference", "method", "control"]] = "control"
    alone: ClassVar[bool] = True
    serves: ClassVar[bool] = False
    simulated: ClassVar[str] = "its clients have nothing to say to a server"
    selects: ClassVar[bool] = True

    def describe(self) -> str:
        return "Local only"


Options = Local


class Method(Plain):
    """Learning without an exchange; judged by the mean error of the clients' own models."""

    idle = True

    def cohort(self, n: int, server: State) -> Indices:
        """Nobody takes part."""
        return self.task.cohorts.cohort(n)[..., :0]

    def entries(self, k: Indices, n: Any, up: bool) -> Indices:
        """Nothing travels."""
        return np.empty((*np.shape(k), 0), np.intp)

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """There is no global model."""

    def models(self, server: State | None, clients: State) -> Array:
        """w_k for all k."""
        return clients["w"]

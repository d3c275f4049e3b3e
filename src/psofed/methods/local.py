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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from psofed.core.schedule import Indices
from psofed.methods.contract import Array, Common, Message, Plain, State


@dataclass(frozen=True)
class Options(Common):
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


class Method(Plain):
    """Eq. (10) without an exchange; judged by the mean error of the clients' own models."""

    idle = stacked = scripted = True
    setup = 0

    def cohort(self, n: int, server: State) -> Indices:
        return np.empty(0, np.intp)

    def download(self, server: State, k: int, n: int) -> Message:
        return None

    def receive(self, client: State, k: int, n: int, message: Message) -> None:
        """There are no downloads."""

    def learn(self, client: State, x: Array, z: Array, y: Any) -> None:
        """Eq. (10)."""
        self.learner.learn(client["w"], z, y, self.step)

    def upload(self, client: State, k: int, n: int) -> Message:
        return None

    def entries(self, k: Indices, n: Indices, up: bool) -> Indices:
        """Nobody takes part."""
        return np.empty((*k.shape, 0), np.intp)

    def lengths(self, n: int) -> tuple[int, ...] | None:
        return ()

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None:
        """There is no global model."""

    def models(self, server: State, clients: State) -> Array:
        return clients["w"]

"""Malicious members of a round: they follow the method, but upload what an attack says.

An attack replaces the model from which such a client makes its upload, so that it works with every
method whose clients keep a model, whatever their messages are. Their own learning goes on unharmed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from psofed.core.schedule import Indices
from psofed.federation.contract import Array, Message, Method, State
from psofed.federation.stage import Stage
from psofed.stages.attacks.contract import Attack
from psofed.stages.defence import Defended


class Attacked(Stage):
    """The uploads of members of whom some are malicious, who may know the defence."""

    def __init__(self, inner: Method, attack: Attack, defence: Defended | None) -> None:
        super().__init__(inner)
        self.attack, self.defence = attack, defence
        self.known: State | None = None  # the server's state; on a device it stays unknown

    def download(self, server: State, k: Indices, n: int) -> Message:
        """What the method sends; in a simulation, malicious clients see the server's state."""
        self.known = server
        return self.inner.download(server, k, n)

    def upload(self, client: State, k: Indices, n: int) -> Message:
        """What the members send in round n; the models of malicious ones stay as they are."""
        bad = self.attack.attackers.among(k)
        if not bad.any():
            return self.inner.upload(client, k, n)
        w = None if self.known is None else self.known.get("w")
        known: Any = n, k, client["w"], bad, w
        if self.attack.options.adapts:
            known += (self._passing(k, n),)
        with np.errstate(over="ignore", invalid="ignore"):
            sent = self.attack.models(*known)
        pretended = np.where(bad[..., None], sent, client["w"])
        up = self.inner.upload({**client, "w": pretended}, k, n)
        np.copyto(client["w"], pretended, where=~bad[..., None])  # an upload may change its client
        return up

    def _passing(self, k: Indices, n: int) -> Any:
        """What tells which models could be uploaded unharmed; None: there is no defence."""
        defence, server = self.defence, self.known
        if defence is None or server is None:
            return None

        def passes(models: Array) -> Array:
            return defence.passes(server, k, n, models)

        return passes

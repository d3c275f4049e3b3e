"""Centralised RFF-KLMS: every client sends its raw samples to one learner. A reference, not FL.

Source: RFF-KLMS (see local), with the samples of all clients at one place.

Faithful: form = "sequential" is RFF-KLMS on one stream of all samples.

Ours: form = "batch": one mean step for the samples of a round, which is Online-Fed with |S_n| = K.

Unverified: nothing that the result depends on.

Each round costs (L + 1) values up per client and nothing down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from psofed.core.schedule import Indices
from psofed.federation.contract import Array, Message, Plain, State, Task, nothing, sized, some
from psofed.federation.options import Common, Learns


@dataclass(frozen=True)
class Centralised(Common):
    """One averaged step per round (batch), or one step per sample (sequential)."""

    name: ClassVar[str] = "centralised"
    uncoded: ClassVar[str] = "sends samples, not models"
    learners: ClassVar[Learns] = "descending"
    role: ClassVar[Literal["reference", "method", "control"]] = "control"
    everybody: ClassVar[bool] = True
    selects: ClassVar[bool] = True
    attackable: ClassVar[bool] = False
    form: Literal["batch", "sequential"] = "batch"  # mean steps, or one sample after another

    def describe(self) -> str:
        return f"Centralised, {self.form}"


Options = Centralised


class Method(Plain):
    """Eq. (3) minimised by one learner that sees the samples of all clients."""

    exact = True  # a message is one sample, as it is

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.sequential = options.form == "sequential"

    def cohort(self, n: int, server: State) -> Indices:
        """Everybody."""
        return self.task.cohorts.there(n)

    def client(self) -> State:
        """The newest sample, and whether it has not been sent yet."""
        return {"sample": self.task.zeros(self.task.taps + 1), "fresh": np.zeros((), bool)}

    def download(self, server: State, k: Indices, n: int) -> Message:
        """Nothing comes down."""
        return nothing(k)

    def receive(self, client: State, k: Indices, n: int, message: Message) -> None:
        """Nothing comes down."""

    def learn(self, client: State, x: Array, z: Array, y: Array) -> None:
        """Keep the newest sample, to be sent."""
        client["sample"][..., :-1] = x
        client["sample"][..., -1] = y
        client["fresh"][...] = True

    def upload(self, client: State, k: Indices, n: int) -> Message:
        """The sample, once. A client without a new one reports nothing, and still counts."""
        fresh = client["fresh"].copy()
        client["fresh"][...] = False
        return some(client["sample"].copy(), fresh)

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """Eq. (5) and (10) for all samples: w <- w + mu sum_k a_k e_k z_k; or one after another."""
        if not message.heard.any():
            return
        w, samples = server["w"], message.values
        z, y = self.task.features(samples[..., :-1].astype(w.dtype)), samples[..., -1]
        if self.sequential:
            for i in np.unique(message.heard.nonzero()[-1]):
                self.learner.learn(w, z[..., i, :].copy(), y[..., i].copy(), self.step)
            return
        prediction, g = self.learner.both(w[..., None, :], z)
        w += ((self.step * (weights * (y - prediction)))[..., None, :] @ g)[..., 0, :]

    def decode(self, data: bytes, up: bool) -> Array:
        """One sample, or nothing."""
        return sized(super().decode(data, up), 0, self.task.taps + 1)

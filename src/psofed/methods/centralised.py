"""Centralised RFF-KLMS: every client sends its raw samples to one learner. A reference, not FL.

Source: RFF-KLMS (see local), with the samples of all clients at one place.

Faithful: form = "sequential" is RFF-KLMS on one stream of all samples.

Ours: form = "batch": one mean step for the samples of a round, which is Online-Fed with |S_n| = K.

Unverified: nothing that the result depends on.

Each round costs (L + 1) values up per client and nothing down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from psofed.core.schedule import Indices
from psofed.methods.contract import (
    Array,
    Common,
    Learns,
    Message,
    Messages,
    Plain,
    State,
    Task,
    Who,
    stack,
)


@dataclass(frozen=True)
class Options(Common):
    """One averaged step per round (batch), or one step per sample (sequential)."""

    name: ClassVar[str] = "centralised"
    uncoded: ClassVar[str] = "sends samples, not models"
    learners: ClassVar[Learns] = "descending"
    role: ClassVar[Literal["reference", "method", "control"]] = "control"
    everybody: ClassVar[bool] = True
    selects: ClassVar[bool] = True
    attackable: ClassVar[bool] = False
    form: Literal["batch", "sequential"] = "batch"

    def describe(self) -> str:
        return f"Centralised, {self.form}"


class Method(Plain):
    """Eq. (3) minimised by one learner that sees the samples of all clients."""

    setup = 0  # clients need no seed
    relays = True
    stacked = scripted = True

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.sequential = options.form == "sequential"
        self.scripted = type(self).scripted and not self.sequential

    def cohort(self, n: int, server: State) -> Indices:
        return self.task.cohorts.there(n)

    def client(self, k: int) -> State:
        """The newest sample, and whether it has not been sent yet."""
        return {"sample": self.task.zeros(self.task.taps + 1), "fresh": np.zeros((), bool)}

    def download(self, server: State, k: Who, n: int) -> Message:
        return None

    def receive(self, client: State, k: Who, n: int, message: Message) -> None:
        """Nothing comes down."""

    def learn(self, client: State, x: Array, z: Array, y: Any) -> None:
        """Keep the newest sample, to be sent."""
        client["sample"][..., :-1] = x
        client["sample"][..., -1] = y
        client["fresh"][...] = True

    def upload(self, client: State, k: Who, n: int) -> Messages:
        """The sample, once. A client without a new one reports nothing, and still counts."""
        fresh, rows = client["fresh"].copy(), client["sample"].copy()
        client["fresh"][...] = False
        if fresh.all():
            return rows
        nothing = self.task.zeros(0)
        if not fresh.ndim:
            return nothing
        each = zip(rows.reshape(-1, rows.shape[-1]), fresh.ravel().tolist(), strict=True)
        return [row if one else nothing for row, one in each]

    def lengths(self, n: int) -> tuple[int, ...] | None:
        return 0, self.task.taps + 1

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None:
        """Eq. (5) for all samples: w <- w + mu sum_k a_k e_k z_k at one w, or one after another."""
        _, samples, share = stack(uploads, weights)
        if not len(samples):
            return
        w = server["w"]
        z, y = self.task.features(samples[..., :-1].astype(w.dtype)), samples[..., -1]
        if self.sequential:
            for i in range(y.shape[-1]):
                self.learner.learn(w, z[..., i, :].copy(), y[..., i].copy(), self.step)
        elif w.ndim == 1:
            prediction, g = self.learner.both(w, z)
            w += self.step * (share * (y - prediction)) @ g
        else:
            prediction, g = self.learner.both(w[..., None, :], z)
            w += ((self.step * (share * (y - prediction)))[..., None, :] @ g)[..., 0, :]

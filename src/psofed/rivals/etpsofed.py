"""Event-triggered PSO-Fed: a client neither learns from a sample of small error nor uploads then.

Source: V. C. Gogineni, S. Werner, Y.-F. Huang, A. Kuh, "Communication-efficient online federated
learning strategies for kernel regression", IEEE Internet of Things J., 2023.

Faithful: PSO-Fed with an innovation check at the client, which saves computation and messages (so
the abstract): a sample whose error is below a threshold changes no model, of members of S_n and of
others, and a member whose last error was small does not upload. It still counts in |S_n|.

Ours: the threshold c is in units of the client's rms error (unit = "error": a fixed one, as in
set-membership filters); samples = "all", which learns from every sample and checks uploads only;
the one byte that says that nothing comes. Downloads are not skipped.

Unverified: the abstract was read, the body was not: the published threshold, whether a quiet client
also skips its download, and the divisor of the mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from psofed.contract import (
    Array,
    Coded,
    Indices,
    Message,
    PartialSharing,
    State,
    Task,
    Windows,
    payload,
    require,
    some,
)  # fmt: skip


@dataclass(frozen=True)
class ETPSOFed(Windows):
    """The options of PSO-Fed; the threshold c and its unit; which samples a client learns from."""

    name: ClassVar[str] = "etpsofed"
    coded: ClassVar[Coded] = "both"
    threshold: float = 0.6  # c, below which an error is small
    unit: Literal["rms", "error"] = "rms"  # of the threshold: the client's rms error, or 1
    samples: Literal["informative", "all"] = "informative"  # that a client learns from

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """M = D/5."""
        return (cls(max(dim // 5, 1)),)

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """M, the scheme and the threshold."""
        return {**super().choices(dim, rounds), "threshold": (0.3, 0.6, 1.0)}

    def describe(self) -> str:
        c = f"c={self.threshold:g}" if self.unit == "rms" else f"|e|>={self.threshold:g}"
        learns = "learns if informative" if self.samples == "informative" else "learns always"
        return f"ETPSO-Fed {c} {self.windows()}, {learns}"

    def check(self, dim: int, clients: int) -> None:
        """The windows are valid for PSO-Fed, the threshold is not negative."""
        super().check(dim, clients)
        require(self, "threshold", self.threshold >= 0, "use 0 or more")


Options = ETPSOFed


class Method(PartialSharing):
    """Algorithm 1 with a step, and an upload, only if |e_k| >= c sqrt(m_k), else w_k stays.

    m_k <- 0.99 m_k + 0.01 e_k^2 at every sample, m_k = 1 before the first; unit = "error": m_k = 1.
    """

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.threshold, self.adapts = options.threshold, options.unit == "rms"
        self.chooses = options.samples == "informative"

    def client(self) -> State:
        """Also m_k, and whether the last error was large."""
        return super().client() | {"square": np.ones(()), "fire": np.zeros(())}

    def learn(self, client: State, x: Array, z: Array, y: Array) -> None:
        """A step, undone where the error is small; then m_k."""
        w = client["w"]
        before = w.copy() if self.chooses else w
        error = self.learner.learn(w, z, y, self.step)
        # A model that has diverged fires, too: its error is not a number.
        quiet = np.abs(error) < self.threshold * np.sqrt(client["square"])
        if self.chooses:
            np.copyto(w, before, where=quiet[..., None])
        client["fire"][...] = ~quiet
        if self.adapts:
            client["square"][...] = 0.99 * client["square"] + 0.01 * np.square(error)

    def upload(self, client: State, k: Indices, n: int) -> Message:
        """S_{k,n+1} w_{k,n+1}, or an empty message; its client still counts in |S_n|."""
        return some(super().upload(client, k, n).values, client["fire"] > 0)

    def decode(self, data: bytes, up: bool) -> Array:
        """A window; of an upload, it may be empty."""
        return np.empty(0) if up and data == payload.NOTHING else super().decode(data, up)

"""ASO-Fed: the server folds in one client at a time; clients go on learning between contacts.

Source: Y. Chen, Y. Ning, M. Slawski, H. Rangwala, "Asynchronous online federated learning for edge
devices with non-IID data", IEEE Big Data 2020, arXiv 1911.02134.

Faithful: memory = true, lam > 0 and delays = "log": a client descends its loss and lam/2 times the
squared distance from the model it last received, along its gradient less the one before and plus an
average of older ones, with steps that grow with its delays; the server replaces the client's share
in its model, client by client, and replies with the result.

Ours: the clients that upload in round n are S_n, or `visitors` of them, instead of those who happen
to be ready; a gradient is that of one sample; replies come with the next round, barrier = true
after all of a round were folded. The default is the form that suits LMS: no memory, no proximal
term, no delays. The feature learning of the original (the model is rescaled by its own softmax) is
left out.

Unverified: the paper was not at hand: lam = 1 and beta = 0.001 are from memory, and so are the
signs of the memory, the base of the logarithm and what a delay is; public code disagrees on them.

With gradients of one sample the memory triples their noise, and steps by delay multiply mu by about
ln(K / |S_n|), which is 3.2 in the paper's setting: at mu = 0.75 each of them diverges. In one pilot
of 3 runs and 1,500 rounds there, the published form was stable at mu = 0.05 and diverged at 0.1.
Its lam = 1 keeps a client close to the model that it last received.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from psofed.contract import (
    ABSENT,
    Array,
    Coded,
    Common,
    Indices,
    Knob,
    Learns,
    Message,
    Plain,
    State,
    Task,
    at_least_one,
    equations,
    require,
    subsets,
)  # fmt: skip


@dataclass(frozen=True)
class ASOFed(Common):
    """Memory of gradients and its beta, proximal weight lam, steps by delay, replies at the end.

    Of each cohort at most `visitors` upload; not set: all of it.
    """

    name: ClassVar[str] = "asofed"
    knob: ClassVar[Knob | None] = Knob("visitors", clients=True)
    coded: ClassVar[Coded] = "both"
    learners: ClassVar[Learns] = "descending"
    selects: ClassVar[bool] = True
    gapless: ClassVar[bool] = True
    simulated: ClassVar[str] = "its replies belong to the round after, and a late one is no reply"
    memory: bool = False  # gradients are corrected by older ones
    lam: float = 0.0  # strength of the pull to the model received
    beta: float = 0.001  # share of the older in the memory
    delays: Literal["off", "log"] = "off"  # "log": steps grow with delays
    barrier: bool = False  # replies come after all of a round
    visitors: int | None = None  # of a cohort that upload at most; not set: all

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """The form that suits LMS, and the published one with a step at which it is stable."""
        return cls(), cls(memory=True, lam=1.0, delays="log", step=0.05)

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """How many visit the server in a round, and lam."""
        return {"visitors": (None, 1, 2), "lam": (0.0, 0.01, 0.1, 1.0)}

    def describe(self) -> str:
        """What is on: all parts of the original, or the names of those that are."""
        late = self.delays == "log"
        parts = ["memory" if self.memory else "no memory", *["log delays"] * late]
        if self.memory and late and self.lam > 0:
            parts = ["as published"]
        parts += [f"lam={self.lam:g}"] * (self.lam > 0) + ["barrier"] * self.barrier
        parts += [f"visitors={self.visitors}"] * (self.visitors is not None)
        return ", ".join(["ASO-Fed", *parts])

    def check(self, dim: int, clients: int) -> None:
        """lam is not negative, beta is a share, somebody visits."""
        at_least_one(self, "visitors")
        require(self, "lam", 0 <= self.lam < float("inf"), "use 0 or more")
        require(self, "beta", 0 <= self.beta <= 1, "use 0 to 1")


Options = ASOFed


class Method(Plain):
    """w_k <- w_k - r_k mu zeta_k for all k, zeta_k = grad, or grad - v_k + h_k with memory.

    grad = -e_k z_k + lam (w_k - c_k), c_k what k last received; h_k <- beta h_k + (1 - beta) v_k,
    then v_k <- grad. For k in S_n, one after another: w <- w + (w_k - o_k) n_k / sum n, o_k <- w_k,
    and w is the reply to k. All learn in every round, so n_k / sum n is 1/K. The reply reaches k
    when round n + 1 begins, before any client learns. With delays, r_k = max(1, ln of the mean
    number of rounds between two uploads of k).
    """

    idle = True
    several = False

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.options = options

    def visitors(self, n: int) -> Indices:
        """The clients that upload in round n, of S_n. There are none before round 0."""
        if n < 0:
            return np.empty(0, np.intp)
        cohort, most = self.task.cohorts.cohort(n), self.options.visitors
        if most is None or most >= len(cohort):
            return cohort
        u = self.task.seeds.uniforms("visitors", round=n, count=most)
        return cohort[subsets(u, len(cohort))]

    def cohort(self, n: int, server: State) -> Indices:
        """Those who upload in this round, and those of the last one, who now get their replies."""
        return np.union1d(self.visitors(n), self.visitors(n - 1))

    def server(self) -> State:
        """w, the last copies o_k, the replies, and the rounds that they answer."""
        K, D = self.task.places, self.task.dim
        copies = {"copy": np.tile(self.task.initial(), (K, 1)), "reply": self.task.zeros(K, D)}
        return super().server() | copies | {"visit": np.full(K, -2)}

    def client(self) -> State:
        """w_k, c_k, r_k, the number of visits; v_k and h_k only if they are needed."""
        zeros, D = self.task.zeros, self.task.dim
        state = super().client() | {"received": self.task.initial(), "visits": np.zeros(())}
        state["rate"] = np.ones((), self.task.dtype)
        return state | ({"v": zeros(D), "h": zeros(D)} if self.options.memory else {})

    def download(self, server: State, k: Indices, n: int) -> Message:
        """The replies to the uploads of the round before, if they arrived."""
        return _only(server["visit"][k] == n - 1, server["reply"][k])

    def receive(self, client: State, k: Indices, n: int, message: Message) -> None:
        """c_k <- w, w_k <- w."""
        here = message.heard
        if here.any():
            client["w"][here] = client["received"][here] = message.values[here]

    def learn(self, client: State, x: Array, z: Array, y: Array) -> None:
        """w_k <- w_k - r_k mu zeta_k."""
        w, lam, beta = client["w"], self.options.lam, self.options.beta
        prediction, g = self.learner.both(w, z)
        change = equations.descent(prediction - y, g, 1)
        if lam:
            change += lam * (w - client["received"])
        if self.options.memory:
            v, h = client["v"], client["h"]
            grad, change = change, change - v + h
            h[...] = beta * h + (1 - beta) * v
            v[...] = grad
        w -= (self.step * client["rate"])[..., None] * change

    def upload(self, client: State, k: Indices, n: int) -> Message:
        """w_k of clients in S_n; r_k follows from the rounds and the uploads so far."""
        here = (k[:, None] == self.visitors(n)).any(axis=1)
        visits = client["visits"]
        visits += here
        if self.options.delays == "log":
            rate = np.maximum(1.0, np.log((n + 1) / np.maximum(visits, 1)))
            client["rate"][here] = rate[here]
        return _only(here, client["w"])

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """w <- w + (w_k - o_k) / K, o_k <- w_k, one client after another."""
        w, here = server["w"], message.heard
        for one, w_k in zip(k[here].tolist(), message.values[here], strict=True):
            w += (w_k - server["copy"][one]) / self.task.clients
            server["copy"][one] = w_k
            server["reply"][one] = w
            server["visit"][one] = n
        if self.options.barrier:
            server["reply"][k[here]] = w

    def decode(self, data: bytes, up: bool) -> Array:
        """A whole model."""
        values = super().decode(data, up)
        if len(values) != self.task.dim:
            raise ValueError(f"{len(values)} values, not {self.task.dim}")
        return values


def _only(sent: Array, values: Array) -> Message:
    """The rows of those who `sent` them [s], and nothing of the others."""
    length = np.where(sent, values.shape[-1], ABSENT)
    return Message(np.where(sent[:, None], values, values.dtype.type(0)), length)

"""POF-MKL: several kernels, weighed by each client for itself; uploads are of some of them.

Source: P. M. Ghari, Y. Shen, "Personalized online federated learning with multiple kernels",
NeurIPS 2022, arXiv 2311.05108; checked with the authors' code (github.com/pouyamghari/POF-MKL).

Faithful: every kernel p has random features z_p and a global model theta_p, trained by the error of
its own prediction. A client predicts by sum_p a_p theta_p^T z_p, with weights a_p that are its own:
a_p <- a_p exp(-eta loss_p). It orders the kernels by weight, cuts them into bins of M, draws a bin
with probability (1 - zeta) times its share of the weights plus zeta / bins, and uploads the update
of these kernels alone, divided by the probability.

Ours: the kernels are parts of the D features, one after another and about equal: with `widths` in
[features] each has a width of its own. Cohorts, in which the original has all clients in every
round; those not selected go on weighing kernels, by the global models of their last contact. E
local steps; the original has one. The regulariser of the original is left out. The global model
that is judged weighs all kernels alike, because the server does not know the weights.

Unverified: whether the bin is drawn before or after the weights learn from the sample of the round
(here: after); the settings of the paper, which are not used.

Only the uplink shrinks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar, Self

import numpy as np

from psofed.contract import (
    Ahead,
    Array,
    Coded,
    Compressed,
    Indices,
    InputError,
    Learner,
    Learns,
    Message,
    Paced,
    State,
    Task,
    at_least_one,
    coding,
    payload,
    require,
    sized,
)


class Kernels:
    """D features in parts, each of one kernel, scaled such that |z_p|^2 is about 1.

    >>> Kernels(10, 3).sizes.tolist()
    [4, 3, 3]
    """

    def __init__(self, dim: int, count: int, dtype: Any = np.float64) -> None:
        self.sizes = np.array([len(part) for part in np.array_split(np.arange(dim), count)])
        ends = np.cumsum(self.sizes).tolist()
        self.parts = [slice(end - size, end) for end, size in zip(ends, self.sizes, strict=True)]
        self.scale = self.spread(np.sqrt(dim / self.sizes)).astype(dtype)

    def spread(self, values: Array) -> Array:
        """A value [..., P] of each kernel for all of its features, [..., D]."""
        return np.repeat(values, self.sizes, axis=-1)

    def predict(self, learner: Learner, theta: Array, z: Array) -> Array:
        """theta_p^T z_p of each kernel, [..., P]."""
        found = [learner.predict(theta[..., part], z[..., part]) for part in self.parts]
        return np.stack(found, axis=-1)

    def learn(self, learner: Learner, theta: Array, z: Array, y: Array, step: Any) -> Array:
        """A step of each theta_p by its own error. In place; returns the errors before it."""
        found = [learner.learn(theta[..., part], z[..., part], y, step) for part in self.parts]
        return np.stack(found, axis=-1)


def weigh(logs: Array, losses: Array) -> None:
    """a_p <- a_p exp(-losses), as logarithms of which the largest is 0. In place."""
    logs -= losses
    logs -= logs.max(axis=-1, keepdims=True)


def shares(logs: Array) -> Array:
    """The weights, which sum to 1."""
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class POFMKL(Paced):
    """P kernels, M of them in an upload, the rate eta of their weights, zeta and E."""

    name: ClassVar[str] = "pofmkl"
    coded: ClassVar[Coded] = "down"
    learners: ClassVar[Learns] = "linear"
    kernels: int = 3  # P, parts of the features
    sent: int = 1  # M, kernels in an upload
    rate: float = 0.1  # eta of the weights
    explore: float = 0.5  # zeta, share of uniform draws
    local_steps: int = 1  # E, rounds of a block

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """As many kernels as there are features."""
        return (cls(kernels=min(cls.kernels, dim)),)

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """E, M and eta."""
        sent = tuple(range(1, min(cls.kernels, dim) + 1))
        own = {"sent": sent, "rate": (0.01, 0.1, 1.0)}
        return {**super().choices(dim, rounds), **own}

    def describe(self) -> str:
        steps = f" E={self.local_steps}" * (self.local_steps > 1)
        kernels = f"{self.sent} of {self.kernels} kernel{'s' * (self.kernels > 1)}"
        return f"POF-MKL {kernels} eta={self.rate:g}{steps}"

    def check(self, dim: int, clients: int) -> None:
        """There are features for each kernel, and the rates are rates."""
        check_kernels(self, dim)
        if not 1 <= self.sent <= self.kernels:
            raise InputError("sent", f"is {self.sent}", f"use 1 to {self.kernels}, all kernels")
        require(self, "explore", 0 < self.explore <= 1, "use a share above 0, 1 at most")


Options = POFMKL


def check_kernels(options: Any, dim: int) -> None:
    """Refuse kernels without features, a negative rate of their weights, and E below 1."""
    at_least_one(options, "local_steps", "kernels")
    if options.kernels > dim:
        raise InputError("kernels", f"is {options.kernels}, but dim is {dim}", f"use 1 to {dim}")
    require(options, "rate", 0 <= options.rate < np.inf, "use 0 or more")


class Method(Compressed):
    """theta_p <- theta_p + sum_k a_k U_k, U_k the update of a bin over the bin's probability."""

    idle = True

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.kernels = Kernels(task.dim, options.kernels, task.dtype)
        self.rate, self.explore, self.sent = options.rate, options.explore, options.sent
        self.most = int(np.sort(self.kernels.sizes)[-self.sent :].sum())  # values of an upload
        self.bins = ceil(options.kernels / self.sent)
        self.luck = Ahead(self._uniforms, task.cohorts, 1)

    def _uniforms(self, k: Any, n: Any) -> Array:
        return self.task.seeds.uniforms("pofmkl", client=k, round=n, count=1)

    def client(self) -> State:
        """Also the logarithms of the weights of the kernels."""
        return super().client() | {"weights": self.task.zeros(len(self.kernels.sizes))}

    def learn(self, client: State, x: Array, z: Array, y: Array) -> None:
        """A step of all kernels; their weights fall by the losses of the models that came down."""
        z = z * self.kernels.scale
        errors = y[..., None] - self.kernels.predict(self.learner, client["start"], z)
        weigh(client["weights"], self.rate * np.square(errors))
        self.kernels.learn(self.learner, client["w"], z, y, self.step)

    def models(self, server: State | None, clients: State) -> Array:
        """What is linear in z: the mean of the kernels; of clients, their own weighted mean."""
        scale, count = self.kernels.scale, len(self.kernels.sizes)
        if server is not None:
            return server["w"] * (scale / count).astype(scale.dtype)
        return clients["start"] * scale * self.kernels.spread(shares(clients["weights"]))

    def pack(self, client: State, h: Array, k: Indices, n: int) -> Message:
        """Which kernels are in the bin, and h of these, over the probability of the bin."""
        chosen, chance = self._drawn(shares(client["weights"]), self.luck(k, n))
        here = self.kernels.spread(chosen)
        first = np.argsort(~here, axis=-1, kind="stable")[..., : self.most]
        values = np.take_along_axis(np.where(here, h, 0), first, axis=-1) / chance
        packed = np.concatenate([chosen, values], axis=-1, dtype=h.dtype)
        return Message(packed, chosen.shape[-1] + here.sum(axis=-1))

    def _drawn(self, weights: Array, luck: Array) -> tuple[Array, Array]:
        """The kernels [..., P] of a bin that was drawn, and its probability [..., 1]."""
        order = np.argsort(-weights, axis=-1, kind="stable")
        number = np.argsort(order, axis=-1, kind="stable") // self.sent  # of each kernel's bin
        member = number[..., None, :] == np.arange(self.bins)[:, None]
        mass = np.where(member, weights[..., None, :], 0).sum(axis=-1)
        chances = (1 - self.explore) * mass + self.explore / self.bins
        below = np.cumsum(chances[..., :-1], axis=-1) <= luck
        drawn = below.sum(axis=-1, keepdims=True)
        return number == drawn, np.take_along_axis(chances, drawn, axis=-1)

    def unpack(self, message: Message, k: Indices, n: int) -> Array:
        """U_k, 0 for the kernels that did not come."""
        count = len(self.kernels.sizes)
        here = self.kernels.spread(message.values[..., :count] > 0)
        values, place = message.values[..., count:], np.cumsum(here, axis=-1) - 1
        if not values.shape[-1]:
            return np.zeros(here.shape, message.values.dtype)
        place = np.clip(place, 0, values.shape[-1] - 1)
        return np.where(here, np.take_along_axis(values, place, axis=-1), 0)

    def encode(self, values: Array, up: bool) -> bytes:
        """Up: a bitmap of the kernels, then the values of those that are sent."""
        if not up:
            return super().encode(values, up)
        count = len(self.kernels.sizes)
        bitmap = np.packbits(values[:count] > 0).tobytes()
        return bitmap + payload.encode(values[count:], self.task.wire)

    def decode(self, data: bytes, up: bool) -> Array:
        if not up:
            return super().decode(data, up)
        count = len(self.kernels.sizes)
        head = ceil(count / 8)
        bitmap = coding.unpack_bits(data[:head], count)
        values = payload.decode(data[head:], self.task.wire)
        sized(values, int(self.kernels.sizes[bitmap > 0].sum()))
        return np.concatenate([bitmap, values])

"""FedAvg on streams: E local steps on whole models between two averages.

Source: H. B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Agüera y Arcas, "Communication-efficient
learning of deep networks from decentralized data", AISTATS 2017, arXiv 1602.05629.

Faithful: a cohort downloads the model, makes E local gradient steps, and the server takes the mean
of the models that come back; the weights n_k / n are equal, since all clients have as many samples.

Ours: on a stream E is a number of consecutive samples, not of passes over stored data; a batch is
one sample, and the cohort of a block is the one drawn for its first round.

Unverified: the original's settings (5 passes, batches of 10, 10 % of the clients) are from memory.

At E = D/M it costs as much as PSO-Fed with M, so a fair comparison includes both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from psofed.core.schedule import Indices
from psofed.errors import InputError
from psofed.methods.contract import (
    Array,
    Coded,
    Common,
    Knob,
    Message,
    Messages,
    Plain,
    State,
    Task,
    Who,
    geometric,
    stack,
)


class Paced(Common):
    """Options with E, the rounds of a block, which sets the traffic of FedAvg and its variants."""

    knob: ClassVar[Knob | None] = Knob(
        "local_steps", more=False, most=lambda dim, rounds: max(rounds // 20, 1),
        beyond="would exchange models less than every {} rounds",
    )  # fmt: skip
    local_steps: int

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """E, up to a twentieth of the rounds."""
        return {"local_steps": steps(rounds)}

    @property
    def pace(self) -> int:
        """A block ends with an upload."""
        return self.local_steps


@dataclass(frozen=True)
class Options(Paced):
    """The options of FedAvg: E."""

    name: ClassVar[str] = "fedavg"
    expected: ClassVar[bool] = True
    coded: ClassVar[Coded] = "both"
    local_steps: int = 5

    def describe(self) -> str:
        return f"FedAvg E={self.local_steps}"

    def check(self, dim: int, clients: int) -> None:
        """E is at least 1."""
        at_least_one(self, "local_steps")


def steps(rounds: int) -> tuple[int, ...]:
    """E to try: a run has at least 20 blocks, if it has 20 rounds."""
    return geometric(1, rounds // 20)


def at_least_one(options: Any, *fields: str) -> None:
    """Refuse counts below 1."""
    for field in fields:
        value = getattr(options, field)
        if value is not None and value < 1:
            raise InputError(field, f"is {value}", "use 1 or more")


class Blocks(Plain):
    """Rounds in blocks of E, each with one cohort. A base class, named before the method's."""

    restless = True  # a block may end in silence

    def __init__(self, options: Any, task: Task) -> None:
        super().__init__(options, task)
        self.local_steps = options.local_steps

    def begins(self, n: int) -> bool:
        """Whether a block begins with round n."""
        return n % self.local_steps == 0

    def ends(self, n: int) -> bool:
        """Whether a block ends with round n."""
        return (n + 1) % self.local_steps == 0

    def cohort(self, n: int, server: State) -> Indices:
        """The cohort of a block is that of its first round."""
        return self.task.cohorts.cohort(self._first(n))

    def _first(self, n: int) -> int:
        """The round in which the block of round n begins."""
        return n - n % self.local_steps

    def welcome(self, server: State, k: int, n: int) -> Any:
        """What comes down where a block begins, also to those who begin anew within one."""
        return super().welcome(server, k, self._first(n))

    def welcomed(self, client: State, k: int, n: int, message: Any) -> None:
        super().welcomed(client, k, self._first(n), message)

    def welcomes(self, k: int, n: int) -> tuple[int | None, ...]:
        return super().welcomes(k, self._first(n))


class Method(Blocks):
    """Blocks of E rounds; a block's cohort downloads first, learns in every round, uploads last.

    w_{n+1} = w_n + sum_k a_k (w_k - w_n) at the end of a block. An unfinished last block is not
    uploaded. Clients that are not selected would be overwritten, so they do not learn.
    """

    common = True
    stacked = scripted = entrywise = sums = True

    def download(self, server: State, k: Who, n: int) -> Message:
        """w_n, at the beginning of a block."""
        return server["w"].copy() if self.begins(n) else None

    def receive(self, client: State, k: Who, n: int, message: Message) -> None:
        """w_k <- w_n."""
        if message is not None:
            client["w"][:] = message

    def learn(self, client: State, x: Array, z: Array, y: Any) -> None:
        """Eq. (5)."""
        self.learner.learn(client["w"], z, y, self.step)

    def upload(self, client: State, k: Who, n: int) -> Messages:
        """w_k, at the end of a block."""
        return client["w"].copy() if self.ends(n) else None

    def lengths(self, n: int) -> tuple[int, ...] | None:
        return (self.task.dim,) if self.ends(n) else ()

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None:
        """Eq. (6), as a sum of differences."""
        if not self.ends(n):
            return
        _, models, shares = stack(uploads, weights)
        if len(models):
            server["w"] += shares @ (models - server["w"][..., None, :])


class Anchored(Method):
    """FedAvg whose clients remember the model that a block began with."""

    def client(self, k: int) -> State:
        """w_k, and the model it started the block from."""
        return {"w": self.task.initial(), "start": self.task.initial()}

    def receive(self, client: State, k: Who, n: int, message: Message) -> None:
        """w_k <- w_n, and w_n is remembered."""
        if message is not None:
            client["w"][:] = message
            client["start"][:] = message


class Compressed(Anchored, ABC):
    """FedAvg whose clients send their update h = w_k - w_n in another form.

    A method of this kind writes `pack`, what is sent for h, and `unpack`, the update U_k that the
    server reads from it: w_{n+1} = w_n + sum_k a_k U_k.
    """

    def upload(self, client: State, k: Who, n: int) -> Messages:
        """The packed update, at the end of a block."""
        return self.pack(client, client["w"] - client["start"], k, n) if self.ends(n) else None

    def lengths(self, n: int) -> tuple[int, ...] | None:
        return None if self.ends(n) else ()

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None:
        """w_{n+1} = w_n + sum_k a_k U_k; a client with an empty message still counts."""
        if not self.ends(n):
            return
        if self.stacked:
            ks, messages, shares = stack(uploads, weights)
            if len(ks):
                server["w"] += shares @ self.unpack(messages, ks, n)
            return
        for k, message in uploads.items():
            if message is not None and len(message):
                server["w"] += weights[k] * self.unpack(message, k, n)

    def touched(self, server: State, n: int, uploads: Mapping[int, Message]) -> Any:
        """The entries that any U_k changes."""
        heard = {k: m for k, m in uploads.items() if m is not None and len(m)}
        found = np.zeros(self.task.dim, bool)
        for k, message in heard.items():
            found |= self.unpack(message, k, n) != 0
        return found

    @abstractmethod
    def pack(self, client: State, h: Array, k: Any, n: int) -> Any:
        """What is sent for the update h."""

    @abstractmethod
    def unpack(self, message: Any, k: Any, n: int) -> Array:
        """U_k; of several clients at once, if the class is stacked."""

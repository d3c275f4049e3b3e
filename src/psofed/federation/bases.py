"""What many methods derive from: windows of M of D entries, blocks of E rounds on whole models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, gcd
from typing import Any, ClassVar, Literal, Self

from psofed.core.schedule import Groups, Indices, Schedule, Sequential, Stochastic, is_even
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.federation.contract import Array, Message, Plain, State, Task, same, sized, whole
from psofed.federation.options import Common, Knob, geometric

Scheme = Literal["coordinated", "uncoordinated"]
SCHEMES: tuple[Scheme, ...] = ("coordinated", "uncoordinated")


@dataclass(frozen=True)
class Windows(Common):
    """M, how windows are chosen, and whether idle clients learn."""

    knob: ClassVar[Knob | None] = Knob("shared")
    shared: int = 40  # M, entries in a message
    scheme: Scheme = "uncoordinated"  # whether windows are common to all clients
    selection: Literal["sequential", "stochastic"] = "sequential"  # in turn, or drawn
    mask: Literal["subset", "block", "groups"] = "subset"  # random, or neighbours
    shift: int | None = None  # tau; not set: 1, of blocks M
    idle: bool = True  # clients also learn when not selected
    allow_uneven: bool = False  # also if some entries travel more often

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """M and the scheme."""
        return {"shared": geometric(1, dim), "scheme": SCHEMES}

    @property
    def sharing(self) -> tuple[int | None, str]:
        """M and the scheme."""
        return self.shared, self.scheme

    def turned(self, value: Any, dim: int) -> Self:
        """Blocks do not overlap if M divides D."""
        if self.mask == "block":
            value = max(d for d in range(1, value + 1) if dim % d == 0)
        return super().turned(value, dim)

    @property
    def tau(self) -> int:
        """tau: 1 with subsets; M with blocks, because a block shifted by 1 overlaps itself."""
        if self.shift is not None:
            return self.shift
        return self.shared if self.mask == "block" else 1

    def windows(self) -> str:
        """M, the scheme and what is not the default, also for methods built on these options."""
        groups, words = self.mask == "groups", [f"M={self.shared} {self.scheme}"]
        if self.selection == "stochastic":
            words.append("random groups" if groups else "random windows")
        elif self.mask != "subset":
            words.append("groups in turn" if groups else "blocks")
        words += [] if self.shift is None else [f"shift {self.shift}"]
        return ", ".join(words if self.idle else [*words, "no idle"])

    def check(self, dim: int, clients: int) -> None:
        """Refuse a window that does not fit, and a schedule that leaves out entries."""
        if not 1 <= self.shared <= dim:
            raise InputError("shared", f"is {self.shared}, but dim is {dim}", f"use 1 to {dim}")
        if self.mask == "groups" and self.shift is not None:
            found = f"is {self.shift}, but groups are whole windows that take turns"
            raise InputError("shift", found, 'leave it out, or use mask = "block"')
        if self.selection == "stochastic" and self.shift is not None:
            found = f"is {self.shift}, but stochastic windows are drawn anew in each round"
            raise InputError("shift", found, 'leave it out, or use selection = "sequential"')
        if self.selection == "stochastic" and self.mask == "block":
            found = "is 'block', but stochastic windows are scattered, or groups"
            raise InputError("mask", found, 'leave it out, or use selection = "sequential"')
        if self.selection == "stochastic" or self.mask == "groups" or self.allow_uneven:
            return
        if not is_even(dim, self.shared, self.tau, self.mask == "block"):
            g = gcd(self.tau, dim)
            right = f"use a shift that has no common divisor with {dim}, e.g. 1"
            if self.mask == "block" and self.shift is None:
                right = f"make shared a divisor of {dim}, or give a shift such as 1"
            found = (
                f"is {self.tau}: with dim = {dim} and shared = {self.shared} some entries are"
                f" exchanged more often than others or never (gcd {g})"
            )
            raise InputError("shift", found, right + "; allow_uneven = true runs it anyway")

    def schedule(self, task: Task) -> Schedule:
        """S_{k,n} for all k and n."""
        if self.mask != "groups":
            return self._turns(task.seeds, task.dim)
        one_of = replace(self, shared=1, mask="block")
        turns = one_of._turns(task.seeds, ceil(task.dim / self.shared))
        return Groups(turns, task.dim, self.shared)

    def _turns(self, seeds: Seeds, dim: int) -> Schedule:
        coordinated, block = self.scheme == "coordinated", self.mask == "block"
        if self.selection == "stochastic":
            return Stochastic(seeds, dim, self.shared, coordinated)
        return Sequential(seeds, dim, self.shared, self.tau, coordinated, block)


class Paced(Common):
    """Options with E, the rounds of a block, which sets the traffic of FedAvg and its variants."""

    knob: ClassVar[Knob | None] = Knob(
        "local_steps", more=False, most=lambda dim, rounds: rounds,
        beyond="would exchange models less than every {} rounds",
    )  # fmt: skip
    local_steps: int

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """E, up to the whole run."""
        return {"local_steps": steps(rounds)}

    @property
    def pace(self) -> int:
        """A block ends with an upload."""
        return self.local_steps


def steps(rounds: int) -> tuple[int, ...]:
    """E to try, each four or five times the one before; a search also tries what is between."""
    return tuple(E for p in range(5) for E in (100**p, 5 * 100**p, 20 * 100**p) if rounds >= E)


def at_least_one(options: Any, *fields: str) -> None:
    """Refuse counts below 1."""
    for field in fields:
        value = getattr(options, field)
        if value is not None and value < 1:
            raise InputError(field, f"is {value}", "use 1 or more")


class LocalSteps(Plain):
    """A block's cohort downloads w_n, makes E local steps and uploads w_k.

    w_{n+1} = w_n + sum_k a_k (w_k - w_n) at the end of a block. An unfinished last block is not
    uploaded. Clients that are not selected would be overwritten, so they do not learn.
    """

    delivery = "common"
    entrywise = True

    def download(self, server: State, k: Indices, n: int) -> Message:
        """w_n, at the beginning of a block."""
        return same(server["w"], k)

    def receive(self, client: State, k: Indices, n: int, message: Message) -> None:
        """w_k <- w_n."""
        client["w"][:] = message.values

    def upload(self, client: State, k: Indices, n: int) -> Message:
        """w_k, at the end of a block."""
        return whole(client["w"].copy())

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """Eq. (6), as a sum of differences."""
        if message.heard.any():
            change = message.values - server["w"][..., None, :]
            server["w"] += (weights[..., None, :] @ change)[..., 0, :]


class Anchored(LocalSteps):
    """The same, where clients remember the model that a block began with."""

    def client(self) -> State:
        """w_k, and the model it started the block from."""
        return {"w": self.task.initial(), "start": self.task.initial()}

    def receive(self, client: State, k: Indices, n: int, message: Message) -> None:
        """w_k <- w_n, and w_n is remembered."""
        client["w"][:] = message.values
        client["start"][:] = message.values


class Compressed(Anchored, ABC):
    """The same, where clients send their update h = w_k - w_n in another form.

    A method of this kind writes `pack`, what is sent for h, and `unpack`, the update U_k that the
    server reads from it: w_{n+1} = w_n + sum_k a_k U_k.
    """

    entrywise = False

    def __init__(self, options: Common, task: Task) -> None:
        super().__init__(options, task)
        self.count = task.dim  # values of an upload that has no code of its own

    def upload(self, client: State, k: Indices, n: int) -> Message:
        """The packed update, at the end of a block."""
        return self.pack(client, client["w"] - client["start"], k, n)

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """w_{n+1} = w_n + sum_k a_k U_k; a client without values still counts."""
        if message.heard.any():
            update = self.unpack(message, k, n)
            server["w"] += (weights[..., None, :] @ update)[..., 0, :]

    def decode(self, data: bytes, up: bool) -> Array:
        """w_n, which goes down, or an upload without a code of its own."""
        return sized(super().decode(data, up), self.count if up else self.task.dim)

    @abstractmethod
    def pack(self, client: State, h: Array, k: Indices, n: int) -> Message:
        """What is sent for the updates h [..., s, D]."""

    @abstractmethod
    def unpack(self, message: Message, k: Indices, n: int) -> Array:
        """U_k [..., s, D]."""

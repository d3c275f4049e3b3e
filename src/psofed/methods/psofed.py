"""PSO-Fed: exchange M of D entries per round; clients also learn when they are not selected.

Source: V. C. Gogineni, S. Werner, Y.-F. Huang, A. Kuh, "Communication-Efficient Online Federated
Learning Framework for Nonlinear Regression", ICASSP 2022, arXiv 2110.06556, Algorithm 1.

Faithful: eq. (8) to (11): window n down, window n + 1 up, circular shifts, idle learning, both
schemes, the mean over |S_n|.

Ours: what it leaves open: the initial mask is a random subset and the shift is 1 (mask = "block":
neighbouring entries and a shift of M; "groups": ceil(D/M) fixed ones); selection = "stochastic"
draws fresh windows; idle = false.

Unverified: the paper does not say which mask, shift and kernel width its figures have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, gcd
from typing import Any, ClassVar, Literal, Self

from psofed.core import equations
from psofed.core.schedule import (
    Ahead,
    Groups,
    Indices,
    Schedule,
    Sequential,
    Stochastic,
    is_even,
)
from psofed.core.seeds import Seeds
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

Scheme = Literal["coordinated", "uncoordinated"]
SCHEMES: tuple[Scheme, ...] = ("coordinated", "uncoordinated")


@dataclass(frozen=True)
class Options(Common):
    """The options of PSO-Fed: M, how windows are chosen, and whether idle clients learn."""

    name: ClassVar[str] = "psofed"
    knob: ClassVar[Knob | None] = Knob("shared")
    coded: ClassVar[Coded] = "both"
    shared: int = 40
    scheme: Scheme = "uncoordinated"
    selection: Literal["sequential", "stochastic"] = "sequential"
    mask: Literal["subset", "block", "groups"] = "subset"
    shift: int | None = None
    idle: bool = True
    allow_uneven: bool = False

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """M = D/5, in both schemes."""
        return tuple(cls(max(dim // 5, 1), scheme) for scheme in SCHEMES)

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """M; and the scheme, where the forms that are compared do not have both."""
        found = {"shared": geometric(1, dim)}
        return found if cls is Options else {**found, "scheme": SCHEMES}

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

    def describe(self) -> str:
        return f"PSO-Fed {self.windows()}"

    def windows(self) -> str:
        """M and the scheme as text, also for the titles of methods built on these options."""
        turns = "groups in turn" if self.selection == "sequential" else "random groups"
        groups = f", {turns}" if self.mask == "groups" else ""
        return f"M={self.shared} {self.scheme}{groups}{'' if self.idle else ', no idle'}"

    def check(self, dim: int, clients: int) -> None:
        """Refuse a window that does not fit, and a schedule that leaves out entries."""
        if not 1 <= self.shared <= dim:
            raise InputError("shared", f"is {self.shared}, but dim is {dim}", f"use 1 to {dim}")
        if self.mask == "groups" and self.shift is not None:
            found = f"is {self.shift}, but groups are whole windows that take turns"
            raise InputError("shift", found, 'leave it out, or use mask = "block"')
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
            raise InputError("shift", found, right + "; allow_uneven = true runs it all the same")


class Method(Plain):
    """Algorithm 1. A subclass that changes no handler may declare itself `compiled` too."""

    stacked = compiled = scripted = entrywise = sums = True

    def __init__(self, options: Options, task: Task, schedule: Schedule | None = None) -> None:
        super().__init__(options, task)
        self.idle = options.idle
        self.shared = options.shared
        self.common = options.scheme == "coordinated" or options.shared == task.dim
        self.schedule: Schedule = schedule or _schedule(options, task)
        if isinstance(self.schedule, Groups):
            self.compiled = False  # the kernel has windows that rotate, or fresh ones
        # The window S_{k,n}, which goes down in round n, and the next one, which goes up in it.
        self.down = Ahead(self.schedule.entries, task.cohorts, self.shared)
        self.up = Ahead(lambda k, n: self.schedule.entries(k, n + 1), task.cohorts, self.shared)

    @property
    def waits(self) -> bool:
        """Without idle learning, or where a download overwrites at least half of the model."""
        return not self.idle or 2 * self.shared >= self.task.dim

    def download(self, server: State, k: Who, n: int) -> Message:
        """S_{k,n} w_n."""
        return equations.share(server["w"], self.down(k, n))

    def receive(self, client: State, k: Who, n: int, message: Message) -> None:
        """Eq. (9): S_{k,n} w_n + (I - S_{k,n}) w_{k,n}."""
        if message is not None:
            equations.receive(client["w"], self.down(k, n), message)

    def welcome(self, server: State, k: int, n: int) -> Message:
        """All of w_n: entries of a fresh model that have not come down are worth nothing."""
        return server["w"].copy() if self._whole else super().welcome(server, k, n)

    def welcomed(self, client: State, k: int, n: int, message: Any) -> None:
        """w_{k,n} = w_n."""
        if self._whole:
            client["w"][:] = message
        else:
            super().welcomed(client, k, n, message)

    def welcomes(self, k: int, n: int) -> tuple[int | None, ...]:
        return (self.task.dim,) if self._whole else super().welcomes(k, n)

    @property
    def _whole(self) -> bool:
        """Whether messages are entries of a model of which clients keep those that do not come."""
        return self.entrywise and self.idle

    def learn(self, client: State, x: Array, z: Array, y: Any) -> None:
        """Eq. (10), for members of the cohort and for all other clients."""
        self.learner.learn(client["w"], z, y, self.step)

    def upload(self, client: State, k: Who, n: int) -> Messages:
        """S_{k,n+1} w_{k,n+1}: the *next* window."""
        return equations.share(client["w"], self.up(k, n))

    def entries(self, k: Indices, n: Indices, up: bool) -> Indices:
        """S_{k,n} down, S_{k,n+1} up."""
        return self.schedule.entries(k, n + up)

    def lengths(self, n: int) -> tuple[int, ...] | None:
        return (self.shared,)

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None:
        """Eq. (11)."""
        ks, values, shares = stack(uploads, weights)
        if len(ks):
            equations.fold(server["w"], self.up(ks, n), values, shares)

    def touched(self, server: State, n: int, uploads: Mapping[int, Message]) -> Any:
        """The windows that came up."""
        ks, _, _ = stack(uploads, dict.fromkeys(uploads, 0.0))
        return self.up(ks, n).ravel() if len(ks) else slice(0)


def _schedule(options: Options, task: Task) -> Schedule:
    if options.mask != "groups":
        return _windows(options, task.seeds, task.dim)
    one_of = replace(options, shared=1, mask="block")
    turns = _windows(one_of, task.seeds, ceil(task.dim / options.shared))
    return Groups(turns, task.dim, options.shared)


def _windows(options: Options, seeds: Seeds, dim: int) -> Schedule:
    coordinated, block = options.scheme == "coordinated", options.mask == "block"
    if options.selection == "stochastic":
        return Stochastic(seeds, dim, options.shared, coordinated)
    return Sequential(seeds, dim, options.shared, options.tau, coordinated, block)

"""PSO-Fed: exchange M of D entries per round, learn on when not selected.

V. C. Gogineni, S. Werner, Y.-F. Huang, A. Kuh, "Communication-Efficient Online Federated Learning
Framework for Nonlinear Regression", ICASSP 2022, arXiv 2110.06556, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any, ClassVar, Literal

from psofed.core import sharing
from psofed.core.ahead import Ahead
from psofed.core.schedule import Schedule, Sequential, Stochastic, is_even
from psofed.errors import InputError
from psofed.methods.contract import Array, Common, Message, Messages, Plain, State, Task, Who, stack


@dataclass(frozen=True)
class Options(Common):
    """The options of PSO-Fed: M, how windows are chosen, and whether idle clients learn."""

    name: ClassVar[str] = "psofed"
    knob: ClassVar[str] = "shared"
    shared: int = 40
    scheme: Literal["coordinated", "uncoordinated"] = "uncoordinated"
    selection: Literal["sequential", "stochastic"] = "sequential"
    mask: Literal["subset", "block"] = "subset"
    shift: int | None = None
    idle: bool = True
    allow_uneven: bool = False

    @property
    def tau(self) -> int:
        """tau: 1 with subsets; M with blocks, because a block shifted by 1 overlaps itself."""
        if self.shift is not None:
            return self.shift
        return self.shared if self.mask == "block" else 1

    def describe(self) -> str:
        return f"PSO-Fed {self.windows()}"

    def windows(self) -> str:
        """What travels, in short; methods built on these options put their own words before it."""
        return f"M={self.shared} {self.scheme}{'' if self.idle else ', no idle'}"

    def check(self, dim: int, clients: int) -> None:
        """Refuse a window that does not fit, and a schedule that starves entries."""
        if not 1 <= self.shared <= dim:
            raise InputError("shared", f"is {self.shared}, but dim is {dim}", f"use 1 to {dim}")
        if self.selection == "stochastic" or self.allow_uneven:
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
    """Algorithm 1. A subclass that changes no handler is run by the compiled kernel too."""

    stacked = True

    def __init__(self, options: Options, task: Task, schedule: Schedule | None = None) -> None:
        super().__init__(options, task)
        self.idle = options.idle
        self.shared = options.shared
        self.common = options.scheme == "coordinated" or options.shared == task.dim
        self.schedule: Schedule = schedule or _schedule(options, task)
        # The window S_{k,n}, which goes down in round n, and the next one, which goes up in it.
        self.down = Ahead(self.schedule.entries, task.cohorts, self.shared)
        self.up = Ahead(lambda k, n: self.schedule.entries(k, n + 1), task.cohorts, self.shared)

    def download(self, server: State, k: Who, n: int) -> Message:
        """S_{k,n} w_n."""
        return sharing.share(server["w"], self.down(k, n))

    def receive(self, client: State, k: Who, n: int, message: Message) -> None:
        """Eq. (9): S_{k,n} w_n + (I - S_{k,n}) w_{k,n}."""
        if message is not None:
            sharing.receive(client["w"], self.down(k, n), message)

    def learn(self, client: State, x: Array, z: Array, y: Any) -> None:
        """Eq. (10), for members of the cohort and for everybody else."""
        self.lms(client["w"], z, y, self.step)

    def upload(self, client: State, k: Who, n: int) -> Messages:
        """S_{k,n+1} w_{k,n+1}: the *next* window."""
        return sharing.share(client["w"], self.up(k, n))

    def lengths(self, n: int) -> tuple[int, ...] | None:
        return (self.shared,)

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None:
        """Eq. (11)."""
        ks, values, shares = stack(uploads, weights)
        if len(ks):
            sharing.fold(server["w"], self.up(ks, n), values, shares)


def is_pure(method: object) -> bool:
    """Whether this is PSO-Fed itself, with no handler changed: what kernel and theory know."""
    own = ("cohort", "server", "client", "download", "receive", "learn", "upload", "fold",
           "encode", "models")  # fmt: skip
    if getattr(method, "policy", None) is not None:
        return False
    return all(getattr(type(method), name, None) is getattr(Method, name) for name in own)


def _schedule(options: Options, task: Task) -> Schedule:
    coordinated = options.scheme == "coordinated"
    if options.selection == "stochastic":
        return Stochastic(task.seeds, task.dim, options.shared, coordinated)
    block = options.mask == "block"
    return Sequential(task.seeds, task.dim, options.shared, options.tau, coordinated, block)

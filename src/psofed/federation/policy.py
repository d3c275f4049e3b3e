"""The contract of a policy: in w_{n+1} = w_n + sum_k a_k U_k it decides who takes part, and a_k.

U_k is what the upload of client k alone would change; the method defines it. Without a policy the
cohort is uniform and a_k = 1/|S_n|. A policy is one file, anywhere, with two classes. `Options` is
a frozen dataclass with the keys of the table [methods.policy] in an experiment file.
`Policy(options, federation)` derives from the class of that name below and writes the handlers that
it changes. Its state is a plain dict of arrays, owned by the caller; it uses no other state and no
randomness but the federation's seeds.

    when a cohort is new:   invite(state, n, bytes up, bytes down) -> who downloads and learns
    when it uploads:        admit(state, n, scores) -> who uploads, with which weights a_k

A score says how much the update of a client matters. Either the server computes it from the
uploads, at no cost; then all who were invited upload. It is |U_k| ("server"), or <U_k, U>, U the
mean of all U_k ("alignment"). Or the client reports the change of its own model since its cohort
was new, before it uploads ("client"); those who are not admitted do not upload. Both calls also
return their cost: bytes of questions, reports and replies, besides the method's messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, Literal, NamedTuple

from psofed.core.native import Array
from psofed.core.schedule import UniformCohorts
from psofed.core.seeds import Seeds
from psofed.federation import schema
from psofed.federation.forms import Contract

State = dict[str, Array]
SCALAR = 4  # bytes of a score, a probability or a rate
LARGEST = 1e30  # a score; a method that diverges must not cause errors in the policy's arithmetic
Scores = Literal["none", "server", "alignment", "client"]


@dataclass(frozen=True)
class PolicyTask:
    """What a policy may know: K, the cohort's usual size s, a whole model's bytes, the seeds."""

    clients: int
    cohort: int
    model_bytes: int
    seeds: Seeds


@dataclass(frozen=True, kw_only=True)
class Options(schema.Named):
    """What all policies have: a name, words for a title, and where their scores come from."""

    scores: ClassVar[Scores] = "none"

    def check(self, clients: int, cohort: int) -> None:
        """Refuse options that do not fit the experiment."""


class Invited(NamedTuple):
    """Who downloads and learns, in client order, and what it cost to find them."""

    members: list[int]
    side_up: int = 0
    side_down: int = 0


class Admitted(NamedTuple):
    """a_k of those who upload, in client order, and what it cost to find them."""

    weights: dict[int, float]
    side_up: int = 0
    side_down: int = 0


class Policy:
    """A uniform cohort of s clients, a_k = 1/s: what a policy has, and may change.

    `size` is the number of uploads to expect, for methods whose step depends on it.
    """

    def __init__(self, options: Options, federation: PolicyTask) -> None:
        self.options, self.seeds = options, federation.seeds
        self.clients, self.size = federation.clients, federation.cohort

    def start(self) -> State:
        """The state before round 0: none."""
        return {}

    def invite(self, state: State, n: int, up_bytes: int, down_bytes: int) -> Invited:
        """Who downloads and learns: a uniform cohort of `size` clients."""
        cohorts = UniformCohorts(self.seeds, self.clients, self.size)
        return Invited(cohorts.draw(n).tolist())

    def admit(self, state: State, n: int, scores: Mapping[int, float]) -> Admitted:
        """Who uploads, with which weights: all of them, with equal ones."""
        return Admitted({k: 1 / len(scores) for k in scores})


POLICY = Contract(
    "policy", "psofed.policies", Options, "Policy", (Policy,), ("start", "invite", "admit")
)
RIGHT = "derive it from Policy of psofed.contract.policies, see docs/extend.md"


def bind(options: Options, federation: PolicyTask) -> Policy:
    """The policy of these options, for one run."""
    derived = issubclass(schema.companion(options, "Policy"), Policy)
    own = "options", "size", *(("clients", "seeds") if derived else ())
    return schema.made(options, "Policy", federation, *own)


def sound(score: float) -> float:
    """A finite score, also if the model has diverged."""
    return max(min(score, LARGEST), -LARGEST) if isfinite(score) else LARGEST

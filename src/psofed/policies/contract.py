"""The contract of a policy: in w_{n+1} = w_n + sum_k a_k U_k it decides who takes part, and a_k.

U_k is what the upload of client k alone would change; the method defines it. Without a policy the
cohort is uniform and a_k = 1/|S_n|. A policy is one file in this folder with two classes. `Options`
is a frozen dataclass with the keys of the table [methods.policy] in an experiment file.
`Policy(options, federation)` has the handlers below. Its state is a plain dict of arrays, owned by
the caller; it uses no other state and no randomness but the federation's seeds.

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
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from numpy.typing import NDArray

from psofed import plugins, schema
from psofed.core.seeds import Seeds
from psofed.policies.admission import guarded

Array = NDArray[Any]
State = dict[str, Array]
SCALAR = 4  # bytes of a score, a probability or a rate
LARGEST = 1e30  # a score; a method that diverges must not cause errors in the policy's arithmetic
Scores = Literal["none", "server", "alignment", "client"]


@dataclass(frozen=True)
class Federation:
    """What a policy may know: K, the cohort's usual size s, a whole model's bytes, the seeds."""

    clients: int
    cohort: int
    model_bytes: int
    seeds: Seeds


@dataclass(frozen=True, kw_only=True)
class Options(schema.Named):
    """What all policies have: a name, words for a title, and where their scores come from."""

    scores: ClassVar[Scores] = "none"

    def describe(self) -> str:
        """The policy and its options, in short."""
        raise NotImplementedError

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


class Policy(Protocol):
    """The handlers of a policy. See the module's first lines for the order of the calls."""

    options: Options
    size: int  # uploads to expect, for methods whose step depends on it

    def start(self) -> State: ...

    def invite(self, state: State, n: int, up_bytes: int, down_bytes: int) -> Invited: ...

    def admit(self, state: State, n: int, scores: Mapping[int, float]) -> Admitted: ...


def bind(options: Options, federation: Federation) -> Policy:
    """The policy of these options, for one run."""
    plain = schema.beside(options, "Policy")
    kind = plain if plugins.is_ours(plain) else guarded(plain, Invited, Admitted)
    policy: Policy = kind(options, federation)
    return policy


def sound(score: float) -> float:
    """A finite score, also if the model has diverged."""
    return max(min(score, LARGEST), -LARGEST) if isfinite(score) else LARGEST

"""The contract of a defence: in w_{n+1} = w_n + sum_k a_k U_k it replaces the changes U_k.

U_k is what the upload of client k alone would change; the method defines it. Where an upload has
entries of a model, U_k is their difference to the server's, on these entries. What is left is
folded as the method folds: a defence that changes no U_k changes no bit. A defence is one file in
this folder, or anywhere else, with two classes. `Options` is a frozen dataclass with the keys of
the table [defence] of an experiment file. `Defence(options, setting)` has the handlers below. Its
state is a plain dict of arrays, owned by the caller; it uses no other state and no randomness.

    start() -> state                                    before round 0
    defended(state, n, k, changes, entries) -> changes  in every round with uploads

`k` are the members [..., s], `changes` their U_k [..., s, m], on the `entries` [..., s, m] of the
model. Leading axes are several Monte-Carlo runs, which state arrays then have, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from psofed.core.schedule import Indices
from psofed.errors import InputError
from psofed.federation import schema
from psofed.federation.forms import Contract

Array = NDArray[Any]
State = dict[str, Array]


@dataclass(frozen=True)
class Setting:
    """What a defence may know: K, how many of them have a place in arrays, D, the cohort's size."""

    clients: int
    places: int
    dim: int
    cohort: int


@dataclass(frozen=True, kw_only=True)
class Options(schema.Named):
    """What all defences have: a name, and words for a title."""

    # Whether it compares, entry by entry, what several members have sent: then all have to share
    # the same entries.
    compares: ClassVar[bool] = False
    acts: ClassVar[bool] = True  # whether it can change anything

    def describe(self) -> str:
        """The defence and its options, in short."""
        raise NotImplementedError

    def check(self, clients: int, cohort: int) -> None:
        """Refuse options that do not fit the experiment."""


class Opinion(NamedTuple):
    """What a defence thinks of each client: arrays over clients, for those who look at it."""

    score: Array  # how far its changes are from those of others; nobody honest should be above 1
    clipped: Array  # the share of its uploads that were clipped, lately
    quarantined: Array  # whether its uploads are not folded in
    reason: Sequence[str]  # why, of those in quarantine; empty for others


class Defence(Protocol):
    """The handlers of a defence. See the module's first lines."""

    options: Options
    setting: Setting

    def start(self) -> State: ...

    def defended(
        self, state: State, n: int, k: Indices, changes: Array, entries: Indices
    ) -> Array: ...

    def passes(self, state: State, k: Indices, changes: Array, entries: Indices) -> Array: ...

    def opinion(self, state: State) -> Opinion | None: ...


class Lenient:
    """What a defence says to attackers who ask what passes, if it has no limits: anything."""

    def passes(self, state: State, k: Indices, changes: Array, entries: Indices) -> Array:
        """Which of such changes of one run would be folded in whole: [s]."""
        return np.ones(len(k), bool)


class Stateless(Lenient):
    """A defence that judges each round by itself."""

    def __init__(self, options: Options, setting: Setting) -> None:
        self.options, self.setting = options, setting

    def start(self) -> State:
        """Nothing."""
        return {}

    def opinion(self, state: State) -> Opinion | None:
        """It remembers nobody."""
        return None


DEFENCE = Contract(
    "defence", "psofed.defences", Options, "Defence", (Defence,),
    ("start", "defended", "passes", "opinion"),
)  # fmt: skip


def check(options: Options, clients: int, cohort: int) -> None:
    """Refuse a defence that does not fit the federation."""
    if not isinstance(options, Options):
        raise InputError("", f"is {options!r}", "use the Options of a defence")
    schema.check(options)
    options.check(clients, cohort)


def bind(options: Options, setting: Setting) -> Defence:
    """The defence of these options."""
    defence: Defence = schema.beside(options, "Defence")(options, setting)
    return defence


def refuse_small(name: str, cohort: int, least: int) -> None:
    """Refuse a cohort in which a defence that compares members has too few of them."""
    if cohort < least:
        found = f"is {name!r}, which needs {least} members in a round, and the cohort has {cohort}"
        raise InputError("name", found, 'use a larger cohort, or "clip"')

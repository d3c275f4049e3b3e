"""The contract of a defence: in w_{n+1} = w_n + sum_k a_k U_k it replaces the changes U_k.

U_k is what the upload of client k alone would change; the method defines it. Where an upload has
entries of a model, U_k is their difference to the server's, and the entries themselves are
replaced; other uploads are weighed, by what is left of U_k along U_k. What is left is folded as the
method folds: a defence that changes no U_k changes no bit. A defence is one file in
this folder, or anywhere else, with two classes. `Options` is a frozen dataclass with the keys of
the table [defence] of an experiment file. `Defence(options, setting)` has the handlers below. Its
state is a plain dict of arrays, owned by the caller; it uses no other state and no randomness.

    start() -> state                                    before round 0
    defended(state, n, k, changes, entries) -> changes  in every round with uploads

`k` are the members [..., s], `changes` their U_k [..., s, m], on the `entries` [..., s, m] of the
model. Leading axes are several Monte-Carlo runs, which state arrays then have, too; a defence that
declares `several = False` gets one run after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from psofed.core import equations
from psofed.core.native import Array as Array
from psofed.core.schedule import Indices
from psofed.errors import InputError
from psofed.federation import schema
from psofed.federation.contract import Message, Method
from psofed.federation.forms import Contract
from psofed.federation.stage import Stage

State = dict[str, Array]
OWN = "defence."  # before the names of the defence's arrays, in the server's state


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


class Defence:
    """The handlers of a defence. This one remembers nothing, and has no limit to tell attackers."""

    several = True  # whether `defended` takes several runs at once

    def __init__(self, options: Any, setting: Setting) -> None:
        self.options, self.setting = options, setting

    def start(self) -> State:
        """The state before round 0."""
        return {}

    def defended(self, state: State, n: int, k: Indices, changes: Array, entries: Indices) -> Array:
        """What is left of the changes."""
        raise NotImplementedError

    def passes(self, state: State, k: Indices, changes: Array, entries: Indices) -> Array:
        """Which of such changes of one run would be folded in whole: [s]."""
        return np.ones(len(k), bool)

    def opinion(self, state: State) -> Opinion | None:
        """What it thinks of each client; None: nothing."""
        return None


DEFENCE = Contract(
    "defence", "psofed.defences", Options, "Defence", (Defence,),
    ("start", "defended", "passes", "opinion", "several"), ("defended",),
)  # fmt: skip


def check(options: Options, clients: int, cohort: int) -> None:
    """Refuse a defence that does not fit the federation."""
    if not isinstance(options, Options):
        raise InputError("", f"is {options!r}", "use the Options of a defence")
    schema.check(options)
    options.check(clients, cohort)


def bind(options: Options, setting: Setting) -> Defence:
    """The defence of these options."""
    return schema.made(options, "Defence", setting, "options", "setting")


def refuse_small(name: str, cohort: int, least: int) -> None:
    """Refuse a cohort in which a defence that compares members has too few of them."""
    if cohort < least:
        found = f"is {name!r}, which needs {least} members in a round, and the cohort has {cohort}"
        raise InputError("name", found, 'use a larger cohort, or "clip"')


class Defended(Stage):
    """What the server folds in after a defence has looked at it."""

    def __init__(self, inner: Method, defence: Defence) -> None:
        super().__init__(inner)
        self.defence = defence
        self.several = self.several and inner.entrywise  # else each upload is folded by itself

    def server(self) -> State:
        """The state of the method, and of the defence."""
        own = {OWN + name: array for name, array in self.defence.start().items()}
        return self.inner.server() | own

    def resize(self) -> None:
        self.defence = copy(self.defence)
        self.defence.setting = replace(self.defence.setting, places=self.task.places)

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """The fold of the method, with what the defence leaves of the uploads."""
        if message.heard.any():
            if self.inner.entrywise:
                message = self._entrywise(server, k, n, message)
            else:
                weights = self._weighed(server, k, n, message, weights)
        self.inner.fold(server, k, n, message, weights)

    def _entrywise(self, server: State, k: Indices, n: int, message: Message) -> Message:
        """The uploads with the entries that are left of them."""
        entries, values = self.inner.entries(k, n, up=True), message.values
        base = equations.share(server["w"], entries)
        with np.errstate(over="ignore", invalid="ignore"):
            changes = values - base
            left = self._left(_own(server), k, n, changes, entries, message.heard)
        # Where nothing was changed, the values as they came: base + (v - base) may round.
        kept = np.where(left == changes, values, base + left).astype(values.dtype, copy=False)
        return Message(kept, message.length)

    def _left(
        self, state: State, k: Indices, n: int, changes: Array, entries: Indices, heard: Array
    ) -> Array:
        """What the defence leaves: of all runs at once, or run by run of the uploads there are."""
        if self.defence.several and heard.all():
            return self.defence.defended(state, n, k, changes, entries)
        left = changes.copy()
        for r in np.ndindex(k.shape[:-1]):
            if heard[r].any():
                here: Any = ... if heard[r].all() else heard[r]
                some = k[r][here], changes[r][here], entries[r][here]
                left[r][here] = self.defence.defended(_views(state, r), n, *some)
        return left

    def _weighed(
        self, server: State, k: Indices, n: int, message: Message, weights: Array
    ) -> Array:
        """a_k times <left of U_k, U_k> / <U_k, U_k>."""
        heard = np.flatnonzero(message.heard)
        changes = np.stack([change(self.inner, server, k, n, message, i) for i in heard.tolist()])
        entries = np.broadcast_to(np.arange(changes.shape[1]), changes.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            left = self.defence.defended(_own(server), n, k[heard], changes, entries)
            size = np.vecdot(changes, changes)
            along = np.where(size > 0, np.vecdot(left, changes) / np.where(size > 0, size, 1), 1.0)
        same = (left == changes).all(axis=1)
        weights = weights.copy()
        weights[heard] *= np.where(same, 1.0, along)
        return weights

    def passes(self, server: State, k: Indices, n: int, models: Array) -> Array:
        """Which members [..., s] could upload from such models [..., s, D], and be folded whole."""
        if not self.inner.entrywise:
            return np.ones(k.shape, bool)
        entries = self.inner.entries(k, n, up=True)
        U = np.take_along_axis(models, entries, axis=-1) - equations.share(server["w"], entries)
        state = _own(server)
        found = np.empty(k.shape, bool)
        for r in np.ndindex(k.shape[:-1]):
            found[r] = self.defence.passes(_views(state, r), k[r], U[r], entries[r])
        return found

    def opinion(self, server: State) -> Opinion | None:
        """What the defence thinks of each client."""
        return self.defence.opinion(_own(server))


def _own(server: State) -> State:
    """The arrays of the defence, which it changes in place."""
    return {name[len(OWN) :]: a for name, a in server.items() if name.startswith(OWN)}


def _views(state: State, run: tuple[int, ...]) -> State:
    """The arrays of one run; an ellipsis keeps numbers as views, so that they can change."""
    here: Any = (*run, ...)
    return {name: array[here] for name, array in state.items()}


def change(method: Method, server: State, k: Indices, n: int, message: Message, i: int) -> Array:
    """U_k: how the upload of member i alone would change the server's model, with weight 1."""
    alone = {name: array.copy() for name, array in server.items()}
    one = Message(message.values[i : i + 1], message.length[i : i + 1])
    method.fold(alone, k[i : i + 1], n, one, np.ones(1, message.values.dtype))
    return (alone["w"] - server["w"]).astype(np.float64)

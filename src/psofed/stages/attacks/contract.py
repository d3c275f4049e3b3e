"""Malicious members of a round: what they send, or measure, instead of what is true.

A share of the clients is malicious, drawn once per run. They follow the method in everything but
this: an attack "on values" changes the model from which they make an upload, an attack "on labels"
the samples from which they learn. An attack is one file in this folder, or anywhere else, with two
classes. `Options` is a frozen dataclass with the keys of the table [attack] of an experiment file.
`Attack(options, attackers)` has the handlers below; it has no state, and no randomness but the
seeds of the attackers.

    on labels:  samples(k, n, x, y) -> x, y                   of malicious clients k, rounds n
    on values:  models(n, k, w_k, bad, w) -> what they send   for all members, of which some are bad

Most attacks on values are one equation, with coefficients of its own: see `Mix`. Then `mix` and
`offset` are enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psofed.core.native import Array as Array
from psofed.core.schedule import Indices
from psofed.core.seeds import Seeds, subsets
from psofed.errors import InputError
from psofed.federation import schema
from psofed.federation.contract import Message, Method, State
from psofed.federation.foreign import broken, kind
from psofed.federation.forms import Contract
from psofed.federation.stage import CONTRACT, Stage
from psofed.stages.defences.contract import Defended


class Mix(NamedTuple):
    """v_k = own w_k + server w + mean m + spread s + offset, for a malicious client k.

    w_k is the model that it has honestly learned, w the global one; m and s are the mean and the
    standard deviation, entry by entry, of the models of the round's honest members.
    """

    own: float = 1.0
    server: float = 0.0
    mean: float = 0.0
    spread: float = 0.0

    @property
    def omniscient(self) -> bool:
        """Whether it takes to know what others have."""
        return any((self.server, self.mean, self.spread))


@dataclass(frozen=True, kw_only=True)
class Options(schema.Named):
    """What all attacks have: the share of malicious clients, and what they change."""

    on: ClassVar[Literal["values", "labels"]] = "values"
    # Whether attackers know what others send, which real ones could only guess.
    omniscient: ClassVar[bool] = False
    adapts: ClassVar[bool] = False  # whether `models` also gets what the defence lets pass
    share: float = 0.1  # of the clients, that are malicious

    @property
    def linear(self) -> bool:
        """Whether it takes a model that is w^T z."""
        return False

    def check(self, clients: int, cohort: int) -> None:
        """Refuse options that do not fit the experiment."""


@dataclass(frozen=True, eq=False)
class Attackers:
    """Who is malicious, in one run or in several; also what they may draw from."""

    clients: int
    dim: int
    share: float
    seeds: Seeds
    taps: int = 0
    maps: tuple[Any, ...] = ()  # the features, by run

    @cached_property
    def ids(self) -> Indices:
        """The malicious clients, in order: [count], or [run, 1, count]."""
        drawn = self.seeds.world.uniforms("malicious", count=round(self.share * self.clients))
        return subsets(drawn, self.clients)

    def among(self, k: Any) -> NDArray[np.bool_]:
        """Which of the clients k [..., s] are malicious."""
        who = np.asarray(self.seeds.clients(np.asarray(k)))
        return (who[..., None] == self.ids).any(axis=-1)


class Attack:
    """The handlers of an attack, of which it writes its own: see the module's first lines."""

    def __init__(self, options: Options, attackers: Attackers) -> None:
        self.options, self.attackers = options, attackers

    def mix(self) -> Mix | None:
        """The coefficients; None: it is no such sum, or has a `models` of its own."""
        return Mix() if type(self).models is Attack.models else None

    def offset(self, n: int, k: Any) -> Any:
        """What is added in round n: a number, or an array [..., D], for clients k."""
        return 0.0

    def models(self, n: int, k: Any, w_k: Array, bad: Array, w: Array | None) -> Array:
        """v_k for all members k, of whom `bad` are malicious; models are [..., s, D]."""
        mix = self.mix()
        assert mix is not None
        sent = mix.own * w_k + self.offset(n, k)
        if mix.server:
            if w is None:
                found = "needs the server's model, and a method of the experiment has no server"
                raise InputError("attack", found, "use another attack, or leave that method out")
            sent += mix.server * w[..., None, :]
        if mix.mean or mix.spread:
            mean, spread = of_honest(w_k, bad)
            sent += mix.mean * mean + mix.spread * spread
        return sent.astype(w_k.dtype, copy=False)

    def samples(self, k: Indices, n: Indices, x: Array, y: Array) -> tuple[Array, Array]:
        """What malicious clients k [s] measure in rounds n [t]: x [s, t, L] and y [s, t]."""
        return x, y


ATTACK = Contract(
    "attack", "psofed.attacks", Options, "Attack", (Attack,),
    ("mix", "offset", "models", "samples"), ("mix or offset or models or samples",),
)  # fmt: skip


def of_honest(w_k: Array, bad: Array) -> tuple[Array, Array]:
    """m and s [..., 1, D] over the members that are not bad; over all, if all are.

    >>> mean, spread = of_honest(np.array([[1.0], [3.0], [9.0]]), np.array([False, False, True]))
    >>> mean.item(), spread.item()
    (2.0, 1.0)
    """
    counted = ~bad | bad.all(axis=-1, keepdims=True)
    share = (counted / counted.sum(axis=-1, keepdims=True)).astype(w_k.dtype)[..., None]
    mean = (share * w_k).sum(axis=-2, keepdims=True)
    return mean, np.sqrt((share * (w_k - mean) ** 2).sum(axis=-2, keepdims=True))


def check(options: Options, clients: int, cohort: int) -> None:
    """Refuse an attack that does not fit the federation."""
    if not isinstance(options, Options):
        raise InputError("", f"is {options!r}", "use the Options of an attack")
    schema.check(options)
    for key, value in schema.values(options).items():
        if isinstance(value, float) and not isfinite(value):
            raise InputError(key, f"is {value}", "use a finite number")
    schema.require(options, "share", 0 <= options.share < 1, "use a share of the clients, 0 to 1")
    if options.share and not round(options.share * clients):
        found = f"is {options.share:g}, which is nobody of {clients} clients"
        raise InputError("share", found, f"use {1 / clients:g} or more, or 0")
    options.check(clients, cohort)


def bind(options: Options, attackers: Attackers) -> Attack:
    """The attack of these options, for one run or several."""
    return schema.made(options, "Attack", attackers, "options", "attackers")


def models(attack: Attack, n: int, k: Indices, w_k: Array, *others: Any) -> Array:
    """The models v_k that an attack sends in the place of w_k, if they have its form."""
    sent: Any = attack.models(n, k, w_k, *others)
    if isinstance(sent, np.ndarray) and sent.shape == w_k.shape and sent.dtype.kind in "biuf":
        return np.asarray(sent)
    found = f"returns {kind(sent)}, not real numbers of shape {list(w_k.shape)}"
    raise broken(type(attack), "models", found, CONTRACT)


class Attacked(Stage):
    """The uploads of members of whom some are malicious, who may know the defence."""

    def __init__(self, inner: Method, attack: Attack, defence: Defended | None) -> None:
        super().__init__(inner)
        self.attack, self.defence = attack, defence
        self.known: State | None = None  # the server's state; on a device it stays unknown

    def download(self, server: State, k: Indices, n: int) -> Message:
        """What the method sends; in a simulation, malicious clients see the server's state."""
        self.known = server
        return self.inner.download(server, k, n)

    def upload(self, client: State, k: Indices, n: int) -> Message:
        """What the members send in round n; the models of malicious ones stay as they are."""
        bad = self.attack.attackers.among(k)
        if not bad.any():
            return self.inner.upload(client, k, n)
        w = None if self.known is None else self.known.get("w")
        known: Any = n, k, client["w"], bad, w
        if self.attack.options.adapts:
            known += (self._passing(k, n),)
        with np.errstate(over="ignore", invalid="ignore"):
            sent = models(self.attack, *known)
        pretended = np.where(bad[..., None], sent, client["w"])
        up = self.inner.upload({**client, "w": pretended}, k, n)
        np.copyto(client["w"], pretended, where=~bad[..., None])  # an upload may change its client
        return up

    def _passing(self, k: Indices, n: int) -> Any:
        """Which models the defence would fold in unchanged; None without a defence."""
        defence, server = self.defence, self.known
        if defence is None or server is None:
            return None

        def passes(models: Array) -> Array:
            return defence.passes(server, k, n, models)

        return passes

"""Answers: each client mixes the models that it can have. Nothing is sent, and no upload changes.

The experts are its own model of the method, the model with which it joined, a straight line and a
ridge regression that it learns alone (core/alone.py), its last label, and the label of a season
ago; core/mixing.py has the rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psofed.core import alone, mixing
from psofed.core.native import Array
from psofed.core.schedule import Indices
from psofed.errors import InputError
from psofed.federation import schema
from psofed.federation.clients import learn
from psofed.federation.contract import BEFORE, Message, Method, State
from psofed.federation.stage import Stage

EXPERTS = ("own", "start", "line", "ridge", "last", "season")
TRUST = (0.25, 0.25, 0.125, 0.125, 0.125, 0.125)  # at first: others have taught the first two
NAME = "mix "  # the names of what it remembers begin with this
ALONE = ("A", "q", "w", "past", "numbers")
ASKED = NAME + "asked"
HEAVY = (NAME + "A", NAME + "q")  # moments, which answers do not need


@dataclass(frozen=True)
class MixOptions(schema.Fields):
    """The table [mix]: what the experts need, and whom a client trusts at first."""

    season: int = 1  # samples after which labels are alike
    trust: tuple[float, ...] = ()  # in each expert, in their order; not set: half in the first two
    size: int | None = None  # cosines of the ridge regression; not set: all D

    def __post_init__(self) -> None:
        schema.check(self)
        schema.positive(self, "season", "size")
        good = len(self.trust) == len(EXPERTS) and min(self.trust) >= 0 and sum(self.trust) > 0
        if self.trust and not good:
            found = f"is {list(self.trust)}"
            raise InputError("trust", found, f"give a weight each for {', '.join(EXPERTS)}")


class Mixed(Stage):
    """A method whose clients answer with a mix."""

    answers = True

    def __init__(self, inner: Method, options: MixOptions) -> None:
        super().__init__(inner)
        self.options, self.lazy, self.several = options, False, False
        self.size = min(options.size or self.task.dim, self.task.features.dim)
        trust = np.array(options.trust or TRUST)
        self.trust = trust / trust.sum()

    def client(self) -> State:
        """The state of the method, the moments, the labels of a season, and the trust so far."""
        length, season = self.size + self.task.taps + 1, self.options.season
        more = {
            "memory": mixing.start(len(EXPERTS)), "start": self.task.zeros(self.task.dim),
            "A": np.zeros((length, length)), "q": np.zeros(length), "w": np.zeros((2, length)),
            "past": np.zeros(season),
            "numbers": np.array([0, 1], np.int64),  # labels so far; when equations are solved next
            "asked": np.full(len(EXPERTS), np.nan),  # guesses of then, if a label comes late
        }  # fmt: skip
        return self.inner.client() | {NAME + name: array for name, array in more.items()}

    def receive(self, client: State, k: Indices, n: int, message: Message) -> None:
        """A client that starts over gets all of w, and keeps it."""
        self.inner.receive(client, k, n, message)
        if n == BEFORE:
            client[NAME + "start"][:] = self.inner.models(None, client)

    def learn(self, client: State, x: Array, z: Array, y: Array) -> None:
        """Whom to trust, then the line and the ridge regression, then the method."""
        asked = client[ASKED]
        guesses = np.where(np.isnan(asked), self.guesses(client, x, z), asked)
        memory = client[NAME + "memory"]
        mixed = np.vecdot(mixing.weights(memory, self.trust), guesses)
        mixing.learn(memory, self.trust, guesses, mixed, y)
        asked[...] = np.nan
        u = alone.inputs(z, x, self.size)
        for i, label in enumerate(y):
            self._learn_alone({n: client[NAME + n][i] for n in ALONE}, u[i], float(label))
        learn(self.inner, client, x, z, y)

    def _learn_alone(self, state: State, u: Array, y: float) -> None:
        """One sample of one client."""
        numbers, past = state["numbers"], state["past"]
        past[numbers[0] % len(past)] = y
        state["A"] += np.outer(u, u)
        state["q"] += y * u
        numbers[0] += 1
        if numbers[0] >= numbers[1]:
            state["w"][:] = alone.solved(state["A"], state["q"], self.task.taps)
            numbers[1] = alone.due(int(numbers[0]))

    def guesses(self, client: State, x: Array, z: Array) -> Array:
        """What each expert says [s, E]."""
        try:
            own = self.task.learner.predict(self.inner.models(None, client), z)
        except KeyError:  # clients that only pass on their samples have no model
            own = np.zeros(len(x))
        start = self.task.learner.predict(client[NAME + "start"], z)
        u = alone.inputs(z, x, self.size)
        both = np.vecdot(client[NAME + "w"], u[:, None])
        past, count = client[NAME + "past"], client[NAME + "numbers"][:, 0]
        rows, season = np.arange(len(x)), past.shape[1]
        last = past[rows, (count - 1) % season]
        ago = np.where(count < season, last, past[rows, count % season])
        found = [own, start, both[:, alone.LINE], both[:, alone.RIDGE_REGRESSION], last, ago]
        guesses = np.stack(found, axis=-1)
        joined = client[NAME + "start"].any(axis=-1)
        return mixing.bounded(mixing.cold_start(guesses, count, joined, self.task.taps))

    def collapsed(self, client: State, own: Array, delay: int) -> tuple[Array, dict[int, float]]:
        """The mix of one client as a vector over (z, x, 1) [1, D + L + 1], and weights by lag."""
        weights = mixing.weights(client[NAME + "memory"][0], self.trust)
        a = dict(zip(EXPERTS, weights.tolist(), strict=True))
        both, size = client[NAME + "w"][0], self.size
        w = np.zeros((1, len(own) + self.task.taps + 1))
        w[0, : len(own)] = a["own"] * own + a["start"] * client[NAME + "start"][0]
        for name, model in (("line", alone.LINE), ("ridge", alone.RIDGE_REGRESSION)):
            w[0, :size] += a[name] * both[model, :size]
            w[0, len(own) :] += a[name] * both[model, size:]
        lags = {delay: a["last"]}
        season = max(self.options.season, delay)
        lags[season] = lags.get(season, 0.0) + a["season"]
        return w, lags

    def answer(self, client: State, x: Array, z: Array) -> tuple[Array, Array]:
        """The mix [s], and the guesses [s, E] that it is of."""
        guesses = self.guesses(client, x, z)
        weights = mixing.weights(client[NAME + "memory"], self.trust)
        return np.vecdot(weights, guesses), guesses

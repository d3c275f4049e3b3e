"""One contender of a federation over a table: its state, its rounds, its models as frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.features import FeatureMap
from psofed.core.schedule import Indices, UniformCohorts
from psofed.errors import InputError
from psofed.methods.contract import Message, Method, State, traffic
from psofed.rows import warmup
from psofed.rows.rounds import Rounds
from psofed.tables.scores import Score

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Present(UniformCohorts):
    """A uniform cohort, of which those answer who have begun and not stopped."""

    first: Any = None
    stop: Any = None

    def cohort(self, n: Any) -> Indices:
        """S_n without those who are not there."""
        drawn = super().cohort(n)  # remembered for a while: all contenders ask for the same
        return drawn[(self.first[drawn] <= n) & (n < self.stop[drawn])]


@dataclass(frozen=True, eq=False)
class Contender:
    """A method on a feature map, ready to run. Without a method: persistence."""

    title: str
    method: Method | None = None
    features: FeatureMap | None = None


class Player:
    """One contender's state, its models frozen at one moment, and its score."""

    def __init__(self, contender: Contender, rounds: Rounds) -> None:
        assert contender.method is not None
        assert contender.features is not None
        self.method: Method = contender.method
        if self.method.policy is not None or self.method.peers:
            found = f"is {contender.title!r}, which needs its own kind of rounds"
            raise InputError("method", found, "use one with a server and no policy")
        self.features = contender.features
        self.server = self.method.server()
        states = [self.method.client(k) for k in range(rounds.clients)]
        self.clients = {name: np.stack([s[name] for s in states]) for name in states[0]}
        self.rows = [{n: a[k, ...] for n, a in self.clients.items()} for k in range(rounds.clients)]
        setup = self.method.setup + warmup.shared_bytes(rounds.encoder)
        self.score = Score(contender.title, rounds.clients, setup=setup)
        self.frozen: dict[str, tuple[Array, Array | None]] = {}  # by part of the span
        self._sizes: dict[tuple[bool, int], int] = {}

    @property
    def shared(self) -> Array:
        """The model that is judged: the server's [D], or one for each client [K, D]."""
        return self.method.models(self.server, self.clients)

    @property
    def own(self) -> Array | None:
        """The clients' own models, if they keep any."""
        return self.clients.get("w")

    def freeze(self, n: int, parts: dict[str, tuple[int, int]]) -> None:
        """Remember the models as they are when a part begins, or goes on after a silence."""
        for part, (start, _) in parts.items():
            if n >= start and part not in self.frozen:
                own = None if self.own is None else self.own.copy()
                self.frozen[part] = self.shared.copy(), own

    def round(self, n: int, x: Array, z: Array, y: Array, known: Array) -> None:
        """The contract's round n, with the samples of the clients `known`."""
        method, server = self.method, self.server
        cohort = [int(k) for k in method.cohort(n, server)]
        if self.own is None:  # who sends samples has something to say only when there is a new one
            fresh = set(known.tolist())
            cohort = [k for k in cohort if k in fresh]
        downloads = {k: method.download(server, k, n) for k in cohort}
        for k, message in downloads.items():
            method.receive(self.rows[k], k, n, message)
        self._learn(cohort, x, z, y, known)
        uploads = {k: method.upload(self.rows[k], k, n) for k in cohort}
        method.fold(server, n, uploads, dict.fromkeys(cohort, 1 / max(len(cohort), 1)))
        self._count(uploads, downloads)

    def _learn(self, cohort: list[int], x: Array, z: Array, y: Array, known: Array) -> None:
        method = self.method
        if not method.idle:
            fresh = set(known.tolist())
            for k in cohort:
                if k in fresh:
                    method.learn(self.rows[k], x[k], z[k], y[k])
        elif len(known) == len(self.rows):
            method.learn(self.clients, x, z, y)
        else:
            some: State = {name: array[known] for name, array in self.clients.items()}
            method.learn(some, x[known], z[known], y[known])
            for name, array in self.clients.items():
                array[known] = some[name]

    def _count(self, uploads: dict[int, Message], downloads: dict[int, Message]) -> None:
        """Bytes, as the method's encoder makes them."""
        up = [self._size(m, True) for m in uploads.values() if m is not None]
        down = [self._size(m, False) for m in downloads.values() if m is not None]
        score, (a, b, c) = self.score, traffic(self.method, up, down)
        score.up, score.down, score.multicast = score.up + a, score.down + b, score.multicast + c
        score.messages += len(up) + len(down)
        score.largest = max(score.largest, *up, *down) if up or down else score.largest

    def _size(self, message: Array, up: bool) -> int:
        """The number of bytes depends on the number of entries only; the encoder is asked once."""
        key = up, len(message)
        if key not in self._sizes:
            self._sizes[key] = len(self.method.encode(message, up))
        return self._sizes[key]

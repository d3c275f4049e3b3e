"""One contender of a federation over a table: its state, its rounds, its models as frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.features import FeatureMap
from psofed.core.schedule import Indices
from psofed.data import warmup
from psofed.data.rounds import Rounds
from psofed.errors import InputError
from psofed.fit.scores import Score
from psofed.methods.contract import Method
from psofed.methods.members import Clients
from psofed.methods.round import EachRound, Sizes, Uniform, play

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Contender:
    """A method on a feature map, ready to run. Without a method: persistence."""

    title: str
    method: Method | None = None
    features: FeatureMap | None = None
    traced: bool = False  # whether the score keeps each prequential error of the own models


class TickSamples:
    """x, z and y of one tick, and the clients that have a label then."""

    def __init__(self) -> None:
        self.x = self.z = self.y = np.empty(0)
        self._known: Indices = np.empty(0, np.intp)

    def put(self, x: Array, z: Array, y: Array, known: Indices) -> None:
        """What has become known at a tick."""
        self.x, self.z, self.y, self._known = x, z, y, known

    def known(self, n: int) -> Indices:
        """Those who have a label."""
        return self._known

    def of(self, n: int, clients: Indices | None) -> tuple[Array, Array, Array]:
        """Of all clients, or of some."""
        if clients is None:
            return self.x, self.z, self.y
        return self.x[clients], self.z[clients], self.y[clients]


class Player:
    """One contender's state, its frozen models, and its score."""

    def __init__(self, contender: Contender, rounds: Rounds) -> None:
        assert contender.method is not None
        assert contender.features is not None
        self.method: Method = contender.method
        if self.method.policy is not None or self.method.peers:
            found = f"is {contender.title!r}, which does not work with the rounds of a table"
            raise InputError("method", found, "use one with a server and no policy")
        self.features = contender.features
        self.server = self.method.server()
        self.all = Clients(self.method, range(rounds.clients), together=self.method.stacked)
        self.clients, self.samples = self.all.states, TickSamples()
        self.sizes, self.lessons = Sizes(self.method), EachRound(self.all, self.samples)
        self.who = Uniform(self.method, self.samples)
        setup = self.method.setup + warmup.shared_bytes(rounds.encoder)
        self.score = Score(contender.title, rounds.clients, setup=setup)
        self.score.trace = [] if contender.traced else None
        self.frozen: dict[str, tuple[Array, Array | None]] = {}  # by part of the span

    @property
    def shared(self) -> Array:
        """The model that is judged: the server's [D], or one for each client [K, D]."""
        return self.method.models(self.server, self.clients)

    @property
    def own(self) -> Array | None:
        """The clients' own models, if they keep any."""
        return self.clients.get("w")

    def freeze(self, n: int, parts: dict[str, tuple[int, int]]) -> None:
        """Keep the models as they are when a part begins, or continues after a gap."""
        for part, (start, _) in parts.items():
            if n >= start and part not in self.frozen:
                own = None if self.own is None else self.own.copy()
                self.frozen[part] = self.shared.copy(), own

    def silence(self, n: int) -> None:
        """Round n, in which nobody has a label."""
        nothing = np.empty(0)
        self.round(n, nothing, nothing, nothing, np.empty(0, np.intp))

    def round(self, n: int, x: Array, z: Array, y: Array, known: Indices) -> None:
        """Round n, with the samples of the clients `known`; without any it is a silent one."""
        self.samples.put(x, z, y, known)
        up, down, multicast = play(n, self.server, self.all, self.who, self.lessons, self.sizes)
        score = self.score
        score.up, score.down = score.up + up, score.down + down
        score.multicast += multicast
        score.messages, score.largest = self.sizes.messages, self.sizes.largest

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
from psofed.methods import stretch
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


@dataclass(frozen=True, eq=False)
class Lot:
    """The rounds `first`.. of a player: what is predicted, and what has become known by then."""

    first: int
    fresh: Array  # [B, K, D]: features of the samples to predict
    x: Array  # [B, K, L]: inputs of the samples whose labels arrive
    z: Array  # [B, K, D]: their features
    y: Array  # [B, K]: these labels; NaN: none
    who: list[Indices]  # the clients that have one

    def known(self, n: int) -> Indices:
        """Those who have a label in round n."""
        return self.who[n - self.first]

    def of(self, n: int, clients: Indices | None) -> tuple[Array, Array, Array]:
        """Samples of all clients, or of some."""
        i = n - self.first
        some = slice(None) if clients is None else clients
        return self.x[i][some], self.z[i][some], self.y[i][some]


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
        self.clients, self.sizes = self.all.states, Sizes(self.method)
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

    def play(self, lot: Lot, parts: dict[str, tuple[int, int]]) -> dict[str, Array]:
        """Predict, exchange and learn in each round; the predictions [B, K] of each model."""
        stop = lot.first + len(lot.y)
        cuts = sorted(
            {lot.first, *(start for start, _ in parts.values() if lot.first < start < stop)}
        )
        made = []
        for begin, end in zip(cuts, [*cuts[1:], stop], strict=True):
            self.freeze(begin, parts)
            rounds = self._at_once if stretch.takes(self.method) else self._one_by_one
            made.append(rounds(lot, begin, end))
        shared, own = (np.concatenate(each) for each in zip(*made, strict=True))
        return {"global": shared} if self.own is None else {"global": shared, "own": own}

    def _at_once(self, lot: Lot, begin: int, end: int) -> tuple[Array, Array]:
        here = slice(begin - lot.first, end - lot.first)
        rounds = stretch.Stretch(begin, lot.fresh[here], lot.z[here], lot.y[here])
        who = Uniform(self.method, lot)
        shared, own, sent = stretch.play(rounds, self.server, self.all, who, self.sizes)
        self._send(*sent)
        return (own if self.shared is self.own else shared), own

    def _one_by_one(self, lot: Lot, begin: int, end: int) -> tuple[Array, Array]:
        who, lessons = Uniform(self.method, lot), EachRound(self.all, lot)
        shared, own = (np.zeros((end - begin, *lot.y.shape[1:]), lot.y.dtype) for _ in "so")
        for i, n in enumerate(range(begin, end)):
            w, w_k, z = self.shared, self.own, lot.fresh[n - lot.first]
            shared[i] = z @ w if w.ndim == 1 else np.vecdot(z, w)
            if w_k is not None:
                own[i] = shared[i] if w_k is w else np.vecdot(z, w_k)
            self._send(*play(n, self.server, self.all, who, lessons, self.sizes))
        return shared, own

    def silence(self, n: int) -> None:
        """Round n, in which nobody has a label."""
        nothing = np.empty((1, 0))
        lot = Lot(n, nothing, nothing, nothing, nothing, [np.empty(0, np.intp)])
        who, lessons = Uniform(self.method, lot), EachRound(self.all, lot)
        self._send(*play(n, self.server, self.all, who, lessons, self.sizes))

    def _send(self, up: int, down: int, multicast: int) -> None:
        score = self.score
        score.up, score.down = score.up + up, score.down + down
        score.multicast += multicast
        score.messages, score.largest = self.sizes.messages, self.sizes.largest

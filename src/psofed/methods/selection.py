"""Who takes part in a round, and with which weight: the method's cohort, or a policy's choice."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

import numpy as np

from psofed.core.schedule import Indices
from psofed.methods.contract import Array, Message, Method, State
from psofed.methods.members import Members, OneByOne
from psofed.methods.round import NOBODY, Sizes, close_round, open_round
from psofed.policies.contract import Admitted, Policy

SURPRISE = 1000.0  # a sample after which event-triggered clients upload, too


class ByPolicy:
    """Members that the policy invites and admits: w_{n+1} = w_n + sum_k a_k U_k.

    A method that works in blocks keeps its members from the beginning of a block to its end.
    """

    def __init__(self, method: Method, policy: Policy, sizes: Sizes) -> None:
        self.method, self.policy, self.sizes = method, policy, sizes
        self.state = policy.start()
        self.invited = NOBODY
        self.before: dict[int, Array] = {}  # the members' models when they had received
        self.admitted = Admitted({})
        self.up, self.down = rehearse(method, sizes)
        self._side = 0, 0

    def members(self, n: int, server: State) -> Indices:
        """Whom the policy invites, when a cohort is new."""
        self._side = 0, 0
        if self.method.begins(n):
            asked = self.policy.invite(self.state, n, self.up, self.down)
            self.invited = np.array(asked.members, np.intp)
            self._side = asked.side_up, asked.side_down
        return self.invited

    def received(self, n: int, members: Members) -> None:
        """Where clients report how far their models have moved, keep the models they start from."""
        if self.method.begins(n) and self.policy.options.scores == "client":
            self.before = {k: state["w"].copy() for k, state in _states(members)}

    def speakers(self, n: int, members: Members) -> Members:
        """Clients that report are admitted before they upload; else all upload at a block's end."""
        assert isinstance(members, OneByOne)
        self.admitted = Admitted({})
        if not self.method.ends(n):
            return members.only([])
        if self.policy.options.scores != "client":
            return members
        scores = {k: _norm(state["w"] - self.before[k]) for k, state in _states(members)}
        self._admit(n, scores)
        return members.only(self.admitted.weights)

    def weights(self, n: int, server: State, uploads: Mapping[int, Message]) -> Mapping[int, float]:
        """As admitted, or as the server judges what was uploaded."""
        if self.method.ends(n) and self.policy.options.scores != "client":
            self._admit(n, self._judged(n, server, uploads))
        heard = [m for m in uploads.values() if m is not None]
        self.up = max([self.up, *(self.sizes(m, True) for m in heard)])
        return self.admitted.weights

    def _judged(self, n: int, server: State, uploads: Mapping[int, Message]) -> dict[int, float]:
        """What the server makes of the uploads: |U_k|, or <U_k, U>, U their mean."""
        if self.policy.options.scores == "none" or not uploads:
            return dict.fromkeys(uploads, 0.0)
        changes = [change(self.method, server, n, k, m) for k, m in uploads.items()]
        if self.policy.options.scores == "server":
            return dict(zip(uploads, map(_norm, changes), strict=True))
        mean = np.mean(changes, axis=0)
        return dict(zip(uploads, (float(U @ mean) for U in changes), strict=True))

    def _admit(self, n: int, scores: dict[int, float]) -> None:
        self.admitted = self.policy.admit(self.state, n, scores)
        up, down = self._side
        self._side = up + self.admitted.side_up, down + self.admitted.side_down

    def side(self) -> tuple[int, int]:
        """Bytes of questions, reports and replies in the round that was just played."""
        return self._side


def _states(members: Members) -> Any:
    assert isinstance(members, OneByOne)
    return zip(members.ids, members.states, strict=True)


def change(method: Method, server: State, n: int, k: int, message: Message) -> Array:
    """U_k: how the upload of client k alone would change the server's model, with weight 1."""
    alone = {name: array.copy() for name, array in server.items()}
    close_round(method, alone, n, {k: message}, {k: 1.0})
    return (alone["w"] - server["w"]).astype(np.float64)


def _norm(difference: Array) -> float:
    return float(np.linalg.norm(difference.astype(np.float64)))


def rehearse(method: Method, sizes: Sizes) -> tuple[int, int]:
    """Bytes up and down of one exchange, between a server and a client made for this purpose."""
    last = next(n for n in count() if method.ends(n))
    client = OneByOne(method, [0], [method.client(0)])
    (down,) = open_round(method, method.server(), 0, [0])
    client.receive(0, [down])
    client.learn(0, _Surprise(method))
    (up,) = client.upload(last)  # type: ignore[misc]
    return (0 if up is None else sizes(up, True)), (0 if down is None else sizes(down, False))


class _Surprise:
    """One sample with a large error, so that every client uploads."""

    def __init__(self, method: Method) -> None:
        task = method.task
        x, z = task.zeros(1, task.taps), np.ones((1, task.features.dim), task.dtype)
        self.sample = x, z, np.full(1, SURPRISE, task.dtype)

    def known(self, n: int) -> None:
        return None

    def of(self, n: int, clients: Indices | None) -> tuple[Array, Array, Array]:
        return self.sample

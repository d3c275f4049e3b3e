"""The rounds of a method whose clients a policy selects: w_{n+1} = w_n + sum_k a_k U_k."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psofed.methods.contract import Message, Method, State, traffic
from psofed.policies.contract import Admitted, Policy

if TYPE_CHECKING:
    from psofed.simulate.lockstep import Samples, Sizes

Array = NDArray[Any]
SURPRISE = 1000.0  # a sample that lets even a client speak that is silent when little happens


def start(method: Method, sizes: Sizes) -> Rounds | None:
    """The executor of its rounds, if the method has a policy."""
    return None if method.policy is None else Rounds(method, method.policy, sizes)


class Rounds:
    """Round by round: invite, download, learn, admit, upload, fold. Clients learn when they should.

    A method that works in blocks keeps its members from the beginning of a block to its end.
    """

    def __init__(self, method: Method, policy: Policy, sizes: Sizes) -> None:
        self.method, self.policy, self.sizes = method, policy, sizes
        self.state = policy.start()
        self.members: list[int] = []
        self.before: dict[int, Array] = {}  # their models when they had received
        self.up, self.down = rehearse(method, sizes)

    def __call__(
        self, n: int, samples: Samples, server: State, clients: State
    ) -> tuple[int, int, int]:
        """Round n. Returns its bytes: up, down, multicast down."""
        samples.move_to(n)
        side_up = side_down = 0
        if self.method.begins(n):
            asked = self.policy.invite(self.state, n, self.up, self.down)
            self.members, side_up, side_down = asked
        # An ellipsis keeps scalars of the state as views, so that handlers can change them.
        member = {k: {name: a[k, ...] for name, a in clients.items()} for k in self.members}
        downloads = self._download(n, server, member)
        self._learn(n, samples, clients, member)
        uploads: dict[int, Message] = {}
        admitted = Admitted({})
        if self.method.ends(n):
            uploads, admitted = self._upload(n, server, member)
            side_up, side_down = side_up + admitted.side_up, side_down + admitted.side_down
        self.method.fold(server, n, uploads, admitted.weights)
        up = [self.sizes(m, True) for m in uploads.values() if m is not None]
        down = [self.sizes(m, False) for m in downloads if m is not None]
        self.up = max([self.up, *up])
        sent = traffic(self.method, up, down)
        return sent[0] + side_up, sent[1] + side_down, sent[2] + side_down

    def _download(self, n: int, server: State, member: dict[int, State]) -> list[Message]:
        downloads = {k: self.method.download(server, k, n) for k in member}
        for k, message in downloads.items():
            self.method.receive(member[k], k, n, message)
        if self.method.begins(n) and self.policy.options.scores == "client":
            self.before = {k: state["w"].copy() for k, state in member.items()}
        return list(downloads.values())

    def _learn(self, n: int, samples: Samples, clients: State, member: dict[int, State]) -> None:
        if self.method.idle:
            self.method.learn(clients, *samples.at(n))
        elif member:
            x, z, y = samples.at(n)
            for k, state in member.items():
                self.method.learn(state, x[k], z[k], y[k])

    def _upload(
        self, n: int, server: State, member: dict[int, State]
    ) -> tuple[dict[int, Message], Admitted]:
        """Who reports is admitted before it uploads; else the server judges what was uploaded."""
        upload, scores = self.method.upload, dict.fromkeys(member, 0.0)
        if self.policy.options.scores == "client":
            scores = {k: _norm(state["w"] - self.before[k]) for k, state in member.items()}
            admitted = self.policy.admit(self.state, n, scores)
            return {k: upload(member[k], k, n) for k in admitted.weights}, admitted
        uploads = {k: upload(state, k, n) for k, state in member.items()}
        if self.policy.options.scores == "server":
            scores = {k: change(self.method, server, n, k, m) for k, m in uploads.items()}
        return uploads, self.policy.admit(self.state, n, scores)


def change(method: Method, server: State, n: int, k: int, message: Message) -> float:
    """|U_k|: how far the upload of client k alone would move the server's model, with weight 1."""
    alone = {name: array.copy() for name, array in server.items()}
    method.fold(alone, n, {k: message}, {k: 1.0})
    return _norm(alone["w"] - server["w"])


def _norm(difference: Array) -> float:
    return float(np.linalg.norm(difference.astype(np.float64)))


def rehearse(method: Method, sizes: Sizes) -> tuple[int, int]:
    """Bytes up and down of one exchange, between a server and a client that are thrown away."""
    task, client = method.task, method.client(0)
    last = next(n for n in count() if method.ends(n))
    down = method.download(method.server(), 0, 0)
    method.receive(client, 0, 0, down)
    z = np.ones(task.dim, task.dtype)
    method.learn(client, task.zeros(task.taps), z, np.asarray(SURPRISE, task.dtype))
    up = method.upload(client, 0, last)
    return (0 if up is None else sizes(up, True)), (0 if down is None else sizes(down, False))

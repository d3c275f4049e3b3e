"""A policy around a method: who takes part, who of them uploads, and with which weights a_k."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from psofed.core.schedule import Indices
from psofed.federation.contract import ABSENT, Array, Message, Method, State
from psofed.federation.foreign import broken, kind
from psofed.federation.policy import RIGHT, Admitted, Invited, Policy
from psofed.federation.round import Sizes, closes, opens, rehearse
from psofed.federation.stage import Stage
from psofed.stages.defences.contract import change

OWN, BEFORE = "policy.", "policy before"  # in the server's state, and in a client's


class Selected(Stage):
    """Members that the policy invites and admits: w_{n+1} = w_n + sum_k a_k U_k.

    A method that works in blocks keeps its members from the beginning of a block to its end.
    """

    def __init__(self, inner: Method, policy: Policy) -> None:
        super().__init__(inner)
        self.policy, self.several, self.sizes = policy, False, Sizes(inner)
        self.reports = policy.options.scores == "client"
        self.invited = np.empty(0, np.intp)
        self.admitted = Admitted({})
        up, down = rehearse(inner)
        self.up = int(self.sizes.of(up, up=True).sum())
        self.down = int(self.sizes.of(down, up=False).sum())
        self.known: State = {}  # the policy's arrays, in the server's state
        self._side = 0, 0

    def server(self) -> State:
        """The state of the method, and of the policy."""
        own = {OWN + name: array for name, array in self.policy.start().items()}
        return self.inner.server() | own

    def client(self) -> State:
        """The state of the method; where clients report how far they moved, where they began."""
        state = self.inner.client()
        return state | ({BEFORE: state["w"].copy()} if self.reports else {})

    def cohort(self, n: int, server: State) -> Indices:
        """Whom the policy invites, when a cohort is new."""
        self.known = {name[len(OWN) :]: a for name, a in server.items() if name.startswith(OWN)}
        self._side = 0, 0
        if opens(self.inner, n):
            asked = self.policy.invite(self.known, n, self.up, self.down)
            self.invited = invited(self.policy, asked, self.task.places)
            self._side = asked.side_up, asked.side_down
        return self.invited

    def receive(self, client: State, k: Indices, n: int, message: Message) -> None:
        """What the method does; the models that the members start from are kept."""
        self.inner.receive(client, k, n, message)
        if self.reports:
            client[BEFORE][:] = client["w"]

    def upload(self, client: State, k: Indices, n: int) -> Message:
        """Clients that report are admitted before they upload; else all upload."""
        if not self.reports:
            return self.inner.upload(client, k, n)
        moved = np.linalg.norm((client["w"] - client[BEFORE]).astype(np.float64), axis=-1)
        self._admit(n, dict(zip(k.tolist(), moved.tolist(), strict=True)))
        rows = np.flatnonzero(np.isin(k, list(self.admitted.weights)))
        some = {name: array[rows] for name, array in client.items()}
        part = self.inner.upload(some, k[rows], n)
        for name, array in client.items():
            array[rows] = some[name]
        values = np.zeros((len(k), part.values.shape[-1]), part.values.dtype)
        length = np.full(len(k), ABSENT)
        values[rows], length[rows] = part.values, part.length
        return Message(values, length)

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """What the method does with those who are admitted, as the server judges their uploads."""
        sent = message.length != ABSENT
        k, message = k[sent], Message(message.values[sent], message.length[sent])
        if closes(self.inner, n) and not self.reports:
            self._admit(n, self._judged(server, k, n, message))
        self.up = max([self.up, *self.sizes.of(message, up=True).tolist()])
        shares = [self.admitted.weights.get(int(one), 0.0) for one in k]
        given = np.where(message.heard, np.array(shares), 0).astype(message.values.dtype)
        self.inner.fold(server, k, n, message, given)

    def _judged(self, server: State, k: Indices, n: int, message: Message) -> dict[int, float]:
        """What the server makes of the uploads: |U_k|, or <U_k, U>, U their mean."""
        kind, ids = self.policy.options.scores, k.tolist()
        if kind == "none" or not ids:
            return dict.fromkeys(ids, 0.0)
        changes = np.stack([change(self.inner, server, k, n, message, i) for i in range(len(k))])
        found = np.linalg.norm(changes, axis=-1)
        if kind == "alignment":
            found = changes @ changes.mean(axis=0)
        return dict(zip(ids, found.tolist(), strict=True))

    def _admit(self, n: int, scores: dict[int, float]) -> None:
        found = self.policy.admit(self.known, n, scores)
        self.admitted = admitted(self.policy, found, scores, everybody=not self.reports)
        up, down = self._side
        self._side = up + self.admitted.side_up, down + self.admitted.side_down

    def extra(self, uploads: int) -> tuple[int, int, int]:
        """Bytes of questions, reports and replies in the round that was just played."""
        return self._side[0], self._side[1], self._side[1]


def invited(policy: Policy, found: Any, clients: int) -> Indices:
    """Those whom a policy invites, if they are clients and it says so in its form."""
    if not isinstance(found, Invited):
        raise broken(type(policy), "invite", f"returns {kind(found)}, not Invited", RIGHT)
    ids = np.asarray(found.members)
    wrong = ""
    if ids.shape != (ids.size,) or (ids.size and ids.dtype.kind not in "iu"):
        wrong = f"gives {found.members!r:.60}, not a list of whole numbers"
    elif outside := [k for k in ids.tolist() if not 0 <= k < clients]:
        wrong = f"names client {outside[0]}, of 0 to {clients - 1}"
    elif len(set(ids.tolist())) < len(ids):
        wrong = f"names a client twice: {ids.tolist()}"
    if wrong:
        raise broken(type(policy), "invite", wrong, RIGHT)
    return ids.astype(np.intp, copy=False)


def admitted(policy: Policy, found: Any, scores: Mapping[int, float], everybody: bool) -> Admitted:
    """The weights, if they are numbers, of members who asked; of all, where all have uploaded."""
    if not isinstance(found, Admitted):
        raise broken(type(policy), "admit", f"returns {kind(found)}, not Admitted", RIGHT)
    weights = found.weights
    if others := [k for k in weights if k not in scores]:
        raise broken(type(policy), "admit", f"admits {others[0]}, who did not ask", RIGHT)
    if everybody and (left := [k for k in scores if k not in weights]):
        what = f"leaves out {left[0]}, who has uploaded; give 0 to those that should not count"
        raise broken(type(policy), "admit", what, RIGHT)
    if wrong := [a for a in weights.values() if not np.isfinite(a)]:
        raise broken(type(policy), "admit", f"gives the weight {wrong[0]}", RIGHT)
    return found

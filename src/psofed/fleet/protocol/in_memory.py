"""The messages executor: the deployed handlers, joined by a dict instead of a broker."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from psofed.federation.contract import Array, Method, summed
from psofed.fleet.protocol.client import Client, Source
from psofed.fleet.protocol.server import Server


@dataclass(frozen=True, eq=False)
class Exchange:
    """What was computed and what was sent."""

    models: Array  # [N + 1, ...]: the models that are judged, before each round
    local: Array  # [N + 1, K, D], or empty if clients keep no model
    traffic: Array  # [N, 3]: bytes up, down and multicast down


def source(x: Array, y: Array) -> Source:
    """Samples by number, from arrays."""
    return lambda start, stop: (x[start:stop], y[start:stop])


def run(method: Method, x: Array, y: Array, start: tuple[Array, Array] | None = None) -> Exchange:
    """All rounds on the samples x [K, N, L] and y [K, N], as bytes between the handlers."""
    clients = [Client(method, k, source(x[k], y[k])) for k in range(len(x))]
    server = Server(method)
    if server.masks is not None:  # nobody masks anything here: there is nothing to take off
        server.masks.settings = replace(server.masks.settings, self_masks=False)
    if start is not None:
        server.state["w"][:] = start[0]
        for client, w in zip(clients, start[1], strict=True):
            client.state["w"][:] = w
    models, local, sent = [], [], []
    for n in range(y.shape[1] + 1):
        for client in clients:
            client.catch_up(n)
        names = clients[0].state
        stack = {name: np.concatenate([c.state[name] for c in clients]) for name in names}
        models.append(method.models(server.state, stack).copy())
        local.append(stack.get("w", np.empty(0)))
        if n < y.shape[1]:
            sent.append(_round(server, clients))
    return Exchange(np.array(models), np.array(local), np.array(sent))


def _round(server: Server, clients: list[Client]) -> tuple[int, int, int]:
    """Bytes of a round: up, down, and down where equal ones go once."""
    n, invitations = server.n, server.invite()
    answers = {k: clients[k].take_part(n, data) for k, data in invitations.items()}
    for k, answer in answers.items():
        server.collect(k, n, answer)
    server.commit()
    up, down = (np.array([len(m) for m in each.values()], int) for each in (answers, invitations))
    return summed(server.method, up, down)

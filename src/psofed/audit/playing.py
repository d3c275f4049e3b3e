"""Views of messages that are made here: the deployed handlers, joined in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from psofed.audit.server_view import Contact, ServerView, TrueSamples, seen
from psofed.deploy.samples import replay
from psofed.experiment import Experiment
from psofed.protocol.client import Client
from psofed.protocol.deployment import Deploy, Deployment
from psofed.protocol.server import Server


def deployed(experiment: Experiment, j: int, deploy: Deploy) -> Deployment:
    """Method j of an experiment in lockstep, where sample n belongs to round n."""
    return Deployment(experiment, replace(deploy, method=j, clock="lockstep"))


def play(
    plan: Deployment, rounds: int, told: Callable[[int, int], None] = lambda done, of: None
) -> ServerView:
    """The messages of the first rounds in which anybody takes part, as the server sees them."""
    method, world = plan.method(), plan.world
    server, clients = Server(method), dict[int, Client]()
    contacts: list[Contact] = []
    busy = 0
    with np.errstate(over="ignore", invalid="ignore"):
        while server.n < world.rounds and busy < rounds:
            n, invitations = server.n, server.invite()
            busy += bool(invitations)
            for k, down in invitations.items():
                if k not in clients:
                    clients[k] = Client(method, k, replay(world, k))
                up = clients[k].take_part(n, down)
                server.collect(k, n, up)
                contacts.append(Contact(n, k, down, up))
            server.commit()
            told(busy, rounds)
    return seen(plan, contacts, 0, server.n)


def truth(plan: Deployment, clients: list[int], stop: int) -> TrueSamples:
    """The samples of rounds 0..stop-1, which no attack gets."""
    return TrueSamples({k: replay(plan.world, k)(0, stop) for k in clients})

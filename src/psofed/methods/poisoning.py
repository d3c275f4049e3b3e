"""Malicious members of a round: they follow the method, but upload what an attack says.

An attack replaces the model from which such a client makes its upload, so that it works with every
method whose clients keep a model, whatever their messages are. Their own learning goes on unharmed.
"""

from __future__ import annotations

import numpy as np

from psofed.attacks.contract import Attack
from psofed.methods.contract import Messages, Method, State
from psofed.methods.members import Members


class Poisoned:
    """The uploads of members of whom some are malicious. `server` is None where none is known."""

    def __init__(self, method: Method, attack: Attack, server: State | None) -> None:
        self.method, self.attack, self.server = method, attack, server

    def upload(self, n: int, members: Members) -> Messages:
        """What the members send in round n."""
        bad = self.attack.insiders.among(members.keys)
        if not bad.any():
            return members.upload(n)
        w = None if self.server is None else self.server.get("w")
        with np.errstate(over="ignore", invalid="ignore"):
            sent = self.attack.models(n, members.keys, members.models(), bad, w)
        return members.upload_as(n, sent, bad)


def poisoned(method: Method, server: State | None) -> Poisoned | None:
    """The same for a method whose task has an attack on values; else None."""
    attack = method.task.attack
    if attack is None or attack.options.on != "values":
        return None
    return Poisoned(method, attack, server)

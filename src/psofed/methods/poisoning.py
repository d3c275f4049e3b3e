"""Malicious members of a round: they follow the method, but upload what an attack says.

An attack replaces the model from which such a client makes its upload, so that it works with every
method whose clients keep a model, whatever their messages are. Their own learning goes on unharmed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from psofed.attacks.contract import Attack
from psofed.core.schedule import Indices
from psofed.methods.contract import Array, Messages, Method, State
from psofed.methods.defending import Defended
from psofed.methods.members import Members


class Poisoned:
    """The uploads of members of whom some are malicious. `server` is None where none is known."""

    def __init__(
        self, method: Method, attack: Attack, server: State | None, guard: Defended | None
    ) -> None:
        self.method, self.attack, self.server, self.guard = method, attack, server, guard

    def upload(self, n: int, members: Members) -> Messages:
        """What the members send in round n."""
        bad = self.attack.insiders.among(members.keys)
        if not bad.any():
            return members.upload(n)
        w = None if self.server is None else self.server.get("w")
        known: Any = n, members.keys, members.models(), bad, w
        if self.attack.options.adapts:
            known += (self._passing(n, np.asarray(members.keys)),)
        with np.errstate(over="ignore", invalid="ignore"):
            sent = self.attack.models(*known)
        return members.upload_as(n, sent, bad)

    def _passing(self, n: int, keys: Indices) -> Callable[[Array], Array] | None:
        """What tells which models could be uploaded unharmed; None: there is no defence."""
        guard, server = self.guard, self.server
        if guard is None or server is None:
            return None
        return lambda models: guard.passes(server, n, keys, models)


def poisoned(
    method: Method, server: State | None, guard: Defended | None = None
) -> Poisoned | None:
    """The same for a method whose task has an attack on values; else None."""
    attack = method.task.attack
    if attack is None or attack.options.on != "values":
        return None
    return Poisoned(method, attack, server, guard)

"""What both a deployment and its oracle stand on: a plan, its streams, and one device by hand."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from psofed.deploy.samples import replay
from psofed.experiment import Experiment, Features
from psofed.methods import psofed
from psofed.protocol.deployment import Deploy, Deployment

WORLDS, ROUNDS, NUMBERS = 12, 100, 64  # plans, samples of a client, numbers that clients may have
INVITE, BEGIN = 0, 3  # kinds of frames


class World:
    """A small plan, and by client and round: samples, windows and keys, as the rules have them."""

    def __init__(self, number: int) -> None:
        self.clients, dim = 3 + number % 4, 5 + number % 5
        options = psofed.Options(
            shared=1 + number % 3, scheme=("uncoordinated", "coordinated")[number % 2]
        )
        self.size = 1 + number % 3
        self.plan = Deployment(
            Experiment(clients=self.clients, cohort=self.size, rounds=ROUNDS, seed=number,
                       dtype="float64", features=Features(dim=dim), methods=(options,)),
            Deploy(wire="float64"),
        )  # fmt: skip
        method: Any = self.plan.method()
        self.method, self.task, self.dim = method, method.task, dim
        self.first = method.schedule.initial(np.arange(NUMBERS))
        self.samples: dict[int, Any] = {}
        self._keys: dict[int, list[float]] = {}

    def window(self, k: int, n: int) -> Any:
        """Rule 1: S(k, n) = (S(k, 0) + tau n) mod D."""
        return (self.first[k % len(self.first)] + self.method.schedule.shift * n) % self.dim

    def stream(self, k: int) -> Any:
        """x, z and y of client k."""
        if k not in self.samples:
            x, y = replay(self.plan.experiment, k)(0, ROUNDS)
            self.samples[k] = x, self.task.features(x), y
        return self.samples[k]

    def keys(self, n: int) -> list[float]:
        """Rule 17: by number; of the first K, those of rule 1's cohort have the smallest."""
        if n not in self._keys:
            drawn = [
                float(self.task.seeds.uniforms("fleet", client=k, round=n, count=1)[0])
                for k in range(NUMBERS)
            ]
            chosen = {int(k) for k in self.task.cohorts.cohort(n)}
            order = sorted(range(self.clients), key=lambda k: (k not in chosen, drawn[k]))
            for k, key in zip(order, sorted(drawn[: self.clients]), strict=True):
                drawn[k] = key
            self._keys[n] = drawn
        return self._keys[n]


@cache
def fleet_world(number: int) -> World:
    """Made once."""
    return World(number)


@dataclass(frozen=True)
class Device:
    """Rules 5, 7 and 17 of one client: what its record must say."""

    world: World
    k: int
    local: Any
    last: int = -1
    seen: int = 0  # the highest incarnation
    upload: Any = None

    def asked(self, kind: int, n: int, incarnation: int, body: bytes) -> Device | None:
        """As it is after an invitation; None: it refuses."""
        if incarnation < self.seen or n < self.last:
            return None
        if n == self.last:
            return replace(self, seen=incarnation)
        (_, z, y), world, values = self.world.stream(self.k), self.world, np.frombuffer(body, "<f8")
        local = values.copy() if kind == BEGIN else self.local.copy()
        for m in range(n if kind == BEGIN else self.last + 1, n + 1):
            if m == n and kind != BEGIN:
                local[world.window(self.k, n)] = values
            local += world.method.step * (y[m] - local @ z[m]) * z[m]
        upload = local[world.window(self.k, n + 1)]
        return replace(self, local=local, last=n, seen=incarnation, upload=upload)

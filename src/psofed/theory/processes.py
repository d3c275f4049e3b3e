"""Predictions of several methods at once: a process each, because threads wait for each other.

The products of one round are so small that two threads spend a third of their time waiting for the
interpreter's lock.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from psofed.theory import prediction
from psofed.theory.reduced import Population, population
from psofed.theory.system import System
from psofed.workers import deaf, processes

_here: dict[str, Any] = {}


def in_processes(
    world: prediction.World,
    methods: int,
    jobs: int,
    on_round: Callable[[int, int], None] | None,
) -> list[prediction.Prediction]:
    """The predictions of the world's methods, in their order."""
    data = population(world.moments)
    # The other processes need the population, which is small, and not the matrices R_k behind it.
    bare = replace(data.moments, R=data.moments.R.mean(axis=0, keepdims=True))
    light = replace(world, moments=bare)
    counts = multiprocessing.get_context("spawn").Array("q", methods)
    # The longest first, so that no process is left alone with one at the end.
    costs = [_cost(system) for system in prediction.systems(world).values()]
    order = sorted(range(methods), key=lambda index: -costs[index])
    arguments = (light, replace(data, moments=bare), counts)
    with processes(min(jobs, methods), _begin, arguments) as pool:
        with deaf():
            submitted = {index: pool.submit(_one, index) for index in order}
        futures = [submitted[index] for index in range(methods)]
        while wait(futures, timeout=0.5, return_when="FIRST_EXCEPTION").not_done:
            if on_round is not None:
                on_round(sum(counts[:]), methods * world.experiment.rounds)
            if any(future.done() and future.exception() for future in futures):
                break
        return [future.result() for future in futures]


def _cost(system: System) -> float:
    """How long a round takes, roughly: whole models are cheap, common rows are expensive."""
    if system.whole:
        return 1.0
    return 2.0 + system.method.shared / system.dim if system.coordinated else 4.0


def _begin(world: prediction.World, data: Population, counts: Any) -> None:
    threadpool_limits(1)
    _here.update(world=world, data=data, counts=counts)


def _one(index: int) -> prediction.Prediction:
    world, data, counts = _here["world"], _here["data"], _here["counts"]
    title, system = list(prediction.systems(world).items())[index]

    def tell(n: int) -> None:
        if n % 20 == 0:
            counts[index] = n

    found = prediction.one(world, title, system, data, tell)
    counts[index] = int(np.max(found.rounds))
    return found

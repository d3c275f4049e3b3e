"""Graphs for methods without a server: the neighbours of each node, and their weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from psofed.core.seeds import Seeds

Neighbours = tuple[tuple[int, ...], ...]  # of each node, in ascending order, without itself
Weights = tuple[tuple[float, ...], ...]  # of each neighbour; a node keeps the rest for itself


def ring(clients: int, degree: int = 2) -> Neighbours:
    """Node k hears the `degree` nodes nearest to it on a circle, half of them on each side.

    >>> ring(5)
    ((1, 4), (0, 2), (1, 3), (2, 4), (0, 3))
    """
    reach = range(1, min(degree // 2, clients // 2) + 1)
    near = ({(k + step) % clients for i in reach for step in (i, -i)} for k in range(clients))
    return tuple(tuple(sorted(nodes)) for nodes in near)


def complete(clients: int) -> Neighbours:
    """Every node hears every other node."""
    everybody = range(clients)
    return tuple(tuple(j for j in everybody if j != k) for k in everybody)


def star(clients: int) -> Neighbours:
    """Node 0 hears all, all hear node 0.

    >>> star(3)
    ((1, 2), (0,), (0,))
    """
    return (tuple(range(1, clients)), *((0,) for _ in range(1, clients)))


def geometric(seeds: Seeds, clients: int) -> Neighbours:
    """Random points of the unit square; nodes within the least distance that connects all hear.

    The positions are drawn once, with the rest of the world.
    """
    places = seeds.world.uniforms("place", client=np.arange(clients), count=2)
    squares = sum(np.subtract.outer(axis, axis) ** 2 for axis in places.T)
    linked = np.asarray(squares) <= connecting(np.asarray(squares))
    np.fill_diagonal(linked, False)
    return tuple(tuple(np.flatnonzero(row).tolist()) for row in linked)


def connecting(distances: NDArray[np.float64]) -> float:
    """The least distance that connects all: the longest edge of the minimum spanning tree (Prim).

    >>> connecting(np.array([[0.0, 1, 5], [1, 0, 3], [5, 3, 0]]))
    3.0
    """
    best, longest = distances[0].copy(), 0.0
    outside = np.ones(len(best), bool)
    outside[0] = False
    while outside.any():
        nearest = int(np.argmin(np.where(outside, best, np.inf)))
        longest = max(longest, float(best[nearest]))
        outside[nearest] = False
        np.minimum(best, distances[nearest], out=best)
    return longest


def metropolis(neighbours: Neighbours) -> Weights:
    """c_lk = 1 / (1 + max(deg_k, deg_l)): the same both ways, so that the nodes' mean is kept.

    >>> metropolis(star(3))
    ((0.3333333333333333, 0.3333333333333333), (0.3333333333333333,), (0.3333333333333333,))
    """
    degree = [len(nodes) for nodes in neighbours]
    return tuple(
        tuple(1 / (1 + max(degree[k], degree[j])) for j in nodes)
        for k, nodes in enumerate(neighbours)
    )


def uniform(neighbours: Neighbours) -> Weights:
    """c_lk = 1 / (1 + deg_k): a neighbour has the same weight as the node itself."""
    return tuple((1 / (1 + len(nodes)),) * len(nodes) for nodes in neighbours)

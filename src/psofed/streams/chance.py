"""What chance gives to a client: a function of its number and the seeds, whoever asks, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.foreign import call, real
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.streams.contract import BLOCK

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class ClientChance:
    """One client's random numbers, as NumPy's generators; each call of a law gets a new one.

    Laws may use no others: all results are functions of the seed.

    >>> one, again = (ClientChance(Seeds(0), "test", 7) for _ in range(2))
    >>> bool(one.random.normal() == again.random.normal())
    True
    """

    seeds: Seeds
    purpose: str
    number: int  # k
    block: int = 0
    moved: np.random.Generator | None = None  # `random`, where it has been made already

    @cached_property
    def random(self) -> np.random.Generator:
        """For what is drawn now."""
        return self.moved or self.seeds.generator(
            self.purpose, client=self.number, round=self.block
        )

    @cached_property
    def own(self) -> np.random.Generator:
        """For what makes the client itself: the same numbers in learning and in testing."""
        return self.seeds.world.generator("own", client=self.number)


Law = Callable[[ClientChance, int], Any]  # a client and a count to that many values

# Mean 0 and variance 1. Student's law has 5 degrees of freedom.
NOISES: dict[str, Law] = {
    "laplace": lambda client, count: client.random.laplace(0, np.sqrt(1 / 2), count),
    "student": lambda client, count: client.random.standard_t(5, count) * np.sqrt(3 / 5),
    "uniform": lambda client, count: client.random.uniform(-np.sqrt(3), np.sqrt(3), count),
}


def values(law: Law, client: ClientChance, shape: tuple[int, ...], field: str) -> Array:
    """`shape[0]` values of a law, checked."""
    return real(field, call(field, law, client, shape[0]), shape)


def blocks(
    law: Law, seeds: Seeds, purpose: str, clients: Array, first: int, stop: int,
    shape: tuple[int, ...], field: str,
) -> Array:  # fmt: skip
    """The values of rounds first..stop-1, client by client; whole blocks are drawn."""
    out = np.empty((len(clients), stop - first, *shape))
    moved = seeds.mover(purpose)
    for row, k in zip(out, clients.tolist(), strict=True):
        for n in range(first, stop, BLOCK):
            client = ClientChance(seeds, purpose, k, n // BLOCK, moved(k, n // BLOCK))
            drawn = values(law, client, (BLOCK, *shape), field)
            row[n - first : n - first + BLOCK] = drawn[: stop - n]
    return out


def turns(
    law: Law, seeds: Seeds, purpose: str, clients: Array, count: int, shape: tuple[int, ...],
    field: str,
) -> Array:  # fmt: skip
    """`count` values that belong to `clients` in turn."""
    out = np.empty((count, *shape))
    for i, k in enumerate(clients[:count].tolist()):
        here = out[i :: len(clients)]
        here[:] = values(law, ClientChance(seeds, purpose, k), here.shape, field)
    return out


def check_law(law: Law, shape: tuple[int, ...], field: str) -> Array:
    """Refuse a law that is not a function of the client's random numbers; returns some values."""
    one, again, other = (
        values(law, ClientChance(Seeds(0), "probe", k), (2 * BLOCK, *shape), field).copy()
        for k in (0, 0, 1)
    )
    if not np.array_equal(one, again):
        found = "gives other values when it is called again with the same random numbers"
        raise InputError(field, found, "draw all of them from client.random and client.own")
    return np.concatenate([one, other])


def tail(law: Law, field: str) -> float:
    """The index of the law's tail, P(|v| > t) ~ t^-index: Hill's estimate, the largest of three.

    The variance is finite above 2. Laws with rare outliers have a light tail at one of the depths.

    >>> 0.5 < tail(lambda client, count: client.random.standard_cauchy(count), "law") < 1.5
    True
    """
    drawn = [values(law, ClientChance(Seeds(0), "tail", k), (5000,), field) for k in range(20)]
    sizes = np.sort(np.abs(np.concatenate(drawn)))[::-1]
    found = []
    for depth in (20, 100, 1000):
        if sizes[depth] <= 0:
            return np.inf
        mean = np.log(sizes[:depth] / sizes[depth]).mean()
        found.append(1 / mean if mean > 0 else np.inf)
    return float(max(found))


def check_noise(law: Law, field: str) -> None:
    """Refuse noise whose mean is not 0: f would not be what is learned."""
    drawn = np.concatenate([
        values(law, ClientChance(Seeds(0), "probe noise", k), (1000,), field) for k in range(20)
    ])  # fmt: skip
    if abs(drawn.mean()) > 6 * drawn.std() / np.sqrt(len(drawn)) + 1e-12:
        right = "draw noise around 0, and add the rest to f"
        raise InputError(field, f"has mean {drawn.mean():.3g}, not 0", right)

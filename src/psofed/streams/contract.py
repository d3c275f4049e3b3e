"""The contract of a stream: samples per client, in order, and a snapshot to be judged on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from psofed.core.seeds import Seeds

Array = NDArray[Any]


BLOCK = 256  # rounds: samples are drawn in blocks of so many, each a function of its number


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs x [..., L], the noise-free f(x) [...] and the noise; y = f(x) + noise, eq. (1)."""

    x: Array
    clean: Array
    noise: Array
    memory: Any = None  # what the stream needs to go on after these samples

    @property
    def y(self) -> Array:
        """Eq. (1): y = f(x) + nu."""
        return self.clean + self.noise


def blend(stream: Any, rounds: Array) -> Array:
    """a_n: how far f has changed into something else at each of these rounds."""
    share: Array = stream.blend(rounds) if varies(stream) else np.zeros(len(rounds))
    return share


def varies(stream: Any) -> bool:
    """Whether f changes over time."""
    return hasattr(stream, "later")


def measured(stream: Any) -> bool:
    """Whether the samples were measured: clients are given, noise is not told from the rest."""
    return hasattr(stream, "count")


class Stream(Protocol):
    """Where samples come from. Its fields are the keys of the experiment's [stream] table.

    `samples` gives those of rounds first..stop-1 of `clients`; `first` is a multiple of BLOCK, and
    `memory` is what the samples before had (None at round 0), cut to the same clients. `snapshot`
    gives independent samples: of all clients, of which it takes evenly spread ones if there are
    more than samples, or of a list of clients, in turn.

    A stream whose inputs are Gaussian may say so with a method `input_law(seeds, clients)`, mean
    [K, L] and covariance [K, L, L]: the theory then computes R_k, where it would sample it.

    A stream whose f changes over time has `later(x)`, what it changes into, and `blend(rounds)`,
    the weight of that at each round: f_n = (1 - a_n) f + a_n later. Models are judged by f_n.

    A stream that was measured has `count`, its clients; nobody knows its noise-free values.
    """

    name: ClassVar[str]
    independent: ClassVar[bool]  # whether the samples of a client are independent over time

    @property
    def taps(self) -> int: ...

    def samples(
        self, seeds: Seeds, clients: Array, first: int, stop: int, dtype: Any, memory: Any = None
    ) -> Samples: ...

    def snapshot(self, seeds: Seeds, purpose: str, clients: int | Array, count: int) -> Samples: ...

"""The paper's clients with independent windows, as its assumption A1 asks (AR(1) is not so).

A window has the same law as the paper's, but each round draws a fresh one, so the samples of a
client are independent over time. The theory of mean and mean-square errors is exact for such data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psofed.core.seeds import Seeds
from psofed.streams import paper
from psofed.streams.contract import BLOCK, Samples

Array = NDArray[Any]


@dataclass(frozen=True)
class Options(paper.Options):
    """The ranges of U(.) from which each client's law is drawn, as in the paper's stream."""

    name: ClassVar[str] = "iid"
    independent: ClassVar[bool] = True

    def samples(
        self,
        seeds: Seeds,
        clients: Array,
        first: int,
        stop: int,
        dtype: Any = np.float64,
        memory: Array | None = None,
    ) -> Samples:
        """The samples of rounds first..stop-1, each independent of the others."""
        numbers = self.taps + 1  # for a window and its noise
        normals = np.empty((len(clients), stop - first, numbers), dtype)
        for n in range(first, stop, BLOCK):
            block = seeds.normals("iid", clients, numbers * BLOCK, round=n // BLOCK)
            rows = block.reshape(len(clients), BLOCK, numbers)[:, : stop - n]
            normals[:, n - first : n - first + BLOCK] = rows
        laws = self.laws(seeds, clients)
        each = paper.Laws(*(np.repeat(law, stop - first) for law in laws))
        series = paper.autoregress(each, normals[..., :-1].reshape(-1, self.taps))
        x = series.reshape(len(clients), stop - first, self.taps)[..., ::-1]
        noise = normals[..., -1] * np.sqrt(laws.noise).astype(dtype)[:, None]
        # There is no memory, but callers cut it to clients, so it has a row for each.
        return Samples(x, paper.f(x), noise, np.empty((len(clients), 0), dtype))

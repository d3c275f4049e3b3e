"""The paper's stream with a sensor that is wrong for a while: from round `when` on it reads `value`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from psofed.streams import paper


@dataclass(frozen=True)
class Options(paper.Options):
    """Which client, when and for how long, what it reads, and whether its x is stuck at 0."""

    name: ClassVar[str] = "spiked"
    client: int = 3
    when: int = 400
    lasts: int = 1
    value: float = -999.0
    stuck: bool = False

    def samples(
        self, seeds: Any, clients: Any, first: int, stop: int, dtype: Any = np.float64,
        memory: Any = None,
    ) -> Any:  # fmt: skip
        """Those of the paper, but for these."""
        found = super().samples(seeds, clients, first, stop, dtype, memory)
        rounds = np.arange(first, stop)
        wrong = (np.asarray(clients) == self.client)[:, None] & (
            (rounds >= self.when) & (rounds < self.when + self.lasts)
        )
        x = np.where(wrong[..., None] & self.stuck, 0, found.x).astype(dtype)
        noise = np.where(wrong, self.value - found.clean, found.noise).astype(dtype)
        return replace(found, x=x, noise=noise)

"""The paper's stream with a sensor that is wrong once: in round `when` it reads -999."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from psofed.streams import paper


@dataclass(frozen=True)
class Options(paper.Options):
    """Which client, and when."""

    name: ClassVar[str] = "spiked"
    client: int = 3
    when: int = 400

    def samples(
        self, seeds: Any, clients: Any, first: int, stop: int, dtype: Any = np.float64,
        memory: Any = None,
    ) -> Any:  # fmt: skip
        """Those of the paper, but for these."""
        found = super().samples(seeds, clients, first, stop, dtype, memory)
        wrong = np.equal.outer(clients, np.full(1, self.client)) & (
            np.arange(first, stop) == self.when
        )
        return replace(found, noise=np.where(wrong, -999 - found.clean, found.noise).astype(dtype))

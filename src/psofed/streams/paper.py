"""The paper's synthetic non-IID stream: an AR(1) input at each client and one nonlinear f.

With `inputs = "iid"` the windows have the same law, but each round draws a fresh one, as assumption
A1 asks (AR(1) is not so): the theory of mean and mean-square errors is exact for such data. With
`at` or `period`, f takes its inputs in reverse order from a round on, or drifts there and back.
With `spread` every client has a function of its own, for which a model of its own is worth while.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from psofed.core.native import Array
from psofed.streams.synthetic import Synthetic


def f(x: Array) -> Array:
    """Section 4: f(x) = sqrt(x1^2 + sin^2(pi x4)) + (0.8 - 0.5 exp(-x2^2)) x3, noise-free."""
    x1, x2, x3, x4 = np.moveaxis(x, -1, 0)
    y: Array = np.sqrt(x1**2 + np.sin(np.pi * x4) ** 2)
    y += (0.8 - 0.5 * np.exp(-(x2**2))) * x3
    return y


@dataclass(frozen=True, kw_only=True)
class PaperStream(Synthetic):
    """The ranges of U(.) from which each client's law is drawn."""

    name: ClassVar[str] = "paper"
    taps: ClassVar[int] = 4

    def function(self, x: Array) -> Array:
        """The paper's f."""
        return f(x)


Options = PaperStream

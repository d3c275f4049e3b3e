"""The paper's synthetic non-IID stream: an AR(1) input at each client and one nonlinear f."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError
from psofed.streams.synthetic import Range, Switching

Array = NDArray[Any]


def f(x: Array) -> Array:
    """Section 4: f(x) = sqrt(x1^2 + sin^2(pi x4)) + (0.8 - 0.5 exp(-x2^2)) x3, noise-free."""
    x1, x2, x3, x4 = (x[..., i] for i in range(4))
    y: Array = np.sqrt(x1**2 + np.sin(np.pi * x4) ** 2)
    y += (0.8 - 0.5 * np.exp(-(x2**2))) * x3
    return y


@dataclass(frozen=True)
class Options(Switching):
    """The ranges of U(.) from which each client's law is drawn."""

    name: ClassVar[str] = "paper"
    taps: ClassVar[int] = 4
    theta: Range = (0.2, 0.9)  # correlation of the input
    mean: Range = (-0.2, 0.2)  # of its innovation
    variance: Range = (0.2, 1.2)  # of its innovation
    noise: Range = (0.005, 0.03)  # variance of the observation noise

    def __post_init__(self) -> None:
        self.check_ranges()

    def function(self, x: Array) -> Array:
        """The paper's f."""
        if x.shape[-1] != 4:
            right = "override `function` too, or use psofed.Stream(f, taps=...)"
            raise InputError("taps", f"is {x.shape[-1]}, but the paper's f takes 4", right)
        return f(x)

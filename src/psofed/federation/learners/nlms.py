"""Normalised LMS on the features of the experiment: the step is divided by |z|^2.

J. Nagumo, A. Noda, "A learning method for system identification", IEEE Trans. Autom. Control, 1967.
Any step between 0 and 2 is stable for one client, whatever the features. Random Fourier features
have |z|^2 close to 1, so there it differs little from LMS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from psofed.federation import schema
from psofed.federation.learners.contract import Array, Line


@dataclass(frozen=True)
class NLMS(Line):
    """epsilon, which keeps the step finite where the features vanish.

    >>> w = np.zeros(2)
    >>> float(Options(epsilon=1.0).learn(w, np.array([1.0, 1.0]), 3.0, step=0.5)), w.tolist()
    (3.0, [0.5, 0.5])
    """

    name: ClassVar[str] = "nlms"
    normalised: ClassVar[bool] = True
    featured: ClassVar[bool] = True
    epsilon: float = 1e-3  # added to |z|^2

    def check(self) -> None:
        """epsilon is above 0."""
        super().check()
        schema.positive(self, "epsilon")

    def size(self, taps: int, features: int) -> int:
        return features

    def direction(self, w: Array, z: Array) -> Array:
        """z / (epsilon + |z|^2)."""
        squares = np.vecdot(z, z)[..., None]
        squares += squares.dtype.type(self.epsilon)
        scaled: Array = z / squares
        return scaled


Options = NLMS

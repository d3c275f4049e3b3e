"""A learner in a file of its own: a small neural network, one layer of tanh and a linear output.

    [learner]
    name = "./network_learner.py"
    hidden = 33

A layer computes W (1, h) / sqrt(n + 1), h its n inputs, so that the gradient has a length of about
1 whatever the width, and steps mean about the same as with random features. Of the first layer, z
is (1, x) / sqrt(L + 1) already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from psofed.contract import Learner


@dataclass(frozen=True)
class Options(Learner):
    """The model is W of the hidden layer, row by row, and then that of the output.

    >>> Options(hidden=33).size(taps=4, features=0)
    199
    """

    name: ClassVar[str] = "network"
    hidden: int = 33  # units

    def size(self, taps: int, features: int) -> int:
        """The numbers of both layers."""
        return self.hidden * (taps + 2) + 1

    def initial(self, seeds: Any, taps: int, dim: int) -> Any:
        """Normal numbers, but zeros for the output: the first prediction is 0, as with LMS."""
        w = seeds.world.generator("learner").standard_normal(dim)
        w[dim - self.hidden - 1 :] = 0
        return w

    def predict(self, w: Any, z: Any) -> Any:
        """The output."""
        return self.both(w, z)[0]

    def direction(self, w: Any, z: Any) -> Any:
        """The gradient of the prediction by every weight."""
        return self.both(w, z)[1]

    def both(self, w: Any, z: Any) -> tuple[Any, Any]:
        """The output and, by back-propagation, its gradient."""
        end = w.shape[-1] - self.hidden - 1
        W, v = w[..., :end].reshape(*w.shape[:-1], self.hidden, -1), w[..., end:]
        h = np.tanh((W @ z[..., None])[..., 0])
        scale = np.sqrt(self.hidden + 1).astype(h.dtype)
        out = np.concatenate([np.ones((*h.shape[:-1], 1), h.dtype), h], axis=-1) / scale
        back = v[..., 1:] / scale * (1 - np.square(h))  # 1 - h^2 is the derivative of tanh
        inner = (back[..., :, None] * z[..., None, :]).reshape(*h.shape[:-1], -1)
        return np.vecdot(v, out), np.concatenate([inner, out], axis=-1)

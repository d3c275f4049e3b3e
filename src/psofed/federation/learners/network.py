"""A small neural network in NumPy: layers of tanh and one linear output, with its own gradient.

Every layer computes W (1, h) / sqrt(n + 1), h its n inputs, so that the gradient has a length of
about 1 whatever the width, and steps mean about the same as with random features. W starts as
standard normal numbers, but that of the output as zeros: the first prediction is 0, as with LMS.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.federation import schema
from psofed.federation.learners.contract import MOST_DIM, Array, Learner


@dataclass(frozen=True)
class Options(Learner):
    """The width of the hidden layers, and how many there are.

    >>> Options(hidden=33).size(taps=4, features=0)
    199
    """

    name: ClassVar[str] = "network"
    hidden: int = 33  # units in a hidden layer
    layers: int = 1  # hidden layers

    def check(self) -> None:
        """There is at least one hidden unit, and not an absurd number of layers."""
        super().check()
        schema.positive(self, "hidden", "layers")
        schema.at_most(self, {"layers": 8})

    def describe(self) -> str:
        return f"network {' x '.join(['L', *[str(self.hidden)] * self.layers, '1'])}"

    def size(self, taps: int, features: int) -> int:
        """The numbers of all layers."""
        dim = sum(rows * (n + 1) for rows, n in self._shapes(taps))
        if dim > MOST_DIM:
            found = f"is {self.hidden}, which makes {dim} parameters"
            raise InputError("hidden", found, f"use less: {MOST_DIM} parameters at most")
        return dim

    def _shapes(self, taps: int) -> Iterator[tuple[int, int]]:
        """Outputs and inputs of every layer."""
        widths = [taps, *[self.hidden] * self.layers, 1]
        return zip(widths[1:], widths, strict=False)

    def initial(self, seeds: Seeds, taps: int, dim: int) -> Array:
        """Normal numbers, and zeros for the output."""
        w = seeds.world.generator("learner").standard_normal(dim)
        w[dim - self.hidden - 1 :] = 0
        return w

    def predict(self, w: Array, z: Array) -> Array:
        """The output of the last layer."""
        return self._forward(self._layers(w, z), z)[1]

    def direction(self, w: Array, z: Array) -> Array:
        """The gradient of the prediction by every weight."""
        return self.both(w, z)[1]

    def both(self, w: Array, z: Array) -> tuple[Array, Array]:
        """Back-propagation: what each layer has seen, times how much its outputs matter."""
        weights = self._layers(w, z)
        seen, prediction = self._forward(weights, z)
        head = prediction.shape
        parts, matters = [], np.ones((*head, 1), w.dtype)
        for W, h in zip(reversed(weights), reversed(seen), strict=True):
            matters = matters * _scale(h)
            parts.append((matters[..., :, None] * h[..., None, :]).reshape(*head, -1))
            if len(parts) == len(seen):
                break
            # Through tanh, whose derivative is 1 - h^2; h[0] is the constant 1.
            back = matters @ W if W.ndim == 2 else (matters[..., None, :] @ W)[..., 0, :]
            matters = back[..., 1:] * (1 - np.square(h[..., 1:]))
        return prediction, np.concatenate(parts[::-1], axis=-1)

    def _layers(self, w: Array, x: Array) -> list[Array]:
        """The matrix of each layer; the first column belongs to the constant 1."""
        shapes = [(rows, n + 1) for rows, n in self._shapes(x.shape[-1])]
        ends = np.cumsum([rows * columns for rows, columns in shapes])[:-1]
        parts = np.split(w, ends, axis=-1)
        return [p.reshape(*p.shape[:-1], *s) for p, s in zip(parts, shapes, strict=True)]

    def _forward(self, weights: list[Array], x: Array) -> tuple[list[Array], Array]:
        """What every layer sees, (1, h), and the output."""
        h, seen = x, []
        for W in weights:
            h = np.concatenate([np.ones((*h.shape[:-1], 1), h.dtype), h], axis=-1)
            seen.append(h)
            out = h @ W.T if W.ndim == 2 else (W @ h[..., None])[..., 0]
            out = out * _scale(h)
            h = np.tanh(out)
        return seen, out[..., 0]


def _scale(h: Array) -> Array:
    """1 / sqrt(n + 1) for the n inputs of a layer and the constant."""
    return np.reciprocal(np.sqrt(h.dtype.type(h.shape[-1])))

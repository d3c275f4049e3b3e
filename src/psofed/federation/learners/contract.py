"""The contract of a learner: how a client predicts, and what it does with one sample.

A learner is one file in this folder with a frozen dataclass `Options`: the keys of the table
[learner] in an experiment file. Its model is a flat vector w of D numbers, which is all that
methods exchange: they may send any entries of it, and add or average vectors. A learner keeps no
other state, so all clients and the server use the same object.

    z = features(x)                     of [features] if it is `featured`, else (1, x) / sqrt(L + 1)
    w = initial(seeds, taps, dim)       the model of the server and of every client before round 0
    y = predict(w, z)
    e = learn(w, z, y, step)            in place; returns the error before the step

All D entries are shared. Leading axes broadcast: w [D] and z [n, ...] are one model at n points, w
[s, D] and z [s, ...] are s clients with one sample each.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from psofed.core import equations
from psofed.core.native import Array as Array
from psofed.core.seeds import Seeds
from psofed.federation import schema
from psofed.federation.forms import Contract

MOST_DIM = 100_000  # entries of a model


class Learner(schema.Named):
    """A model that learns by steps mu e g, e the error and g a direction, its gradient by default.

    A subclass writes `size`, `predict` and `direction`; one that learns by another rule writes
    `learn`. With the gradient, mu is that of half the squared error, as with LMS. What a class
    declares of a function does not hold for a subclass that changes it.
    """

    linear: ClassVar[bool] = False  # predict(w, z) is w^T z
    lms: ClassVar[bool] = False  # learn is eq. (5)
    normalised: ClassVar[bool] = False  # learn is eq. (5) with the step mu / (epsilon + |z|^2)
    descends: ClassVar[bool] = True  # learn is w + mu e direction(w, z)
    featured: ClassVar[bool] = False  # z are the features of the table [features]

    # Steps that are worth trying; those of a model whose gradients are longer are smaller.
    steps: ClassVar[tuple[float, ...]] = (0.1, 0.2, 0.35, 0.55, 0.75, 1.0, 1.4)
    packages: ClassVar[tuple[str, ...]] = ()  # whose versions decide the numbers, besides NumPy

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = cls.__dict__
        changed = {"predict", "direction", "learn"} & own.keys()
        resets = {
            "linear": {"predict"}, "lms": changed, "normalised": changed, "descends": {"learn"}
        }  # fmt: skip
        for flag, by in resets.items():
            if by & changed and flag not in own:
                setattr(cls, flag, False)

    @property
    def has_theory(self) -> bool:
        """Whether it is LMS on z from w_0 = 0 on, whatever z is: what the theory describes."""
        return self.lms and self.linear and type(self).initial is Learner.initial

    @property
    def in_engine(self) -> bool:
        """Whether the kernel has it: LMS or normalised LMS on the features, from w_0 = 0 on."""
        starts = type(self).initial is Learner.initial
        return (self.lms or self.normalised) and self.featured and starts

    def check(self) -> None:
        """Refuse options of the wrong type or out of range."""
        schema.check(self)

    def size(self, taps: int, features: int) -> int:
        """D, from the numbers of inputs and of features; refuses options that do not fit."""
        raise NotImplementedError

    def initial(self, seeds: Seeds, taps: int, dim: int) -> Array:
        """w_0 = w_{k,0}, the same at both ends: a function of the seed."""
        return np.zeros(dim)

    def predict(self, w: Array, z: Array) -> Array:
        """The prediction of model w at z."""
        raise NotImplementedError

    def direction(self, w: Array, z: Array) -> Array:
        """Where a step goes that raises the prediction at z: its gradient, or a multiple of it."""
        raise NotImplementedError

    def both(self, w: Array, z: Array) -> tuple[Array, Array]:
        """The prediction and the direction; a model that can compute them at once may do so."""
        return self.predict(w, z), self.direction(w, z)

    def learn(self, w: Array, z: Array, y: Any, step: float) -> Any:
        """w <- w + mu e g(w, z), e = y - prediction. In place; returns e."""
        prediction, g = self.both(w, z)
        error = y - prediction
        w += equations.descent(error, g, step)
        return error


class Line(Learner):
    """A model that is linear in z: predict(w, z) = w^T z. A base class."""

    linear: ClassVar[bool] = True

    def predict(self, w: Array, z: Array) -> Array:
        """Eq. (2): w^T z."""
        return z @ w if w.ndim == 1 else np.vecdot(w, z)

    def direction(self, w: Array, z: Array) -> Array:
        """z."""
        return z


LEARNER = Contract(
    "learner", "psofed.learners", Learner, "", (Learner,),
    ("size", "initial", "predict", "direction", "both", "learn"),
    ("size", "predict", "direction or both or learn"),
)  # fmt: skip

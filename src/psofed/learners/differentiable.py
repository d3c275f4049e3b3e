"""Any differentiable model as a learner: predict(w, x) and gradient(w, x) of a flat vector w."""

from __future__ import annotations

from psofed.learners.contract import Array, Learner


class Differentiable(Learner):
    """A model that learns by stochastic gradient descent on the squared error; z is x itself.

    A subclass writes `size`, `initial`, `predict` and `gradient`. The step is w <- w + mu e dy/dw,
    so mu is that of half the squared error, as with LMS.
    """

    def gradient(self, w: Array, x: Array) -> Array:
        """The derivatives of the prediction by each entry of w, [..., D]."""
        raise NotImplementedError

    def direction(self, w: Array, z: Array) -> Array:
        """The gradient."""
        return self.gradient(w, z)

"""An own learner is tried at the start: what it declares holds, its arrays have their shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from psofed import plugins
from psofed.core.foreign import call, real, shaped
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.learners.contract import Array, Learner

MODELS = 3  # with which a learner is tried
SMALL = 1e-3  # the step
CLOSE = 1e-6  # relative to the largest number


def examine(learner: Learner, taps: int, dim: int, width: int) -> None:
    """Refuse a learner from outside that breaks a rule of the contract; `width` is that of z."""
    if not _ours(learner):
        trial(learner, taps, dim, width)


def trial(learner: Learner, taps: int, dim: int, width: int) -> None:
    """An InputError names the function that breaks a rule."""
    if learner.linear and width != dim:
        found = f"is {dim}, but z has {width} entries, and the model is w^T z, as linear says"
        raise InputError("size", found, f"return {width}, or leave out linear = True")
    rng = np.random.default_rng(0)
    first = call("initial", learner.initial, Seeds(0), taps, dim)
    first = real("initial", first, (dim,))
    again = np.asarray(call("initial", learner.initial, Seeds(0), taps, dim))
    if not np.array_equal(first, again):
        right = "draw from seeds.world.generator only"
        raise InputError("initial", "gives two models for the same seeds", right)
    z, spread = rng.standard_normal((MODELS, width)), 0.1 * rng.standard_normal((MODELS, dim))
    _try(learner, first.astype(np.float64) + spread, z)


def _ours(learner: Learner) -> bool:
    try:
        return plugins.of(type(learner)) is None
    except InputError:  # made in a notebook or a script
        return False


def _try(learner: Learner, w: Array, z: Array) -> None:
    """Many models at their points are each by itself; a step does what was declared."""
    together = shaped("predict", call("predict", learner.predict, w, z), (MODELS,))
    for i in range(MODELS):
        alone = shaped("predict", call("predict", learner.predict, w[i], z[i]), ())
        many = shaped("predict", call("predict", learner.predict, w[i], z), (MODELS,))
        _same("predict", (alone, many[i]), together[i], "leading axes have to broadcast")
    if learner.linear:
        right = "it is not w^T z, as linear says: leave out linear = True"
        _same("predict", together, np.vecdot(w, z), right)
    stepped, y = w.copy(), together + 1
    errors = shaped("learn", call("learn", learner.learn, stepped, z, y, SMALL), (MODELS,))
    _same("learn", errors, y - together, "it has to return y minus the prediction before the step")
    if np.array_equal(stepped, w):
        raise InputError("learn", "changes nothing", "change w in place: w += ...")
    for i in range(MODELS):
        one = w[i].copy()
        call("learn", learner.learn, one, z[i], y[i], SMALL)
        _same("learn", one, stepped[i], "leading axes have to broadcast")
    if learner.descends:
        g = shaped("direction", call("direction", learner.direction, w, z), w.shape)
        right = "it is not w + mu e direction(w, z), as descends says: leave out descends = True"
        _same("learn", stepped, w + SMALL * errors[:, None] * g, right)


def _same(field: str, found: Any, wanted: Any, right: str) -> None:
    size = max(1.0, float(np.abs(np.asarray(wanted)).max()))
    if not np.allclose(found, wanted, rtol=CLOSE, atol=CLOSE * size, equal_nan=True):
        raise InputError(field, "gives other numbers than the contract says", right)

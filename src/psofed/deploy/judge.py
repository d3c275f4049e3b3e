"""The test error of a deployed model, in dB: on the experiment's test set, or on a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.deploy import samples
from psofed.protocol.deployment import Deployment

Array = NDArray[Any]


def test_set(plan: Deployment, path: Path | None) -> Callable[[Array], float] | None:
    """A function from w to 10 log10 of its mean square error; None without test samples.

    On the lockstep clock the data is the experiment's, and so is its test set.
    """
    task, stream = plan.method().task, plan.experiment.stream
    if path is not None:
        x, y = samples.recorded(stream, path)
    elif plan.deploy.clock == "lockstep":
        x, y, _ = plan.experiment.draw_test(task.seeds)
    else:
        return None
    learner, z = task.learner, task.features(x.astype(task.dtype))

    def decibels(w: Array) -> float:
        error = float(np.mean(np.square(y - learner.predict(w, z))))
        return 10 * float(np.log10(max(error, 1e-300)))

    return decibels


def targets(plan: Deployment, path: Path | None) -> str:
    """What `test_set` tests on, in words: the targets of a file were measured."""
    return "measured targets" if path is not None else plan.experiment.judged


test_set.__test__ = False  # type: ignore[attr-defined]  # not a test for pytest

"""The RFF-KLMS learner: one line of the paper, for one client or a stack of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def lms(w: NDArray[Any], z: NDArray[Any], y: Any, step: float) -> Any:
    """Eq. (5) and (10): w <- w + mu z epsilon, epsilon = y - w^T z. In place; returns epsilon.

    Leading axes broadcast, so that one call serves one client or all of them.

    >>> w = np.zeros(2)
    >>> float(lms(w, np.array([1.0, 0.5]), 2.0, step=0.5))
    2.0
    >>> w.tolist()
    [1.0, 0.5]
    """
    error = y - np.vecdot(w, z)
    w += (step * error)[..., None] * z
    return error

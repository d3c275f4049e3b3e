"""The bytes of what the compiled engine computes: the size of a message comes from its encoder."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.methods import psofed
from psofed.simulate.draws import Draws
from psofed.simulate.turns import contacts

Array = NDArray[Any]


def traffic(draws: Draws, methods: list[psofed.Method], marks: Array) -> Array:
    """Bytes up, down and multicast down of each method since the mark before."""
    rounds_with_any = np.append(0, np.cumsum(np.diff(draws.start) > 0))
    messages, copies = (
        np.diff(total[marks], prepend=0) for total in (draws.start, rounds_with_any)
    )
    sizes = [len(method.encode(np.zeros(method.shared), up=True)) for method in methods]
    common = np.array([method.common for method in methods])
    out = np.empty((3, len(methods), len(marks)))
    out[:2], out[2] = messages, np.where(common[:, None], copies, messages)
    out *= np.array(sizes)[:, None]
    for j, method in enumerate(methods):
        _welcome(out[:, j], draws, method, marks, sizes[j])
    return out


def _welcome(out: Array, draws: Draws, method: psofed.Method, marks: Array, size: int) -> None:
    """What a welcome has more than a download, at the first contacts of those who begin anew."""
    if not method.idle:
        return  # it is a download
    more = len(method.encode(np.zeros(method.task.dim), up=True)) - size
    for n, new in contacts(draws, method.task.cohorts).items():
        mark = np.searchsorted(marks, n, side="right")
        if not more or mark == len(marks):
            continue
        # Of a multicast that goes to all of them, there is one copy for those who begin anew.
        others = len(new) < draws.start[n + 1] - draws.start[n]
        once = more + size * others
        out[1:, mark] += len(new) * more, once if method.common else len(new) * more

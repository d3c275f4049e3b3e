"""Attacks as the tables that the compiled engine reads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed import native
from psofed.attacks.contract import Attack, Mix
from psofed.simulate import layout
from psofed.simulate.draws import Draws

Array = NDArray[Any]


def knows(attack: Attack | None) -> bool:
    """Whether the engine has the attack: on labels, or a `Mix`."""
    return attack is None or attack.options.on == "labels" or attack.mix() is not None


def table(attack: Attack | None, draws: Draws, data: layout.Data, w: Array) -> layout.Liars:
    """What malicious members of a chunk of rounds send."""
    nobody, empty = np.full(1, -1, np.int64), np.empty((0, w.shape[1]), w.dtype)
    if attack is None or attack.options.on == "labels":
        return layout.Liars(0, *Mix(), nobody, empty, empty, empty, empty)
    bad = attack.insiders.among(draws.ids[data.members])
    at = np.where(bad, np.cumsum(bad) - 1, -1)
    rounds = data.first + np.repeat(np.arange(data.rounds), np.diff(data.start))
    offset = native.aligned((int(np.count_nonzero(bad)), w.shape[1]), w.dtype)
    if len(offset):
        dim = draws.features.dim
        offset[:, :dim] = attack.offset(rounds[bad], draws.ids[data.members[bad]])
    mix = attack.mix()
    assert mix is not None
    sent = native.aligned((int(np.diff(data.start).max()), *w.shape), w.dtype)
    scratch = [native.aligned(w.shape, w.dtype) for _ in range(2)]
    return layout.Liars(len(offset), *mix, at, offset, sent, *scratch)

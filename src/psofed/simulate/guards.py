"""The defence "clip" as the arrays that the compiled engine works on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed import native
from psofed.defences import clip
from psofed.defences.contract import Defence
from psofed.simulate import layout
from psofed.simulate.draws import Draws

Array = NDArray[Any]


def knows(defence: Defence | None) -> bool:
    """Whether the engine has the defence."""
    return defence is None or isinstance(defence, clip.Defence)


def guard(defence: Defence | None, draws: Draws, w: Array) -> layout.Clip:
    """The state before round 0, of all methods [method, feature]; without a defence, nothing."""
    methods, size = w.shape
    clients, members, R = len(draws.ids), int(np.diff(draws.start).max(initial=1)), 0
    numbers: Any = {"clients": 1, "often": 1, "clip": 0.0, "floor": 0.0}
    if isinstance(defence, clip.Defence):
        R, more = defence.directions, (defence.ward.clients, defence.often)
        numbers = dict(zip(numbers, (*more, defence.options.clip, defence.floor), strict=True))
        V = native.aligned((methods, R, size), w.dtype)
        V[:, :, : draws.features.dim] = defence.start()["directions"]
    else:
        methods = clients = members = 0
        V = np.empty((0, 0, size), w.dtype)
    room = max(clients, clip.RING)
    values: Any = {name: np.zeros(room) for name in ("values", "some", "away", "left_over")}
    return layout.Clip(
        on=int(defence is not None),
        rows=clients,
        **numbers,
        directions=R,
        ring=np.zeros((methods, clip.RING)),
        scale=np.zeros(methods),
        least=np.full(methods, np.inf),
        usual=np.full(methods, clip.USUAL[1]),
        uploads=np.zeros(methods, np.int64),
        waiting=np.zeros(methods, np.int64),
        contacts=np.zeros((methods, clients), np.int64),
        size=np.zeros((methods, clients)),
        weight=np.ones((methods, clients)),
        latest=np.zeros((methods, clients)),
        memory=native.aligned((clients, methods, size), w.dtype),
        V=V,
        changes=native.aligned((members, size), w.dtype),
        G=native.aligned((R, size), w.dtype),
        at=np.zeros((members, size), np.int32),
        models=np.zeros(members, np.uintp),
        sizes=np.zeros(members),
        **values,
        along=np.zeros((R, clients)),
    )

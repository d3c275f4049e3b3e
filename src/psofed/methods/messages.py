"""Messages of several clients: the names of what handlers exchange, and uploads as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.schedule import Indices

Array = NDArray[Any]
State = dict[str, Array]
Message = Array | None
Who = Any  # one client, or an array [s] of several; a method that is not stacked has an int
Messages = Array | list[Array] | None  # of one client, or of several


@dataclass(frozen=True, eq=False)
class Partly:
    """Uploads [R, s, m] of several runs, where some clients send an empty message instead."""

    array: Array
    sent: Array  # [R, s]


class Rows(Mapping[int, Message]):
    """The uploads of a cohort, or of those of several runs, that are rows of one array."""

    def __init__(self, clients: Indices, array: Array, sent: Array | None = None) -> None:
        self.clients, self.array, self.sent = clients, array, sent
        self.ids: list[int] = (clients if clients.ndim == 1 else clients[0]).tolist()

    def __getitem__(self, k: int) -> Message:
        row: Array = self.array[self.ids.index(k)]
        return row

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)


def stack(
    uploads: Mapping[int, Message], weights: Mapping[int, float]
) -> tuple[Indices, Any, Array]:
    """Who sent anything, the messages as rows, or as a list if their lengths differ; weights."""
    if isinstance(uploads, Rows):
        array = uploads.array
        if array.ndim == 3:  # of several runs, where all weights are equal
            shares = np.full(array.shape[1], 1 / array.shape[1], array.dtype)
            return uploads.clients, array, shares if uploads.sent is None else shares * uploads.sent
        return uploads.clients, array, np.array([weights[k] for k in uploads.ids], array.dtype)
    heard = {k: m for k, m in uploads.items() if m is not None and len(m)}
    if not heard:
        return np.empty(0, np.intp), np.empty((0, 0)), np.empty(0)
    ids, messages = np.array(list(heard)), list(heard.values())
    shares = np.array([weights[k] for k in heard], messages[0].dtype)
    if len(set(map(len, messages))) > 1:
        return ids, messages, shares
    return ids, np.concatenate(messages).reshape(len(ids), -1), shares

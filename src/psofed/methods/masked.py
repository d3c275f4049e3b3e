"""Masked sums: the same method, whose server learns the sum of a cohort's uploads and no more.

An upload is whole numbers mod 2^32 (see `privacy/fixed_point.py`). Clients of a deployment add
masks that cancel in the sum (`privacy/masks.py`), so it does not matter here whether they did: eq.
(11) needs the mean of the values on a window that all members share. In a simulation there are no
masks, and the numbers are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from psofed.core import payload
from psofed.methods.messages import Array, Message, Rows, State, Who
from psofed.privacy import fixed_point
from psofed.privacy.masks import SEED
from psofed.privacy.settings import Privacy


@cache
def masked(plain: Any) -> Any:
    """The same method with uploads that can be masked. The compiled engine has none."""

    class Masked(plain):  # type: ignore[misc]
        __doc__ = plain.__doc__
        stacked, lazy, foresees = plain.stacked, plain.lazy, plain.foresees

        def __init__(self, options: Any, task: Any) -> None:
            super().__init__(options, task)
            self.compiled = self.scripted = False
            self.range, self.scale = task.privacy.range, task.privacy.scale(task.cohorts.size)

        def upload(self, client: State, k: Who, n: int) -> Any:
            """What the method sends, as whole numbers."""
            found = super().upload(client, k, n)
            if found is None:
                return None
            return fixed_point.words(found, self.scale, self.range).astype(np.float64)

        def fold(
            self,
            server: State,
            n: int,
            uploads: Mapping[int, Message],
            weights: Mapping[int, float],
        ) -> None:
            """Eq. (11) with the mean of all, which stands for one upload of the whole cohort."""
            heard, parts = _rows(uploads)
            if not len(heard):
                super().fold(server, n, uploads, weights)
                return
            total = fixed_point.added(parts)
            mean = fixed_point.mean(total, self.scale, self.range, parts.shape[-2])
            mean = mean.astype(self.task.dtype)
            first = heard[..., :1]
            weight = sum(weights.values()) if heard.ndim == 1 else 1.0
            all_of = Rows(first, mean[..., None, :])
            super().fold(server, n, all_of, {int(k): weight for k in first.ravel()[:1]})

        def encode(self, message: Array, up: bool) -> bytes:
            """Four bytes for each value."""
            if not up or not len(message):
                return super().encode(message, up)
            return np.asarray(message).astype("<u4").tobytes()

        def decode(self, data: bytes, up: bool) -> Array:
            if not up or data == payload.NOTHING:
                return super().decode(data, up)
            return np.frombuffer(data, "<u4").astype(np.float64)

        def numbers(self, upload: Array) -> Array:
            """Of a masked upload nothing is known."""
            return upload[:0]

    Masked.__name__, Masked.__qualname__ = plain.__name__, plain.__qualname__
    Masked.__module__ = plain.__module__
    return Masked


def unmasking(privacy: Privacy | None, count: int) -> tuple[int, int]:
    """Bytes of the question for seeds and of its answer, where all of `count` have uploaded.

    >>> unmasking(Privacy(masks=True, self_masks=True), 4), unmasking(Privacy(masks=True), 4)
    ((1, 49), (0, 0))
    """
    if privacy is None or not privacy.self_masks or not count:
        return 0, 0
    who = -(-count // 8)
    return who, who + SEED * (count - 1)


def _rows(uploads: Mapping[int, Message]) -> tuple[Any, Array]:
    """Who sent anything, and the words as rows."""
    if isinstance(uploads, Rows):
        return uploads.clients, uploads.array
    heard = {k: m for k, m in uploads.items() if m is not None and len(m)}
    if not heard:
        return np.empty(0, np.intp), np.empty((0, 0))
    return np.array(list(heard)), np.stack(list(heard.values()))

"""The contract of a sample check: what a client does not learn from, or not as it stands.

A check is one file in this folder, or anywhere else, with a frozen dataclass `Options`: the keys of
the table [check] in an experiment file. It stands between a sample and eq. (10), in every executor
and on every device (see `stages/check.py`):

    memory = memory(taps, dtype)                 what one client remembers, before its first sample
    y, verdict = judge(memory, x, y, guess)      in place; guess: what the client's model says of x

A verdict is one of those below; 0 and 1 are learned from, with the y that `judge` returns, and the
others are not. Each is counted, so samples seen = learned + clipped + refused. Leading axes
broadcast: y [...], x [..., L], guess [...] and memory [..., ...] are those of several clients. The
caller has sorted out what is not finite: its y is NaN here, and whatever is said of it is ignored.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError
from psofed.federation import forms, schema

Array = NDArray[Any]
Memory = dict[str, Array]
LEARNED, CLIPPED, EARLY, BROKEN, OUTSIDE, FAR, STUCK = range(7)
VERDICTS = (
    "learned", "clipped", "too early to judge", "not finite", "out of range", "far off",
    "the same again",
)  # fmt: skip


class SampleCheck(schema.Named):
    """A check that finds nothing. A subclass writes `judge`, and `memory` if it needs one."""

    acts: ClassVar[bool] = True  # whether it can refuse anything

    def describe(self) -> str:
        """The check and its options, in short."""
        return self.name

    def check(self) -> None:
        """Refuse options of the wrong type or out of range."""
        schema.check(self)

    def memory(self, taps: int, dtype: str) -> Memory:
        """What one client remembers: arrays by name."""
        return {}

    def judge(self, memory: Memory, x: Array, y: Array, guess: Array) -> tuple[Array, Array]:
        """What is learned instead of y, and the verdict on each sample."""
        return y, np.zeros(y.shape, np.int64)


CHECK = forms.Contract(
    "check", "psofed.sample_checks", SampleCheck, "", (SampleCheck,), ("memory", "judge"),
    ("judge",),
)  # fmt: skip


def check(given: SampleCheck | None) -> None:
    """Refuse what is no sample check, and options of one that are out of range."""
    if not isinstance(given, SampleCheck | None):
        raise InputError("check", f"is {given!r}", "use the Options of a sample check")
    if given is None:
        return
    try:
        forms.check(CHECK, given)
        given.check()
    except InputError as error:
        raise error.inside("check.") from None


def by_name(counts: Array) -> dict[str, int]:
    """Samples by verdict, of all clients together; those that are learned from are always there.

    >>> by_name(np.array([[7, 0, 0, 2, 0, 0, 0], [3, 0, 0, 0, 0, 1, 0]]))
    {'seen': 13, 'learned': 10, 'not finite': 2, 'far off': 1}
    """
    total = counts.reshape(-1, len(VERDICTS)).sum(axis=0).tolist()
    named = zip(VERDICTS, total, strict=True)
    found = {name: count for name, count in named if count or name == VERDICTS[LEARNED]}
    return {"seen": sum(total), **found}


def suspect(found: dict[str, int]) -> int:
    """Samples that were refused or clipped, but for those that came too early to judge.

    >>> suspect({"seen": 15, "learned": 10, "clipped": 1, "too early to judge": 2, "far off": 2})
    3
    """
    fine = ("seen", VERDICTS[LEARNED], VERDICTS[EARLY])
    return sum(count for name, count in found.items() if name not in fine)


def in_words(found: dict[str, int]) -> str:
    """The same as text.

    >>> in_words({"seen": 13, "learned": 10, "not finite": 2, "far off": 1})
    '13 samples seen, 10 learned, 2 not finite, 1 far off'
    """
    seen, *rest = ((name, f"{count:,}") for name, count in found.items())
    return ", ".join([f"{seen[1]} samples seen", *(f"{count} {name}" for name, count in rest)])

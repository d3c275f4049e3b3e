"""The contract of a sample check: what a client does not learn from, or not as it stands.

A check is one file in this folder, or anywhere else, with a frozen dataclass `Options`: the keys of
the table [check] in an experiment file. It stands between a sample and eq. (10), in every executor
and on every device:

    memory = memory(taps, dtype)                    what a client remembers, before its first sample
    y, verdict = judge(memory, x, y, prediction)    in place; the prediction is the client's, of y

A verdict is one of those below; 0 and 1 are learned from, with the y that `judge` returns, and the
others are not. Each is counted, so samples seen = learned + clipped + refused. Leading axes
broadcast: y [...], x [..., L], prediction [...] and memory [..., ...] are of several clients. The
caller has sorted out what is not finite: its y is NaN here, and its verdict is ignored.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from psofed.core.native import Array as Array
from psofed.errors import InputError
from psofed.federation import forms, schema
from psofed.federation.clients import learn
from psofed.federation.contract import Method, State
from psofed.federation.foreign import broken as wrong
from psofed.federation.foreign import kind
from psofed.federation.schema import inside
from psofed.federation.stage import Stage

Memory = dict[str, Array]
LEARNED, CLIPPED, EARLY, BROKEN, OUTSIDE, FAR, STUCK = range(7)
VERDICTS = (
    "learned", "clipped", "too early to judge", "not finite", "out of range", "far off",
    "the same again",
)  # fmt: skip
# In a client's state: samples by verdict, and what the check remembers.
COUNTS, OWN = "check counts", "check."
RIGHT = "see the contract at the top of psofed/stages/checks/contract.py, or try `psofed check`"


class SampleCheck(schema.Named):
    """A check that finds nothing. A subclass writes `judge`, and `memory` if it needs one."""

    acts: ClassVar[bool] = True  # whether it can refuse anything

    def check(self) -> None:
        """Refuse options of the wrong type or out of range."""
        schema.check(self)

    def memory(self, taps: int, dtype: str) -> Memory:
        """What one client remembers: arrays by name."""
        return {}

    def judge(self, memory: Memory, x: Array, y: Array, prediction: Array) -> tuple[Array, Array]:
        """What is learned instead of y, and the verdict on each sample."""
        return y, np.zeros(y.shape, np.int64)


CHECK = forms.Contract(
    "check", "psofed.sample_checks", SampleCheck, "", (SampleCheck,), ("memory", "judge"),
    ("judge",),
)  # fmt: skip


def check(given: SampleCheck | None) -> None:
    """Refuse anything but a sample check, and options out of range."""
    if not isinstance(given, SampleCheck | None):
        raise InputError("check", f"is {given!r}", "use the Options of a sample check")
    if given is None:
        return
    with inside("check."):
        forms.check(CHECK, given)
        given.check()


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


class Check(Stage):
    """What a sample check lets pass is learned from; each sample is judged by the model of then."""

    def __init__(self, inner: Method, check: SampleCheck) -> None:
        super().__init__(inner)
        self.check, self.lazy = check, False  # samples come one after another

    def client(self) -> State:
        """The state of the method, the counts, and what the check remembers."""
        memory = self.check.memory(self.task.taps, self.task.dtype)
        state = self.inner.client() | {COUNTS: np.zeros(len(VERDICTS), np.int64)}
        return state | {OWN + name: array for name, array in memory.items()}

    def learn(self, client: State, x: Array, z: Array, y: Array) -> None:
        """What the check lets pass is learned from; the state of the others stays as it is."""
        y, verdict, z = self._judged(client, x, z, y)
        client[COUNTS] += verdict[..., None] == np.arange(len(VERDICTS))
        refused = verdict > CLIPPED
        if not refused.any():
            learn(self.inner, client, x, z, y)
        elif not refused.all():
            own = [name for name in client if name != COUNTS and not name.startswith(OWN)]
            before = {name: client[name][refused] for name in own}
            some = np.where(refused[..., None], x.dtype.type(0), x)
            learn(self.inner, client, some, z, np.where(refused, y.dtype.type(0), y))
            for name, array in before.items():
                client[name][refused] = array

    def _judged(self, client: State, x: Array, z: Array, y: Array) -> tuple[Array, Array, Array]:
        """y to learn, the verdicts, and z, which is 0 where a sample is not finite."""
        good = np.isfinite(y) & np.isfinite(x).all(axis=-1)
        if not good.all():
            z, y = np.where(good[..., None], z, z.dtype.type(0)), np.where(good, y, np.nan)
        kept = {name[len(OWN) :]: a for name, a in client.items() if name.startswith(OWN)}
        learned, verdict = judged(self.check, kept, x, y, self._prediction(client, z, y))
        verdict = np.where(good, verdict, BROKEN)
        if not ((verdict >= 0) & (verdict < len(VERDICTS))).all():
            raise wrong(type(self.check), "judge", "gives no verdict on each sample", RIGHT)
        return np.asarray(learned, y.dtype), verdict, z

    def _prediction(self, client: State, z: Array, y: Array) -> Array:
        """What the clients' models predict; 0 for clients that only pass samples on."""
        try:
            w = self.inner.models(None, client)
        except KeyError:
            return np.zeros_like(y)
        return np.asarray(self.task.learner.predict(w, z))


def judged(check: SampleCheck, *given: Any) -> tuple[Array, Array]:
    """What is learned instead of y, and the verdict on each sample, if they have their form."""
    found: object = check.judge(*given)
    if not (isinstance(found, tuple) and len(found) == 2):
        raise wrong(type(check), "judge", f"returns {kind(found)}, not y and the verdicts", RIGHT)
    learned, verdict = found
    if np.shape(verdict) != given[2].shape:
        raise wrong(type(check), "judge", "gives no verdict on each sample", RIGHT)
    return learned, verdict


def counts(clients: State) -> Array | None:
    """Samples by verdict [..., verdict] in the states of clients; None if there is no check."""
    return clients.get(COUNTS)


def found(clients: State) -> dict[str, int]:
    """The same by name, of all clients together; nothing if there is no check."""
    return by_name(clients[COUNTS]) if COUNTS in clients else {}

"""Planted faults: mistakes that the campaign must catch. Each patches the code for a while."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from helpers.virtual_disk import VirtualDisk
from psofed.core import equations, payload
from psofed.federation import records
from psofed.federation.contract import Plain, rows, whole
from psofed.federation.round import close_round
from psofed.fleet.protocol import client, coordinator, folding, member, server, server_state, store
from psofed.methods import psofed

Faults = dict[str, Callable[[], Callable[[], None]]]
FAULTS: Faults = {}


def fault(
    target: Any, name: str, title: str, kind: Faults = FAULTS
) -> Callable[[Callable[..., Any]], Any]:
    """A fault that replaces `target.name` by what the decorated function makes of it."""

    def register(make: Callable[[Any], Any]) -> Any:
        def plant() -> Callable[[], None]:
            good = getattr(target, name)
            setattr(target, name, make(good))
            return lambda: setattr(target, name, good)

        kind[title] = plant
        return make

    return register


@fault(VirtualDisk, "sync", "no fsync of the file")
def _(good: Any) -> Any:
    return lambda self, name: None


@fault(VirtualDisk, "sync_folder", "no fsync of the folder")
def _(good: Any) -> Any:
    return lambda self: None


@fault(store.Store, "save", "both generations are written over")
def _(good: Any) -> Any:
    def save(self: Any, arrays: Any) -> None:
        self.sequence += 1
        data = records.pack(records.Record(self.about, dict(arrays), self.sequence))
        for name in store.SLOTS:  # both, as a store with one generation would
            self.disk.write(name, data)
            self.disk.sync(name)
        self.disk.sync_folder()

    return save


@fault(store, "unpack", "digest of a record not checked")
def _(good: Any) -> Any:
    def unpack(data: bytes) -> Any:
        body = data[: -records.DIGEST]
        return good(body + blake2b(body, digest_size=records.DIGEST).digest())

    return unpack


@fault(store.Store, "load", "the older generation is taken")
def _(good: Any) -> Any:
    def load(self: Any) -> Any:
        found = [records.unpack(d) for d in map(self.disk.read, store.SLOTS) if d is not None]
        if not found:
            return None
        oldest = min(found, key=lambda record: record.sequence)
        self.sequence = oldest.sequence
        return oldest.arrays

    return load


@fault(member.Member, "save", "the answer leaves before the record is made")
def _(good: Any) -> Any:
    return lambda self: None


@fault(client.Client, "take_part", "asked again, it learns again")
def _(good: Any) -> Any:
    def take_part(self: Any, n: int, invitation: bytes, begin: bool = False) -> bytes:
        if self.last_round == n and invitation:
            self._replay(n, n + 1)
            upload = self.method.upload(self.state, np.array([self.k]), n)
            self._last = (n, self.method.encode(upload.row(0), up=True))
        return good(self, n, invitation, begin)

    return take_part


@fault(psofed.Method, "upload", "the window of the upload is that of the download")
def _(good: Any) -> Any:
    return lambda self, state, k, n: whole(equations.share(state["w"], self.schedule.entries(k, n)))


@fault(psofed.Method, "receive", "the schedule counts what arrives, not rounds")
def _(good: Any) -> Any:
    def receive(self: Any, state: Any, k: Any, n: int, message: Any) -> None:
        counter, one = self.__dict__.setdefault("counted", {}), int(k[0])
        counter[one] = counter.get(one, -1) + 1
        good(self, state, k, counter[one], message)

    return receive


@fault(server.Server, "collect", "an upload that comes twice counts twice")
def _(good: Any) -> Any:
    def collect(self: Any, k: int, n: int, answer: bytes) -> str:
        outcome = good(self, k, n, answer)
        if outcome == "repeated":
            self._uploads[k] = 2 * self._uploads[k]
        return outcome

    return collect


@fault(server.Server, "_check", "late uploads are taken for this round's")
def _(good: Any) -> Any:
    return lambda self, k, n, answer: good(self, k, self.n if n < self.n else n, answer)


@fault(server_state.Ledger, "reject", "late uploads are not counted")
def _(good: Any) -> Any:
    return lambda self, k, why, *more: None if why == "late" else good(self, k, why, *more)


@fault(server_state.Ledger, "close", "lost clients are not counted")
def _(good: Any) -> Any:
    return lambda self, n, cohort, answered: good(self, n, answered, answered)


@fault(folding, "all_of", "divided by the cohort, not by those who answered")
def _(good: Any) -> Any:
    def all_of(now: Any, uploads: Any) -> Any:
        found, asked = good(now, uploads), len(now.method.task.cohorts.cohort(now.n))
        w, share = now.state["w"], len(uploads) / asked
        found.state["w"] = w + share * (found.state["w"] - w)
        return found

    return all_of


def _unchecked() -> Callable[[], None]:
    """Two places look at it, and neither does any more."""
    good = server.values_of, folding.folded

    def folded(method: Any, state: Any, n: int, uploads: Any, dtype: Any = None) -> Any:
        k, message = np.array(list(uploads), np.intp), rows(list(uploads.values()))
        close_round(method, state, k, n, message)
        return state

    def undo() -> None:
        server.values_of, folding.folded = good

    server.values_of = lambda now, k, answer, *more: now.method.decode(answer, up=True)
    folding.folded = folded
    return undo


FAULTS["values are not checked to be finite"] = _unchecked


@fault(server.Server, "_check", "applied before it is checked")
def _(good: Any) -> Any:
    def check(self: Any, k: int, n: int, answer: bytes) -> Any:
        if n == self.n and k in self.cohort and k not in self.answers and len(answer) >= 8:
            self.state["w"][0] = np.frombuffer(answer[:8])[0]
        return good(self, k, n, answer)

    return check


@fault(Plain, "decode", "the length is not checked")
def _(good: Any) -> Any:
    return lambda self, data, up: payload.decode(data, self.task.wire)


@fault(coordinator.Coordinator, "_read", "the digest of a message is not looked at")
def _(good: Any) -> Any:
    def read(self: Any, data: bytes) -> Any:
        right = self._digest.to_bytes(4, "little")
        return good(self, data[:1] + right + data[5:] if len(data) >= 5 else data)

    return read


@fault(coordinator.Coordinator, "_read", "the type of the values is not looked at")
def _(good: Any) -> Any:
    def read(self: Any, data: bytes) -> Any:
        return good(self, bytes([data[0] | 3]) + data[1:] if data else data)

    return read


@fault(member, "received", "a server that was replaced is obeyed")
def _(good: Any) -> Any:
    return lambda plan, key, seen, data: good(plan, key, 0, data)


@fault(client.Client, "restore", "a client that restarts forgets which server it has seen")
def _(good: Any) -> Any:
    def restore(self: Any, arrays: Any) -> None:
        good(self, arrays)
        arrays["incarnation"] = np.array(0)

    return restore


@fault(server.Server, "restore", "counters do not survive a restart")
def _(good: Any) -> Any:
    def restore(self: Any, arrays: Any) -> None:
        good(self, arrays)
        self.now = replace(self.now, ledger=server_state.Ledger(len(self.ledger.accepted)))

    return restore


@fault(coordinator.Coordinator, "_save", "the record of round n has the model of round n - 1")
def _(good: Any) -> Any:
    def save(self: Any, after: Any) -> None:
        w = self.__dict__.get("_old", after.state["w"])
        good(self, replace(after, state=after.state | {"w": w}))
        self._old = after.state["w"]

    return save

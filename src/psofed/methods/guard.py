"""Methods from outside the package: what their handlers return is looked at before it is used.

An executor that took a wrong array as it is would fail later, in lines that are not the user's, or
would not fail: numbers of another type lose weights, a state that is exchanged and not changed is
lost at the end of the round. Here that is either what was meant, or an InputError that names the
file, the handler and the rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.foreign import broken, kind, members
from psofed.errors import InputError

Array = NDArray[Any]
State = dict[str, Array]
USUAL = 1e6  # from numbers up to this one, no handler overflows: what is not finite is a mistake
CHECK = "see the contract in docs/adding_a_method.md, or try `psofed check`"


@cache
def guarded(plain: Any) -> Any:
    """The same method, whose handlers are held to the contract. It changes no number."""

    class Guarded(plain):  # type: ignore[misc]
        __doc__ = plain.__doc__
        stacked, lazy, entrywise = plain.stacked, plain.lazy, plain.entrywise
        foresees, compiled = plain.foresees, plain.compiled

        def cohort(self, n: int, server: State) -> Array:
            """An array of whole numbers, each client once."""
            return members(plain, "cohort", super().cohort(n, server), self.task.places, CHECK)

        def server(self) -> State:
            """A dict of arrays."""
            return _state(plain, "server", super().server())

        def client(self, k: int) -> State:
            """A dict of arrays."""
            return _state(plain, "client", super().client(k))

        def download(self, server: State, k: Any, n: int) -> Any:
            """A copy of the message: who receives it may work in it."""
            found = super().download(server, k, n)
            return _messages(plain, "download", found, k, self.task.dtype, server)

        def receive(self, client: State, k: Any, n: int, message: Any) -> None:
            """The state stays the same arrays."""
            with _in_place(plain, "receive", client):
                super().receive(client, k, n, message)

        def learn(self, client: State, x: Array, z: Array, y: Any) -> None:
            """The state stays the same arrays, and a number."""
            usual = _usual(client.values())
            with _in_place(plain, "learn", client):
                super().learn(client, x, z, y)
            if usual and any(_numbers(a) and np.isnan(a).any() for a in client.values()):
                raise _wrong(plain, "learn", "makes NaN of a state and a sample without any")

        def absorb(self, client: State, x: Array, z: Array, y: Array) -> None:
            """The state stays the same arrays."""
            with _in_place(plain, "absorb", client):
                super().absorb(client, x, z, y)

        def upload(self, client: State, k: Any, n: int) -> Any:
            """A copy of the message: who folds it may work in it."""
            with _in_place(plain, "upload", client):
                found = super().upload(client, k, n)
            up = _messages(plain, "upload", found, k, self.task.dtype, client)
            _lengths(plain, up, super().lengths(n))
            return up

        def fold(
            self, server: State, n: int, uploads: Mapping[int, Any], weights: Mapping[int, float]
        ) -> None:
            """Finite numbers stay finite."""
            heard = [m for m in uploads.values() if m is not None]
            usual = _usual([*server.values(), *heard])
            super().fold(server, n, uploads, weights)
            _state(plain, "fold", server)
            if usual and not all(np.isfinite(a).all() for a in server.values() if _numbers(a)):
                found = "makes NaN or infinity of a state and uploads without any"
                raise _wrong(plain, "fold", found)

        def encode(self, message: Array, up: bool) -> bytes:
            """Bytes from which `decode` makes a message of the same length."""
            data = super().encode(message, up)
            if not isinstance(data, bytes):
                raise _wrong(plain, "encode", f"returns {kind(data)}, not bytes")
            try:
                length = len(super().decode(data, up))
            except Exception as error:
                found = f"gives {len(data)} bytes that decode cannot read: {error}"
                raise _wrong(plain, "encode", found) from error
            if length != len(message):
                found = f"gives bytes of {length} entries for a message of {len(message)}"
                raise _wrong(plain, "encode", found)
            return data

        def models(self, server: State, clients: State) -> Array:
            """One model [D], or one of each client [K, D]."""
            try:
                found = super().models(server, clients)
            except KeyError as error:
                raise _wrong(plain, "models", f"finds no {error} in the state") from error
            shapes = (self.task.dim,), (self.task.places, self.task.dim)
            if (
                not isinstance(found, np.ndarray)
                or found.shape not in shapes
                or not _numbers(found)
            ):
                what = kind(found)
                raise _wrong(plain, "models", f"returns {what}, not numbers of shape [D] or [K, D]")
            if not np.isfinite(found).all() and _usual([*server.values(), *clients.values()]):
                raise _wrong(plain, "models", "gives NaN or infinity for a state without any")
            return found

    Guarded.__name__, Guarded.__qualname__ = plain.__name__, plain.__qualname__
    Guarded.__module__ = plain.__module__
    return Guarded


def _wrong(plain: Any, name: str, found: str) -> InputError:
    return broken(plain, name, found, CHECK)


def _numbers(array: Array) -> bool:
    return array.dtype.kind in "biuf"


def _usual(arrays: Any) -> bool:
    """Whether all numbers are finite and far from overflowing."""
    return all(np.abs(a).max(initial=0) < USUAL for a in arrays if a.dtype.kind == "f")


def _state(plain: Any, name: str, state: Any) -> State:
    if not isinstance(state, dict):
        raise _wrong(plain, name, f"gives {kind(state)}, not a dict of arrays")
    for key, value in state.items():
        if not isinstance(value, np.ndarray):
            state[key] = np.asarray(value)
            if not _numbers(state[key]):
                raise _wrong(plain, name, f"has {kind(value)} as state {key!r}, not an array")
    return state


def _messages(plain: Any, name: str, found: Any, k: Any, dtype: Any, state: State) -> Any:
    """One message, or those of several clients, as copies."""
    if found is None:
        return None
    several = isinstance(k, np.ndarray)
    if several and isinstance(found, list) and len(found) == len(k):
        return [_messages(plain, name, m, 0, dtype, state) for m in found]
    try:
        array = np.array(found)
    except ValueError:
        raise _wrong(plain, name, "returns a ragged list, not numbers [m]") from None
    wanted = "[m]" if not several else "[s, m], or a list" if name == "upload" else "[m] or [s, m]"
    dims = (1,) if not several else (2,) if name == "upload" else (1, 2)
    one_each = array.ndim < 2 or len(array) == len(k) if several else True
    if not _numbers(array) or array.ndim not in dims or not one_each:
        raise _wrong(plain, name, f"returns {kind(found)}, not None or numbers {wanted}")
    if not np.isfinite(array).all() and _usual(state.values()):
        raise _wrong(plain, name, "returns NaN or infinity for a state without any")
    real = isinstance(found, np.ndarray) and array.dtype.kind == "f"
    return array if real else array.astype(dtype)


def _lengths(plain: Any, up: Any, lengths: tuple[int, ...] | None) -> None:
    """A server refuses uploads of other lengths."""
    if up is None or lengths is None:
        return
    for length in {len(m) for m in (up if isinstance(up, list) else np.atleast_2d(up))}:
        if length not in lengths:
            found = f"returns {length} entries, not {' or '.join(map(str, lengths))}"
            raise _wrong(plain, "upload", f"{found} as `lengths` says")


@contextmanager
def _in_place(plain: Any, name: str, state: State) -> Iterator[None]:
    """What a handler puts into the state goes into the arrays that its caller keeps."""
    before = dict(state)
    yield
    if state.keys() != before.keys():
        key = sorted(state.keys() ^ before.keys())[0]
        done = "adds" if key in state else "removes"
        raise _wrong(plain, name, f"{done} state {key!r}; `client` has to name all of it at first")
    for key, array in before.items():
        if state[key] is array:
            continue
        now = np.asarray(state[key])
        if now.shape != array.shape or not np.can_cast(now.dtype, array.dtype, "same_kind"):
            found = f"makes state {key!r}, {kind(array)}, into {kind(state[key])}"
            raise _wrong(plain, name, found)
        array[...] = now
        state[key] = array

"""Wire forms: the same method, whose messages carry model values in fewer bits.

`wire = "float16"` or `"float32"` rounds every number of a message, in both directions. `"4 bit"`
and `"2 bit"` code entries of a model as differences to what last travelled between this client and
the server on these entries, which both ends remember. So error and bytes belong together, in a
simulation as in a deployment. A method says by `coded`, among its options, in which directions its
messages are entries of a model, by `entries` which they are, and by `head` what stands before them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from psofed.core import equations, payload
from psofed.core.schedule import Ahead, Indices
from psofed.methods.codes import Code, Symmetric
from psofed.methods.contract import Array, Message, Partly, Plain, Rows, State, Task, Who


@cache
def wired(plain: Any, bits: bool) -> Any:
    """The same method, whose values are coded in few bits, or rounded."""
    kept = ("stacked", "lazy", "foresees", *(() if bits else ("compiled", "scripted", "entrywise")))
    flags = {name: getattr(plain, name) for name in kept}
    about = {"__module__": plain.__module__, "__doc__": plain.__doc__}
    return type(plain.__name__, (Coded if bits else Rounded, plain), flags | about)


class Rounded(Plain):
    """Every number of a message as float16 or float32. A base class, named before the method's."""

    def __init__(self, options: Any, task: Task) -> None:
        super().__init__(options, replace(task, wire=options.wire))
        self.__exact = payload.size(options.wire) >= np.dtype(task.dtype).itemsize
        if not self.__exact:
            self.compiled = self.scripted = False  # compiled code rounds nothing
        # A method with a code of its own has more in its messages than numbers.
        self.__numbers = type(self).encode is Plain.encode and type(self).decode is Plain.decode

    def download(self, server: State, k: Who, n: int) -> Any:
        """What the method sends, rounded."""
        return self._rounded(super().download(server, k, n), up=False)

    def welcome(self, server: State, k: int, n: int) -> Any:
        """The same."""
        return self._rounded(super().welcome(server, k, n), up=False)

    def upload(self, client: State, k: Who, n: int) -> Any:
        """What the method sends, rounded."""
        return self._rounded(super().upload(client, k, n), up=True)  # type: ignore[misc]

    def _rounded(self, messages: Any, up: bool) -> Any:
        if messages is None or self.__exact:
            return messages  # nothing to round
        if isinstance(messages, list):
            return [self._rounded(message, up) for message in messages]
        if isinstance(messages, Partly):
            return Partly(self._rounded(messages.array, up), messages.sent)
        if not messages.size:
            return messages
        with np.errstate(over="ignore"):  # who reads it refuses what does not fit
            if self.__numbers:
                return payload.rounded(messages, self.task.wire)
            rows = messages.reshape(-1, messages.shape[-1])
            sent = [self._sent(row, up) for row in rows]
        return np.array(sent, messages.dtype).reshape(messages.shape)

    def _sent(self, message: Array, up: bool) -> Array:
        """What arrives, by the code of the method."""
        return super().decode(super().encode(message, up), up)


class Coded(Plain):
    """Entries of a model in few bits. A base class, named before the method's.

    What a client has learned is not rounded by an upload. The server's memory of what travelled
    changes when a round is folded, and not before, so a download that is repeated is the same.
    """

    def __init__(self, options: Any, task: Task) -> None:
        super().__init__(options, task)
        self.__both = options.coded != "down"
        self.__code, self.__remembers = self.coder(options)
        self.common = self.common and not self.__remembers  # references differ between clients
        draws = [partial(self.__entries, up) for up in (False, True)]
        whole = type(self).entries is Plain.entries  # then there is nothing to draw ahead
        self.__windows: Any = draws if whole else [Ahead(d, task.cohorts, task.dim) for d in draws]

    def __entries(self, up: bool, k: Any, n: Any) -> Indices:
        return self.entries(k, n, up)

    def coder(self, options: Any) -> tuple[Code, bool]:
        """The code, and whether it is that of differences."""
        return Symmetric(int(options.wire.split()[0])), True

    def codes(self, values: Array, k: Who, n: int, up: bool) -> Array:
        """The code of these values."""
        return self.__code.make(values, self.task.wire)

    def server(self) -> State:
        """The state of the method and, for differences, what last travelled, by client."""
        return super().server() | self._memory(self.task.places)

    def client(self, k: int) -> State:
        """The state of the method and, for differences, what last travelled."""
        return super().client(k) | {name: rows[0] for name, rows in self._memory(1).items()}

    def _memory(self, rows: int) -> State:
        return {"last": np.tile(self.task.initial(), (rows, 1))} if self.__remembers else {}

    def download(self, server: State, k: Who, n: int) -> Any:
        """What the method sends, coded."""
        message = super().download(server, k, n)
        if message is None:
            return None
        if self.__remembers and message.ndim == np.ndim(k) > 0:  # one for all members
            message = message[..., None, :]
        return self._coded(message, server, _of(k, self.__windows[False](k, n)), k, n, up=False)

    def receive(self, client: State, k: Who, n: int, message: Any) -> None:
        """What the method does, with decoded values."""
        if message is not None:
            message = self._read(
                message, client, equations.at(self.__windows[False](k, n)), up=False
            )
        super().receive(client, k, n, message)

    def upload(self, client: State, k: Who, n: int) -> Any:
        """What the method sends, coded; a message without values stays as it is."""
        plain = super().upload(client, k, n)  # type: ignore[misc]
        if plain is None or not self.__both:
            return plain
        if isinstance(plain, list):
            return self._some(plain, client, k, n)
        array, sent = plain, None
        if isinstance(plain, Partly):
            array, sent = plain.array, plain.sent
        if array.shape[-1] <= self.head(up=True):
            return array
        here = equations.at(self.__windows[True](k, n))
        message = self._coded(array, client, here, k, n, up=True)
        self._read(message, client, here, True, sent)
        return message if sent is None else Partly(message, sent)

    def _some(self, plain: list[Array], client: State, k: Indices, n: int) -> list[Array]:
        """Those of the messages that have values, as rows of one array."""
        rows = np.flatnonzero([len(message) > self.head(up=True) for message in plain])
        if not len(rows):
            return plain
        place = np.unravel_index(rows, k.shape)
        here = *(axis[:, None] for axis in place), self.__windows[True](k, n)[place]
        array = np.array([plain[i] for i in rows])
        messages = self._coded(array, client, here, k[place], n, up=True)
        self._read(messages, client, here, up=True)
        found = dict(zip(rows.tolist(), messages, strict=True))
        return [found.get(i, message) for i, message in enumerate(plain)]

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None:
        """What the method does, with decoded values."""
        if self.ends(n) and len(uploads):
            if self.__remembers:
                self._remember(server, n, uploads)
            if self.__both:
                uploads = self._values(server, n, uploads)
        super().fold(server, n, uploads, weights)  # type: ignore[misc]

    def _remember(self, server: State, n: int, uploads: Mapping[int, Message]) -> None:
        """What these clients were sent when the block of round n began: w is still the same."""
        begin = n
        while not self.begins(begin):
            begin -= 1
        ks: Any = uploads.clients if isinstance(uploads, Rows) else np.array(list(uploads))
        for k in [ks] if self.stacked else ks.tolist():
            message = self.download(server, k, begin)
            if message is not None:
                self._read(message, server, _of(k, self.__windows[False](k, begin)), up=False)

    def _values(
        self, server: State, n: int, uploads: Mapping[int, Message]
    ) -> Mapping[int, Message]:
        """What the method has sent, as far as the code allows."""
        if isinstance(uploads, Rows):
            ks, sent = uploads.clients, uploads.sent
            here = _of(ks, self.__windows[True](ks, n))
            return Rows(ks, self._read(uploads.array, server, here, True, sent), sent)
        head = self.head(up=True)
        some = {k: m for k, m in uploads.items() if m is not None and len(m) > head}
        if not some:
            return uploads
        ks = np.array(list(some))
        here = _of(ks, self.__windows[True](ks, n))
        rows = self._read(np.array(list(some.values())), server, here, up=True)
        return {**uploads, **dict(zip(some, rows, strict=True))}

    def _coded(self, plain: Array, state: State, here: Any, k: Who, n: int, up: bool) -> Array:
        """The message with its values coded."""
        head = self.head(up)
        values = plain[..., head:]
        codes = self.codes(values - state["last"][here] if self.__remembers else values, k, n, up)
        if not head:
            return codes
        first = np.broadcast_to(plain[..., :head], (*codes.shape[:-1], head))
        return np.concatenate([first, codes], axis=-1)

    def _read(
        self, message: Array, state: State, here: Any, up: bool, sent: Array | None = None
    ) -> Array:
        """The message with its values decoded; what was sent is remembered."""
        head = self.head(up)
        # In the precision of the task at both ends, wherever the message comes from.
        values = self.__code.restore(message[..., head:].astype(self.task.dtype))
        if self.__remembers:
            last = state["last"][here]
            values += last
            kept = values if sent is None else np.where(sent[..., None], values, last)
            state["last"][here] = kept
        return np.concatenate([message[..., :head], values], axis=-1) if head else values

    def encode(self, message: Array, up: bool) -> bytes:
        """What stands before the values, as the method writes it, then the code."""
        head = self.head(up)
        if len(message) <= head or (up and not self.__both):
            return super().encode(message, up)
        first = super().encode(message[:head], up) if head else b""
        return first + self.__code.encode(message[head:], self.task.wire)

    def decode(self, data: bytes, up: bool) -> Array:
        head = self.head(up)
        size = len(super().encode(np.zeros(head), up))
        if len(data) <= size or (up and not self.__both):
            return super().decode(data, up)
        size = size if head else 0
        one = np.zeros(1, np.intp)
        count = self.entries(one, one, up).shape[-1]
        codes = self.__code.decode(data[size:], self.task.wire, count)
        return np.concatenate([super().decode(data[:size], up), codes]) if head else codes

    def lengths(self, n: int) -> tuple[int, ...] | None:
        found = super().lengths(n)
        if found is None or not self.__both:
            return found
        return tuple(m + self.__code.extra if m > self.head(up=True) else m for m in found)


def _of(k: Who, window: Array) -> Any:
    """Where the server keeps the entries of these clients."""
    rows = np.asarray(k)[..., None]
    return (rows, window) if rows.ndim < 3 else (np.arange(len(rows))[:, None, None], rows, window)

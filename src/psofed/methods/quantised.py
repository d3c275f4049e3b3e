"""Quantised PSO-Fed: b bits for each entry of the window, in both directions.

Ours. A client does not know w_n on the window that it uploads, so it cannot send a difference to
it: `reference = "range"` codes the values themselves between their extremes, `"last"` their
difference to what last travelled between this client and the server, which both ends remember.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from psofed.core import coding, payload
from psofed.errors import InputError
from psofed.methods import psofed
from psofed.methods.contract import Array, Message, State, Task


@dataclass(frozen=True)
class Options(psofed.Options):
    """The options of PSO-Fed, b, and what the code refers to."""

    name: ClassVar[str] = "quantised"
    knob: ClassVar[str] = "shared"
    keeps: ClassVar[bool] = True  # a budget may lower M, not raise it: few bits on all are too few
    bits: int = 4
    reference: Literal["range", "last"] = "range"

    def describe(self) -> str:
        last = ", differences" if self.reference == "last" else ""
        return f"PSO-Fed {self.windows()}, {self.bits} bit{last}"

    def check(self, dim: int, clients: int) -> None:
        """The windows are fit for PSO-Fed, the bits for a code."""
        super().check(dim, clients)
        if not 1 <= self.bits <= 24:
            raise InputError("bits", f"is {self.bits}", "use 1 to 24")


class Method(psofed.Method):
    """Algorithm 1 with decoded values in place of w_n and w_k on the windows.

    w_k itself is not rounded by an upload. The server's memory of what travelled changes when the
    round is folded, and not before: a download that is asked for twice is the same twice.
    """

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.bits, self.last = options.bits, options.reference == "last"
        self.common = self.common and not self.last  # references differ between clients

    def server(self) -> State:
        """w_n and, for differences, what last travelled to and from each client."""
        return super().server() | self._memory(self.task.clients)

    def client(self, k: int) -> State:
        """w_k and, for differences, what last travelled."""
        memory = {name: array[0] for name, array in self._memory(1).items()}
        return super().client(k) | memory

    def _memory(self, rows: int) -> State:
        return {"last": self.task.zeros(rows, self.task.dim)} if self.last else {}

    def download(self, server: State, k: int, n: int) -> Message:
        """Q(w_n) on S_{k,n}."""
        window = self.schedule.entries(k, n)
        return self._quantise(server["w"][window], self._last(server, k)[window], k, n, up=False)

    def receive(self, client: State, k: int, n: int, message: Message) -> None:
        """Eq. (9) with decoded values."""
        if message is not None:
            window = self.schedule.entries(k, n)
            client["w"][window] = self._restore(message, self._last(client), window)

    def upload(self, client: State, k: int, n: int) -> Message:
        """Q(w_{k,n+1}) on S_{k,n+1}."""
        window = self.schedule.entries(k, n + 1)
        last = self._last(client)
        message = self._quantise(client["w"][window], last[window], k, n, up=True)
        self._restore(message, last, window)
        return message

    def lengths(self, n: int) -> tuple[int, ...] | None:
        return (self.shared + 2,)

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None:
        """Eq. (11) with decoded values."""
        decoded: dict[int, Message] = {}
        for k, message in uploads.items():
            if message is not None:
                last, window = self._last(server, k), self.schedule.entries(k, n)
                if self.last:  # what this client was sent
                    down = self._quantise(server["w"][window], last[window], k, n, up=False)
                    self._restore(down, last, window)
                decoded[k] = self._restore(message, last, self.schedule.entries(k, n + 1))
        super().fold(server, n, decoded, weights)

    def _last(self, state: State, k: int | None = None) -> Array:
        if not self.last:
            return self.task.zeros(self.task.dim)
        return state["last"] if k is None else state["last"][k]

    def _quantise(self, values: Array, last: Array, k: int, n: int, up: bool) -> Array:
        """The code of the values; a download that all get is rounded alike for all."""
        who = 0 if self.common and not up else k
        purpose = "upload bits" if up else "download bits"
        u = self.task.seeds.uniforms(purpose, client=who, round=n, count=len(values))
        return coding.quantise(values - last if self.last else values, self.bits, u)

    def _restore(self, message: Array, last: Array, window: Array) -> Array:
        """The decoded values, which become what last travelled."""
        values = coding.restore(message, self.bits)
        if self.last:
            last[window] += values
            values = last[window]
        return values

    def encode(self, message: Array, up: bool) -> bytes:
        """lo and hi as values, then b bits each."""
        return payload.encode(message[:2], self.task.wire) + coding.pack(message[2:], self.bits)

    def decode(self, data: bytes, up: bool) -> Array:
        head = 2 * payload.size(self.task.wire)
        codes = coding.unpack(data[head:], self.bits, self.shared)
        return np.concatenate([payload.decode(data[:head], self.task.wire), codes])

"""Quantised PSO-Fed: b bits for each entry of the window, in both directions.

Ours. A client does not know w_n on the window that it uploads, so it cannot send a difference to
it: `reference = "range"` codes the values themselves between their extremes, `"last"` their
difference to what last travelled between this client and the server, which both ends remember.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from psofed.core import equations, payload
from psofed.core.schedule import Ahead
from psofed.errors import InputError
from psofed.methods import coding, psofed
from psofed.methods.contract import Array, Knob, Message, State, Task, Who, stack


@dataclass(frozen=True)
class Options(psofed.Options):
    """The options of PSO-Fed, b, and what the code refers to."""

    name: ClassVar[str] = "quantised"
    # A budget may lower M, not raise it: so few bits are too few if all entries travel.
    knob: ClassVar[Knob | None] = Knob("shared", keeps=True)
    bits: int = 4
    reference: Literal["range", "last"] = "range"

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """M = D/5 with 4 bits a value, and with 2 for differences."""
        return (cls(m := max(dim // 5, 1)), cls(m, bits=2, reference="last"))

    @property
    def not_live(self) -> str:
        """The client's memory moves when it answers, the server's when it folds the answer."""
        lost = "after a lost answer its two ends no longer agree on what travelled last"
        return lost if self.reference == "last" else ""

    def describe(self) -> str:
        last = ", differences" if self.reference == "last" else ""
        return f"PSO-Fed {self.windows()}, {self.bits} bit{last}"

    def check(self, dim: int, clients: int) -> None:
        """The windows are valid for PSO-Fed, the number of bits for a code."""
        super().check(dim, clients)
        if not 1 <= self.bits <= 24:
            raise InputError("bits", f"is {self.bits}", "use 1 to 24")
        if self.reference == "last" and self.policy is not None and self.policy.scores == "client":
            found = f"is {self.policy.name}, but a member that does not upload loses its reference"
            raise InputError("policy", found, 'use another, or reference = "range"')


class Method(psofed.Method):
    """Algorithm 1 with decoded values in place of w_n and w_k on the windows.

    w_k itself is not rounded by an upload. The server's memory of what travelled changes when the
    round is folded, and not before, so a download that is repeated is the same.
    """

    stacked = True

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.bits, self.last = options.bits, options.reference == "last"
        self.common = self.common and not self.last  # references differ between clients
        draws = self._down_bits, self._up_bits
        self.luck = [Ahead(draw, task.cohorts, self.shared) for draw in draws]

    def server(self) -> State:
        """w_n and, for differences, what last travelled to and from each client."""
        return super().server() | self._memory(self.task.places)

    def client(self, k: int) -> State:
        """w_k and, for differences, what last travelled."""
        memory = {name: array[0] for name, array in self._memory(1).items()}
        return super().client(k) | memory

    def _memory(self, rows: int) -> State:
        return {"last": np.tile(self.task.initial(), (rows, 1))} if self.last else {}

    def download(self, server: State, k: Who, n: int) -> Message:
        """Q(w_n) on S_{k,n}."""
        window = self.down(k, n)
        values = equations.share(server["w"], window)
        return self._quantise(values, server, _of(k, window), k, n, up=False)

    def receive(self, client: State, k: Who, n: int, message: Message) -> None:
        """Eq. (9) with decoded values."""
        if message is not None:
            window = self.down(k, n)
            here = equations.at(window)
            equations.receive(client["w"], window, self._restore(message, client, here))

    def upload(self, client: State, k: Who, n: int) -> Message:
        """Q(w_{k,n+1}) on S_{k,n+1}."""
        here = equations.at(self.up(k, n))
        message = self._quantise(client["w"][here], client, here, k, n, up=True)
        self._restore(message, client, here)
        return message

    def lengths(self, n: int) -> tuple[int, ...] | None:
        return (self.shared + 2,)

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None:
        """Eq. (11) with decoded values."""
        ks, messages, shares = stack(uploads, weights)
        if not len(ks):
            return
        if self.last:  # what these clients were sent
            down: Any = self.download(server, ks, n)
            self._restore(down, server, _of(ks, self.down(ks, n)))
        window = self.up(ks, n)
        values = self._restore(messages, server, _of(ks, window))
        equations.fold(server["w"], window, values, shares)

    def _quantise(self, values: Array, state: State, here: Any, k: Who, n: int, up: bool) -> Array:
        """The code of the values; a download for all members is rounded in the same way for all."""
        u = self.luck[up](k, n)
        return coding.quantise(values - state["last"][here] if self.last else values, self.bits, u)

    def _down_bits(self, k: Any, n: Any) -> Array:
        who = None if self.common else k
        return self.task.seeds.uniforms("download bits", client=who, round=n, count=self.shared)

    def _up_bits(self, k: Any, n: Any) -> Array:
        return self.task.seeds.uniforms("upload bits", client=k, round=n, count=self.shared)

    def _restore(self, message: Array, state: State, here: Any) -> Array:
        """The decoded values; differences are added to what last travelled."""
        values = coding.restore(message, self.bits)
        if self.last:
            values += state["last"][here]
            state["last"][here] = values
        return values

    def encode(self, message: Array, up: bool) -> bytes:
        """lo and hi as values, then b bits each."""
        return payload.encode(message[:2], self.task.wire) + coding.pack(message[2:], self.bits)

    def decode(self, data: bytes, up: bool) -> Array:
        head = 2 * payload.size(self.task.wire)
        codes = coding.unpack(data[head:], self.bits, self.shared)
        return np.concatenate([payload.decode(data[:head], self.task.wire), codes])


def _of(k: Who, window: Array) -> Any:
    """Where the server keeps the entries of these clients."""
    rows = np.asarray(k)[..., None]
    return (rows, window) if rows.ndim < 3 else (np.arange(len(rows))[:, None, None], rows, window)

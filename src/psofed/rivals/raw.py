"""Raw samples: the cohort sends (x, y), and the server learns from them.

Source: ours, a control.

Faithful: with the solver "lms" its models are those of Online-Fed; with "ridge" they are those of a
ridge regression on the samples that were sent.

Ours: everything else, also bursts and few bits: with `burst` a member of a block sends its newest B
samples at the end of it, each number in `bits`. Windows of one signal are sent as the signal,
L - 1 + B numbers, and B labels.

Unverified: nothing.

The update of one LMS step is mu e z(x), so the L + 1 numbers of a sample hold as much as D. With
`solver = "ridge"` the server keeps the sums of all samples that it was sent, and its model is the
ridge regression on them. Bytes are no argument against either; learning between contacts is one.
Privacy is not one by itself: from an upload of Online-Fed a server can compute the sample, and from
40 entries of PSO-Fed too where it can follow the client's model (docs/privacy.md).

As a prior, lambda is the variance of the noise over that of a weight, 0.017 over about 1 in the
paper's setting. There, 5 runs, dB after 50, 200, 500 and 1,500 rounds: -9.4, -12.1, -12.7, -13.0 at
0.001; -10.8, -12.3, -12.8, -13.0 at 0.01; -10.9, -12.1, -12.7, -12.9 at 0.1; -8.8, -11.1, -12.1,
-12.6 at 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from psofed.contract import (
    Array,
    Common,
    Indices,
    InputError,
    Learner,
    Learns,
    Message,
    Plain,
    State,
    Task,
    at_least_one,
    centralised,
    codes,
    payload,
    require,
    sized,
)

BURSTS = (1, 5, 20, 80, 320)  # to try


@dataclass(frozen=True)
class Raw(Common):
    """What the server does with the samples, and how they come."""

    name: ClassVar[str] = "raw"
    attackable: ClassVar[bool] = False
    learners: ClassVar[Learns] = "descending"
    role: ClassVar[Literal["reference", "method", "control"]] = "control"
    uncoded: ClassVar[str] = "codes its samples itself, with `bits`"
    solver: Literal["lms", "ridge"] = "lms"  # mean steps, or a regression on all samples so far
    ridge: float = 0.01  # lambda: about the noise variance over that of a weight
    burst: int = 1  # B, samples of a message
    bits: int | None = None  # of a number; not set: as on the wire

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """Both solvers."""
        return cls(), cls(solver="ridge")

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """Bits, B, and lambda of a regression."""
        bursts = tuple(b for b in BURSTS if b <= max(rounds // 4, 1))
        return {"bits": (None, 3, 4, 5, 6, 8), "burst": bursts, "ridge": (0.01, 0.1, 1.0)}

    @property
    def pace(self) -> int:
        """A message has the samples of a block."""
        return self.burst

    @property
    def steps(self) -> bool:  # type: ignore[override]
        """A regression has no step."""
        return self.solver == "lms"

    def describe(self) -> str:
        usual = self.ridge == type(self).ridge
        ridge = f", ridge{'' if usual else f' {self.ridge:g}'}" * (self.solver == "ridge")
        bits = "" if self.bits is None else f", {self.bits} bit"
        return f"Raw samples{ridge}{bits}" + f", bursts of {self.burst}" * (self.burst > 1)

    def check(self, dim: int, clients: int) -> None:
        """Clients have no model, so they cannot say how much theirs has changed."""
        require(self, "ridge", 0 < self.ridge < np.inf, "use a number above 0")
        at_least_one(self, "burst")
        require(self, "bits", self.bits is None or 2 <= self.bits <= 16, "use 2 to 16, or no bits")
        if self.policy is None:
            return
        if self.solver == "ridge":
            found = "is given, but a regression takes every sample as it is, without a weight"
            raise InputError("policy", found, 'leave it out, or use solver = "lms"')
        if self.policy.scores == "client":
            found = f"is {self.policy.name}, but clients that send samples have no update to report"
            raise InputError("policy", found, "use another")

    def check_learner(self, learner: Learner) -> None:
        """A regression needs a linear model, whatever its steps are."""
        if self.solver == "lms":
            super().check_learner(learner)
        elif not learner.linear:
            found = f"is 'ridge', which needs a linear model, and {learner.name} is not one"
            raise InputError("solver", found, 'use solver = "lms", or the learner "lms"')

    def defended(self, defence: Any) -> Self | None:
        """A regression has no model that an upload changes; as mean steps nothing of its own."""
        if self.solver == "ridge":
            found = "is 'ridge', whose server has no fold that [defence] could change"
            raise InputError("solver", found, 'use solver = "lms", or leave [defence] out')
        return None


Options = Raw


class Method(centralised.Method):
    """Eq. (5) and (6) at the server, w <- w + (mu/|S_n|) sum_k e_k z_k, with the samples sent.

    Or w = (R + lambda I)^-1 r, R = sum z z^T and r = sum y z over all samples sent, in float64. It
    is solved when somebody asks for the model.
    """

    def __init__(self, options: Raw, task: Task) -> None:
        super().__init__(
            centralised.Options("batch", step=options.step, policy=options.policy), task
        )
        self.ridge = options.ridge if options.solver == "ridge" else None
        self.burst = self.pace = options.burst
        self.exact = options.burst == 1 and options.bits is None
        self.code = None if options.bits is None else codes.Symmetric(options.bits)
        # Numbers of inputs in a message: of one signal, and of samples that are no windows of one.
        self.forms = task.taps - 1 + self.burst, task.taps * self.burst
        self.ends = tuple(self._bytes(inputs) for inputs in self.forms)

    def cohort(self, n: int, server: State) -> Indices:
        """S_n; in blocks, that of their first round."""
        return self.task.cohorts.cohort(n - n % self.pace)

    def server(self) -> State:
        """w, or the sums of which it is made."""
        D = self.task.dim
        return super().server() if self.ridge is None else {"R": np.zeros((D, D)), "r": np.zeros(D)}

    def client(self) -> State:
        """The newest B samples, the last one at the end, and how many were not sent yet."""
        samples = self.task.zeros(self.burst, self.task.taps + 1)
        return {"samples": samples, "fresh": np.zeros((), np.int64)}

    def learn(self, client: State, x: Array, z: Array, y: Array) -> None:
        """Keep the sample, to be sent."""
        kept = client["samples"]
        kept[..., :-1, :] = kept[..., 1:, :].copy()
        kept[..., -1, :-1], kept[..., -1, -1] = x, y
        client["fresh"] += 1

    def upload(self, client: State, k: Indices, n: int) -> Message:
        """B samples, each once. A client that has fewer reports nothing, and still counts."""
        x, y = client["samples"][..., :-1], client["samples"][..., -1]
        due = client["fresh"] >= self.burst
        client["fresh"][due] = 0
        table, short = self._packed(x.reshape(*k.shape, -1), y), np.zeros(k.shape, bool)
        if self.ends[0] < self.ends[1]:
            short = (x[..., 1:, 1:] == x[..., :-1, :-1]).all(axis=(-2, -1))
            signal = self._packed(np.concatenate([x[..., 0, ::-1], x[..., 1:, 0]], axis=-1), y)
            table[..., : signal.shape[-1]][short] = signal[short]
        length = np.where(short, self._length(self.forms[0]), table.shape[-1])
        length = np.where(due, length, 0)
        return Message(np.where(np.arange(table.shape[-1]) < length[..., None], table, 0), length)

    def _packed(self, x: Array, y: Array) -> Array:
        """All inputs, then all labels, each coded by themselves."""
        parts = [x, y] if self.code is None else [self.code.make(v, self.task.wire) for v in (x, y)]
        return np.concatenate(parts, axis=-1)

    def _length(self, inputs: int) -> int:
        return inputs + self.burst + (0 if self.code is None else 2 * self.code.extra)

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """A mean step of all samples, or R <- R + sum_k z_k z_k^T, r <- r + sum_k y_k z_k."""
        if not message.heard.any():
            return
        x, y = (v.reshape(*k.shape[:-1], -1, v.shape[-1]) for v in self._samples(message))
        heard = np.repeat(message.heard, self.burst, axis=-1)
        if self.ridge is None:
            every = np.repeat(weights / weights.dtype.type(self.burst), self.burst, axis=-1)
            samples = Message(np.concatenate([x, y], axis=-1), np.where(heard, x.shape[-1] + 1, 0))
            super().fold(server, k, n, samples, every)
            return
        z: Any = self.task.features(x)
        z = np.where(heard[..., None], z, 0).astype(np.float64)
        across = np.ascontiguousarray(z.swapaxes(-1, -2))
        server["R"] += across @ z
        server["r"] += (across @ y.astype(np.float64))[..., 0]

    def _samples(self, message: Message) -> tuple[Array, Array]:
        """x [..., s, B, L] and y [..., s, B, 1], in the precision of the task."""
        taps, (signal, table) = self.task.taps, self.forms
        shape = (*message.length.shape, self.burst)
        x, y = self.task.zeros(*shape, taps), self.task.zeros(*shape)
        for inputs in {signal, table}:
            here = message.length == self._length(inputs)
            if here.any():
                sent = message.values[here][:, : self._length(inputs)].astype(x.dtype)
                values, y[here] = self._unpacked(sent, inputs)
                if inputs == table:
                    x[here] = values.reshape(-1, self.burst, taps)
                else:  # a signal begins with the oldest, a window with the newest
                    windows = np.lib.stride_tricks.sliding_window_view(values, taps, axis=-1)
                    x[here] = windows[..., ::-1]
        return x, y[..., None]

    def _unpacked(self, sent: Array, inputs: int) -> tuple[Array, Array]:
        if self.code is None:
            return sent[:, :inputs], sent[:, inputs:]
        cut = inputs + self.code.extra
        return self.code.restore(sent[:, :cut]), self.code.restore(sent[:, cut:])

    def _bytes(self, numbers: int) -> int:
        """Bytes of so many inputs, or labels."""
        if self.code is None:
            return numbers * payload.size(self.task.wire)
        return len(self.code.encode(np.zeros(numbers + self.code.extra), self.task.wire))

    def encode(self, values: Array, up: bool) -> bytes:
        """Of inputs and of labels, their scale and then `bits` each; one byte says: none."""
        if self.code is None or not len(values):
            return super().encode(values, up)
        wire, cut = self.task.wire, len(values) - self.burst - self.code.extra
        return self.code.encode(values[:cut], wire) + self.code.encode(values[cut:], wire)

    def decode(self, data: bytes, up: bool) -> Array:
        """B samples as one signal or as they are, or nothing."""
        if self.code is None or data in (b"", payload.NOTHING):
            lengths = map(self._length, self.forms)
            return sized(Plain.decode(self, data, up), 0, *lengths)
        wire, end = self.task.wire, len(data) - self._bytes(self.burst)
        if end not in self.ends:
            raise ValueError(f"{len(data)} bytes are not {self.burst} samples")
        inputs = self.code.decode(data[:end], wire, self.forms[self.ends.index(end)])
        return np.concatenate([inputs, self.code.decode(data[end:], wire, self.burst)])

    def models(self, server: State | None, clients: State) -> Array:
        """w, or (R + lambda I)^-1 r."""
        if self.ridge is None or server is None:
            return super().models(server, clients)
        A = server["R"] + self.ridge * np.eye(self.task.dim)
        return np.linalg.solve(A, server["r"][..., None])[..., 0].astype(self.task.dtype)

"""MEMO-Fed: statistics in a small whitened basis; the server keeps a model of every client's loss.

Source: ours.

Faithful: its fixed point is the pooled ridge regression of all samples.

Ours: everything on the way there.

Unverified: whether others have published its parts in this combination.

The D features are redundant, so d < D coordinates u = T^T z hold the best model; T follows
from the seed and a guessed law of the inputs. A client sums up A_k = sum u u^T, q_k = sum u y of
all its samples, and at a contact sends the gradient of its whole past at the model it knows. The
server keeps a quadratic model of every client's loss and minimises their sum:

    g_k = (q_k - A_k r_k) / n_k                               at the reference r_k, exact but for Q
    h_k = V_k g_k,    V_k B_k V_k^T = I                                                as it travels
    c = (sum_k n_k kappa B_k + rho P)^-1 sum_k n_k (g_k + kappa B_k r_k)            w = T c

Its fixed point is the pooled ridge regression of all samples for any B_k and kappa; these decide
only the speed. B_k is the curvature that the moments of the client's inputs imply, plus a little
for the rounding of messages. The moments are sent with contacts 1, 4, 16, 64 and so on, with the
share of rounds in which the client had a sample: from it the server takes n_k.
Both ends know B_k, so that a message is the difference to what B_k foresees, in coordinates in
which B_k is I. Then its rounding is a part of the step that it causes in the norm of the loss, even
where the loss is a thousand times flatter in one direction than in another: rounded in u, such
steps grew from contact to contact on the columns of real tables.
kappa needs no step size and no bytes: when r_k moves by dr and g_k by dg between two contacts,
-dr^T dg / dr^T B_k dr is the true curvature over the assumed one. If this ratio is too large for a
Newton iteration, kappa grows, so that the iteration does not diverge.

With one sample, an upload would be that sample: d numbers that depend on L + 1. So nothing leaves
a client before it has `least` samples, by default as many as make the unknowns more than the
numbers that are sent. That is no guarantee of privacy (docs/privacy.md).

A client needs D d + d^2 + d multiply-adds a sample: 22,480 at D = 200 and d = 80, 56 times the 2 D
of LMS. It stores D d numbers for T (128 kB in float64) and d^2 for A_k; LMS stores D numbers. There
is no step to tune, but there are constants: in `core/features.py` and in the files of `memo`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from psofed.core.features import FLAT, guess, whitened
from psofed.core.schedule import Indices
from psofed.errors import InputError
from psofed.federation import schema
from psofed.federation.bases import at_least_one
from psofed.federation.contract import Array, Message, Plain, State, Task, rows
from psofed.federation.options import Common, Knob, Learns
from psofed.methods.memo.messages import Curvature, Values, whitening
from psofed.methods.memo.server import MemoServer, effective

SILENT = 10  # contacts of the whole system before which a model is not worth sending
SUMS = "A", "q", "n", "s", "C"


@dataclass(frozen=True)
class MemoFed(Common):
    """Bytes a round, d, b bits a value, forgetting, the guess of the inputs, and a floor."""

    name: ClassVar[str] = "memofed"
    uncoded: ClassVar[str] = "codes its messages itself, with `bits`"
    learners: ClassVar[Learns] = "linear"
    knob: ClassVar[Knob | None] = Knob("budget", bytes=True)
    steps: ClassVar[bool] = False
    selects: ClassVar[bool] = True
    attackable: ClassVar[bool] = False
    budget: float | None = 160.0  # bytes a round, up and down; none: no limit
    size: int = 80  # d
    bits: int | None = 4  # a value; none: exact
    forget: float = 1.0  # beta, the part of statistics that is kept from one sample to the next
    ridge: float = 1.0  # rho
    spread: float = 1.0  # the guess of the inputs' covariance: the variance of each,
    correlation: float = 0.5  # and the correlation of any two
    silent: int = SILENT  # contacts of the whole system before a model is sent to new clients
    least: int | None = None  # samples before anything leaves a client; not set: d / 2 + 2
    clip: float | None = None  # the defence clip, in the server's own form; not set: none

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """Discrete options that a fair comparison searches, with the values worth trying."""
        return {"size": tuple(sorted({min(d, dim) for d in (40, 80, 120)})), "bits": (3, 4, 6)}

    @property
    def settled(self) -> str:
        """A client is weighted by the number of rounds, so the membership cannot change."""
        return "its server counts the samples of a client from the first round on"

    def defended(self, defence: Any) -> Self | None:
        """The same with the defence clip as weights of quadratics; None for any other defence."""
        # Its usual change is a median of all, clip's one of the largest of late.
        return replace(self, clip=1.5 * defence.clip) if defence.name == "clip" else None

    def describe(self) -> str:
        """The traffic, and what differs from the defaults."""
        budget = "" if self.budget is None else f" {self.budget:g} B a round"
        forget = f", forgets {self.forget:g}" if self.forget < 1 else ""
        size = f" d={self.size}" if self.size != Options.size else ""
        bits = f" {self.bits} bit" if self.bits and self.bits != Options.bits else ""
        clip = "" if self.clip is None else f", clip {self.clip:g}"
        return f"MEMO-Fed{budget}{size}{bits}{forget}{clip}"

    def check(self, dim: int, clients: int) -> None:
        """Numbers in their ranges."""
        schema.positive(self, "budget", "spread")
        at_least_one(self, "size", "least")
        if self.bits is not None and not 2 <= self.bits <= 16:
            raise InputError("bits", f"is {self.bits}", "use 2 to 16, or leave it out")
        schema.require(self, "forget", 0 <= self.forget <= 1, "use 0 to 1; 1 remembers everything")
        schema.require(self, "correlation", 0 <= self.correlation < 1, "use 0 to 1, below 1")
        schema.require(self, "ridge", 0 <= self.ridge < np.inf, "use 0 or more")
        schema.require(self, "silent", self.silent >= 0, "use 0 contacts or more")
        if self.clip is not None and not self.clip > 0:
            raise InputError("clip", f"is {self.clip}", "use a number above 0, or leave it out")
        least, kept = self.floor(dim), np.inf if self.forget == 1 else 1 / (1 - self.forget)
        if kept < least * (1 - 1e-9):
            found = f"is {self.forget:g}, which remembers {kept:.3g} samples, below `least`"
            right = f"use {1 - 1 / least:.4g} or more, or set least to {int(kept)} or less"
            raise InputError("forget", found, right)

    def floor(self, dim: int) -> int:
        """Samples before anything leaves a client.

        Sent are d values, a mean and L autocovariances; n windows of a signal and their labels are
        2 n + L - 1 numbers. That is more from d / 2 + 2 samples on.
        """
        return min(self.size, dim) // 2 + 2 if self.least is None else self.least


Options = MemoFed


class Method(Plain):
    """The equations above; values travel in b bits as differences to references at both ends.

    Both ends agree on the references although messages get lost. The server changes its own only
    when a round is folded. A download says whether the number of folded contacts is odd. A client
    that has counted one contact too many undoes the last one.
    """

    idle = lazy = True
    several = False

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.options = options
        law = guess(task.taps, options.spread, options.correlation)
        R = task.features.correlation(np.zeros(task.taps), law)
        self.T, penalty = whitened(R, options.size, epsilon=FLAT)
        self.size, self.prior = len(penalty), options.ridge * penalty
        # The curvature decides the speed, not the result: the precision of the task is enough.
        curvature = Curvature(task.features, self.T.astype(task.dtype), law)
        self.curvature, self.beta = curvature, options.forget
        reported = {1 + curvature.numbers(signal) for signal in (True, False)}
        self.values = Values(self.size, options.bits, task.wire, tuple(sorted(reported)))
        least = options.floor(task.dim)
        self.least = effective(self.beta, least) * (1 - 1e-9)  # but for roundings
        self._bases: dict[Any, Array] = {}
        self.at_server = MemoServer(
            options, self.values, curvature, self.prior, task.clients, least, task.cohorts.begin
        )

    def cohort(self, n: int, server: State) -> Indices:
        """Those of S_n that were heard least recently, as many as the unused budget allows."""
        members = super().cohort(n, server)
        return self.at_server.chosen(server, members, n, self.options.budget)

    def server(self) -> State:
        """c and the sums; of every client B_k, g_k, r_k, h_k and when it was heard."""
        return self.at_server.start(self.task.places)

    def client(self) -> State:
        """A_k, q_k, n_k, sums of inputs; V_k, r_k, h_k, r_k and h_k before the last contact.

        What it reported last becomes V_k once it knows that the server has received it.
        """
        d, taps = self.size, self.task.taps
        return {
            "A": np.zeros((d, d)), "q": np.zeros(d), "n": np.zeros(()),
            "s": np.zeros(taps), "C": np.zeros((taps, taps)), "V": np.eye(d),
            "r": np.zeros(d), "h": np.zeros(d), "old_r": np.zeros(d), "old_h": np.zeros(d),
            "reported": np.zeros(max(self.values.reported)), "numbers": np.zeros((), np.int64),
            "contacts": np.zeros((), np.int64),
        }  # fmt: skip

    def download(self, server: State, k: Indices, n: int) -> Message:
        """Whether the contacts folded so far are odd, and Q(V_k B_k (c - r_k))."""
        return rows([self.at_server.offer(server, one, n) for one in k.tolist()])

    def receive(self, client: State, k: Indices, n: int, message: Message) -> None:
        """r_k moves by V_k^T Q, after undoing a contact that was never folded."""
        for i in range(len(k)):
            came = message.row(i)
            if came is not None:
                self.receive_one(_one(client, i), came)

    def learn(self, client: State, x: Array, z: Array, y: Array) -> None:
        """u = T^T z is added to the statistics: of each client, samples in a row."""
        for i in range(len(y)):
            self.learn_one(_one(client, i), x[i], z[i], y[i])

    def upload(self, client: State, k: Indices, n: int) -> Message:
        """Q(V_k g_k - h_k), and at some contacts the moments of the inputs."""
        return rows([self.upload_one(_one(client, i), n) for i in range(len(k))])

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """The quadratic of each client that was heard replaces its old one; c minimises the sum."""
        reported = {int(one): message.row(i) for i, one in enumerate(k)}
        self.at_server.fold(server, n, {one: m for one, m in reported.items() if m is not None})

    def models(self, server: State | None, clients: State) -> Array:
        """w = T c; of clients, T r_k, the model that came down last."""
        w = clients["r"] @ self.T.T if server is None else self.T @ server["c"]
        return w.astype(self.task.dtype)

    def encode(self, values: Array, up: bool) -> bytes:
        return self.values.encode(values, up)

    def decode(self, data: bytes, up: bool) -> Array:
        return self.values.decode(data, up)

    # One client: it adds up A, q, n and sums of its inputs.

    def learn_one(self, state: State, x: Array, z: Array, y: Array) -> None:
        """A <- beta A + u u^T, q <- beta q + u y, n <- beta n + 1, and the inputs, in a row."""
        u, count = z @ self._basis(z.dtype), len(y)
        left, weighed, inputs, total = u.T, y, x.T, float(count)
        if self.beta < 1:
            past = self.beta ** np.arange(count - 1.0, -1, -1)
            left, weighed, inputs, total = u.T * past, y * past, x.T * past, past.sum()
            for name in SUMS:
                state[name] *= self.beta**count
        state["A"] += left @ u
        state["q"] += weighed @ u
        state["n"] += total
        state["s"] += inputs.sum(axis=1)
        state["C"] += inputs @ x

    def _basis(self, dtype: Any) -> Array:
        """T in the precision of the features, which is enough for a sum of many samples."""
        if dtype not in self._bases:
            self._bases[dtype] = self.T.astype(dtype)
        return self._bases[dtype]

    def receive_one(self, state: State, message: Array) -> None:
        """r_k moves by V_k^T Q and h_k by -Q, after undoing a contact that was never folded."""
        lost = state["contacts"] > 0 if not len(message) else state["contacts"] % 2 != message[0]
        if lost:
            state["r"][:], state["h"][:] = state["old_r"], state["old_h"]
            state["contacts"] -= 1
        elif state["numbers"]:  # the server knows them now
            count, *moments = state["reported"][: int(state["numbers"])]
            V = whitening(self.curvature.matrix(np.array(moments), count))
            state["h"][:] = V @ np.linalg.solve(state["V"], state["h"])
            state["V"][:] = V
        state["numbers"][...] = 0
        state["old_r"][:], state["old_h"][:] = state["r"], state["h"]
        if len(message):
            moved = self.values.restore(message[1:])
            state["r"] += state["V"].T @ moved
            if state["contacts"]:
                state["h"] -= moved

    def upload_one(self, state: State, n: int) -> Array:
        """Q(V_k g_k - h_k), and at some contacts the moments of the inputs.

        With fewer samples than `least` it sends nothing of them, and the contact does not count.
        """
        r, h = state["r"], state["h"]
        if state["n"] < self.least:
            r[:], h[:] = state["old_r"], state["old_h"]
            return np.empty(0)
        count = float(state["n"])
        gradient = (state["q"] - state["A"] @ r) / count
        values, reported = self.values.quantise(state["V"] @ gradient - h), np.empty(0)
        h += self.values.restore(values)
        if self.values.due(int(state["contacts"])):
            reported = self._reported(state, n)
        state["contacts"] += 1
        return np.concatenate([values, reported])

    def _reported(self, state: State, n: int) -> Array:
        """The share of rounds with a sample, and the moments of the inputs."""
        count, rounds = float(state["n"]), self.at_server.rounds(n)
        mean, square, A = (state[name] / count for name in ("s", "C", "A"))
        moments = self.curvature.reported(mean, square, count, A)
        share = float(np.float16(min(count / rounds, 1.0)))
        # The server knows n_k from the share, as it was rounded.
        state["reported"][: 1 + len(moments)] = share * rounds, *moments
        state["numbers"][...] = 1 + len(moments)
        return np.append(share, moments)


def _one(client: State, i: int) -> State:
    """The state of one client; an ellipsis keeps numbers as views, so that they can change."""
    return {name: array[i, ...] for name, array in client.items()}

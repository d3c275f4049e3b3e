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
    c = (sum_k n_k kappa B_k + rho P)^-1 sum_k n_k (g_k + kappa B_k r_k)            w = T c

Its fixed point is the pooled ridge regression of all samples for any B_k and kappa; these decide
only the speed. B_k is the curvature that the moments of the client's inputs imply, plus a little
for the rounding of messages. The moments are sent with contacts 1, 4, 16, 64 and so on. With
curvature = "unit" they are not sent, and B_k is I/mu.
kappa needs no step size and no bytes: when r_k moves by dr and g_k by dg between two contacts,
-dr^T dg / dr^T B_k dr is the true curvature over the assumed one. If this ratio is too large for a
Newton iteration, kappa grows, so that the iteration does not diverge.

With one sample, an upload would be that sample: d numbers that depend on L + 1. So nothing leaves
a client before it has `least` samples, by default as many as make the unknowns more than the
numbers that are sent. That is no guarantee of privacy (docs/privacy.md).

A client needs D d + d^2 + d multiply-adds a sample: 22,480 at D = 200 and d = 80, 56 times the 2 D
of LMS. It stores D d numbers for T (128 kB in float64) and d^2 for A_k; LMS stores D numbers. There
is no step to tune, but there are constants, here and in `whitening`, `curvature` and `adapting`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from psofed.core import payload, whitening
from psofed.core.schedule import Indices
from psofed.errors import InputError
from psofed.methods import curvature, forgetting, quadratics, statistics, trust
from psofed.methods.adapting import Adaptive
from psofed.methods.contract import Array, Common, Knob, Learns, Message, Plain, State, Task
from psofed.methods.forgetting import Fixed
from psofed.methods.values import Values

DAMP = 0.03  # added to the curvature: flat directions would amplify the rounding of messages
RECENT = 0.5  # contacts per client over which kappa is measured
SAFE = 0.6  # of the measured curvature: Newton steps tolerate almost a factor of two
RELEASE = 0.99  # of kappa is kept from one fold to the next
SILENT = 10  # contacts of the whole system before which a model is not worth sending


@dataclass(frozen=True)
class Options(Common):
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
    inputs: Literal["signal", "columns"] = "signal"  # x is a window of one signal, or not
    spread: float = 1.0  # the guess of the inputs' covariance: the variance of each,
    correlation: float = 0.5  # and the correlation of any two
    curvature: Literal["moments", "unit"] = "moments"  # B_k from moments of the inputs, or I/mu
    basis: Literal["whitened", "none"] = "whitened"  # of d coordinates, or all D features
    guard: bool = True  # whether kappa may grow
    silent: int = SILENT  # contacts of the whole system before a model is sent to new clients
    least: int | None = None  # samples before anything leaves a client; not set: d / 2 + 2
    adapt: bool = False  # forget when f changes, or as long as it drifts

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """Discrete options that a fair comparison searches, with the values worth trying."""
        return {"size": tuple(sorted({min(d, dim) for d in (40, 80, 120)})), "bits": (3, 4, 6)}

    @property
    def settled(self) -> str:
        """The weight of a client is how many rounds there were."""
        return "its server counts the samples of a client from the first round on"

    def describe(self) -> str:
        """The traffic, and what differs from the defaults."""
        budget = "" if self.budget is None else f" {self.budget:g} B a round"
        forget = f", forgets {self.forget:g}" if self.forget < 1 else ""
        size = f" d={self.size}" if self.size != Options.size else ""
        bits = f" {self.bits} bit" if self.bits and self.bits != Options.bits else ""
        return f"MEMO-Fed{budget}{size}{bits}{forget}" + (", adapts" if self.adapt else "")

    def check(self, dim: int, clients: int) -> None:
        """Numbers in their ranges."""
        if self.budget is not None and not 0 < self.budget < np.inf:
            raise InputError("budget", f"is {self.budget}", "use bytes a round, above 0")
        if not self.size >= 1:
            raise InputError("size", f"is {self.size}", "use 1 or more")
        if self.bits is not None and not 2 <= self.bits <= 16:
            raise InputError("bits", f"is {self.bits}", "use 2 to 16, or leave it out")
        if not 0 <= self.forget <= 1:
            raise InputError("forget", f"is {self.forget}", "use 0 to 1; 1 remembers everything")
        if not 0 <= self.correlation < 1:
            raise InputError("correlation", f"is {self.correlation}", "use 0 to 1, below 1")
        if not 0 < self.spread < np.inf:
            raise InputError("spread", f"is {self.spread}", "use a variance above 0")
        if not 0 <= self.ridge < np.inf:
            raise InputError("ridge", f"is {self.ridge}", "use 0 or more")
        if self.silent < 0:
            raise InputError("silent", f"is {self.silent}", "use 0 contacts or more")
        if self.least is not None and self.least < 1:
            raise InputError("least", f"is {self.least}", "use a number of samples, from 1 on")
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
        size = dim if self.basis == "none" else min(self.size, dim)
        return size // 2 + 2 if self.least is None else self.least


class Method(Plain):
    """The equations above; values travel in b bits as differences to references at both ends.

    Both ends agree on the references although messages get lost. The server changes its own only
    when a round is folded. A download says whether the number of folded contacts is odd. A client
    that has counted one contact too many undoes the last one.
    """

    idle = lazy = True
    defends = ("clip",)

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.options = options
        guess = whitening.guess(task.taps, options.spread, options.correlation)
        self.T, penalty = whitening.plain(task.dim)
        if options.basis == "whitened":
            R = task.features.correlation(np.zeros(task.taps), guess)
            self.T, penalty = whitening.whitened(R, options.size, epsilon=whitening.FLAT)
        self.size = len(penalty)
        self.prior = options.ridge * penalty
        signal = options.inputs == "signal"
        # The curvature decides the speed, not the result: the precision of the task is enough.
        T = self.T.astype(task.dtype)
        self.curvature = curvature.Curvature(task.features, T, guess, signal)
        self.tells = options.curvature == "moments"
        self.values = Values(self.size, options.bits, task.wire, self.curvature.numbers)
        self._sizes = self.values.nbytes(up=False), self.values.nbytes(up=True)
        least = options.floor(task.dim)
        self._least = forgetting.count(options.forget, least) * (1 - 1e-9)  # but for roundings
        self.memory = (Adaptive if options.adapt else Fixed)(options.forget, least)
        self.trust = trust.start(task)
        self._fading = "sum_B", "sum_Br", "sum_g", "weight", *(["due"] if self.trust else [])
        self._bases: dict[Any, Array] = {}
        self._offers: dict[int, tuple[int, bytes, Array]] = {}

    # What a contact costs, and who is contacted.

    def cohort(self, n: int, server: State) -> Indices:
        """Those of S_n that were heard least recently, as many as the unused budget allows."""
        members = super().cohort(n, server)
        members = members[self.memory.ready(server, members, n)]
        if self.options.budget is None:
            return members
        left = self.options.budget * (n + 1) - server["spent"]
        chosen = []
        for k in members[np.argsort(server["heard"][members], kind="stable")].tolist():
            left -= self._cost(server, k)
            if left < 0:
                break
            chosen.append(k)
        return np.array(sorted(chosen), np.intp)

    def _cost(self, server: State, k: int) -> int:
        """Bytes of a contact with client k, at most."""
        moments = self._more(int(server["contacts"][k]))
        most = self._sizes[1] + 2 * self.curvature.numbers * moments + self.options.adapt
        return self._down(server, k) + most

    def _down(self, server: State, k: int) -> int:
        """Bytes that go down to client k."""
        silent = self._is_silent(server, int(server["contacts"][k]))
        return len(payload.NOTHING) if silent else self._sizes[0] + self.memory.drifts(server)

    def _is_silent(self, server: State, contacts: int) -> bool:
        """Whether a client of so many contacts gets no model yet."""
        return contacts == 0 and bool(server["contacts"].sum() < self.options.silent)

    def _more(self, contacts: int) -> bool:
        """Whether the next contact sends the moments: contacts 1, 4, 16, 64, ... do."""
        number = contacts + 1
        return self.tells and number & (number - 1) == 0 and number.bit_length() % 2 == 1

    # State.

    def server(self) -> State:
        """c, kappa and the sums; of every client B_k, g_k, r_k, h_k and when it was heard."""
        K, d = self.task.places, self.size
        return {
            "c": np.zeros(d), "kappa": np.ones(()), "secant": np.zeros(2),
            "sum_B": np.zeros((d, d)), "sum_Br": np.zeros(d), "sum_g": np.zeros(d),
            "B": np.zeros((K, d, d)), "Br": np.zeros((K, d)), "g": np.zeros((K, d)),
            "r": np.zeros((K, d)), "h": np.zeros((K, d)), "weight": np.zeros(K),
            "contacts": np.zeros(K, np.int64), "heard": np.full(K, -1),
            "now": np.zeros((), np.int64), "spent": np.zeros(()), **self.memory.server(K, d),
            **(self.trust.server(K, d) if self.trust else {}),
        }  # fmt: skip

    def client(self, k: int) -> State:
        """A_k, q_k, n_k, sums of the inputs, r_k and h_k, and both before the last contact."""
        d = self.size
        return statistics.empty(d, self.task.taps) | {
            "r": np.zeros(d), "h": np.zeros(d), "old_r": np.zeros(d), "old_h": np.zeros(d),
            "contacts": np.zeros((), np.int64), **self.memory.client(d),
        }  # fmt: skip

    # The client.

    def learn(self, client: State, x: Array, z: Array, y: Any) -> None:
        """u = T^T z is added to the statistics, of one client or of several in a stack."""
        if self.options.adapt and z.ndim > 1:
            for i in range(len(z)):
                one = {name: array[i, ...] for name, array in client.items()}
                self.learn(one, x[i], z[i], y[i])
            return
        x, u = x.astype(np.float64), z.astype(np.float64) @ self.T
        if not self.memory.drops(client, u[None], np.asarray(y)[None]):
            statistics.add(client, x, u, np.asarray(y), self.memory.of(client))

    def absorb(self, client: State, x: Array, z: Array, y: Array) -> None:
        """`learn` for many samples of one client, one after the other."""
        u = z @ self._basis(z.dtype)
        new = self.memory.drops(client, u, y)
        statistics.add_many(client, x[new:], u[new:], y[new:], self.memory.of(client))

    def _basis(self, dtype: Any) -> Array:
        """T in the precision of the features, which is enough for a sum of many samples."""
        if dtype not in self._bases:
            self._bases[dtype] = self.T.astype(dtype)
        return self._bases[dtype]

    def receive(self, client: State, k: int, n: int, message: Message) -> None:
        """r_k <- r_k + Q(c - r_k), after undoing a contact that was never folded."""
        if message is None:
            return
        lost = client["contacts"] > 0 if not len(message) else client["contacts"] % 2 != message[0]
        if lost:
            client["r"][:], client["h"][:] = client["old_r"], client["old_h"]
            client["contacts"] -= 1
        client["old_r"][:], client["old_h"][:] = client["r"], client["h"]
        self.memory.receives(client, bool(lost), len(message) > 1 + self.values.entries)
        if len(message):
            client["r"] += self.values.restore(message[1 : 1 + self.values.entries])

    def upload(self, client: State, k: int, n: int) -> Message:
        """Q(g_k + r_k - h_k), and at some contacts the moments of the inputs.

        With fewer samples than `least` it sends nothing of them, and the contact does not count.
        """
        r, h = client["r"], client["h"]
        if client["n"] < self._least:
            r[:] = client["old_r"]
            return self.values.only(float(client["n"])) if self.options.adapt else np.empty(0)
        if client["contacts"] == 0:
            h[:] = r
        count = max(float(client["n"]), 1.0)
        g = (client["q"] - client["A"] @ r) / count
        values = self.values.quantise(g + r - h)
        h += self.values.restore(values)
        moments = None
        if self._more(int(client["contacts"])):
            moments = self.curvature.moments(client["s"] / count, client["C"] / count)
        client["contacts"] += 1
        told = count if self.memory.tells(client) else None
        return self.values.upload(values, moments, told)

    # The server.

    def download(self, server: State, k: int, n: int) -> Array:
        """Whether the contacts folded so far are odd, and Q(c - r_k)."""
        contacts = int(server["contacts"][k])
        if self._is_silent(server, contacts):
            return np.empty(0)
        away = server["c"] - server["r"][k]
        offered, known = self._offers.get(k), away.tobytes()
        if offered is not None and offered[:2] == (n, known):
            return offered[2]  # asked for again, as when the round is folded
        drifts = [1.0] if self.memory.drifts(server) else []
        message = np.concatenate(([contacts % 2], self.values.quantise(away), drifts))
        self._offers[k] = n, known, message
        return message

    def downloads(self, k: int, n: int) -> tuple[int | None, ...]:
        """No message while there is no useful model, or the bit and d values, and of a drift."""
        return 0, 1 + self.values.entries, *([2 + self.values.entries] * self.options.adapt)

    def own(self, client: State) -> Message:
        """T r_k: the model that came down last."""
        return (self.T @ client["r"]).astype(self.task.dtype)

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None:
        """The quadratic of each client that was heard replaces its old one; c minimises the sum."""
        told = {k: m for k, m in uploads.items() if m is not None}
        down = {k: self.download(server, k, n) for k in told}
        heard = [k for k, message in told.items() if self._has_values(server, k, n, message)]
        if not heard:
            return
        beta = self.memory.now(server)
        if beta < 1:
            fade = beta ** (n - int(server["now"]))
            for name in self._fading:
                server[name] *= fade
        server["now"][...] = n
        for k in heard:
            server["spent"] += self._down(server, k) + self.values.uploaded(len(told[k]))
            self._hear(server, k, n, down[k], told[k])
        before = server["weight"].copy()
        self.memory.discount(server)
        if self.trust:
            self.trust.review(server, before)
        true, assumed = server["secant"].tolist()
        ratio = SAFE * true / assumed if self.options.guard and assumed > 0 else 1.0
        kappa = max(1.0, ratio, RELEASE * float(server["kappa"]))
        server["kappa"][...] = kappa
        b = server["sum_g"] + kappa * server["sum_Br"]
        server["c"][:] = quadratics.minimum(server["sum_B"], kappa, self.prior, b)
        self.memory.follow(server, n)

    def _has_values(self, server: State, k: int, n: int, message: Array) -> bool:
        """Whether client k had enough samples; if not, this costs bytes, and others come first."""
        values, _, count = self.values.split(message)
        if values is not None:
            return True
        server["spent"] += self._down(server, k) + self.values.uploaded(len(message))
        self.memory.waits(server, k, n, count)
        server["heard"][k] = n
        return False

    def _hear(self, server: State, k: int, n: int, down: Array, message: Array) -> None:
        """Client k at its new reference, sometimes with a new B_k; its part of the sums."""
        values, moments, told = self.values.split(message)
        assert values is not None
        model, drifts = down[1 : 1 + self.values.entries], len(down) > 1 + self.values.entries
        count, weight = self.memory.hear(server, k, n, told, drifts), float(server["weight"][k])
        r, h, g, B, Br = (server[name][k] for name in ("r", "h", "g", "B", "Br"))
        first = not server["contacts"][k]
        dr = self.values.restore(model) if len(model) else np.zeros(self.size)
        r += dr
        if first:
            h[:], B[:] = r, np.eye(self.size) / self.step
        h += self.values.restore(values)
        if moments is not None:
            server["sum_B"] -= weight * B
            B[:] = self.curvature.matrix(moments, count)
            B += DAMP * np.eye(self.size)
            server["sum_B"] += weight * B
        sums = quadratics.Quadratic(server["sum_B"], server["sum_g"], server["sum_Br"])
        old = quadratics.Quadratic(B, g, Br)
        if self.trust:
            count = self.trust.hear(server, k, count, r, h - r)
        true, assumed = quadratics.renew(sums, weight, count, old, r, h - r, dr)
        if not first and moments is None:
            # Averaged over recent contacts, so that new samples average out.
            server["secant"] *= 1 - 1 / max(RECENT * self.task.clients, 1)
            server["secant"] += -count * true, count * assumed
        server["weight"][k], server["heard"][k] = count, n
        server["contacts"][k] += 1

    def models(self, server: State, clients: State) -> Array:
        """w = T c."""
        return (self.T @ server["c"]).astype(self.task.dtype)

    def lengths(self, n: int) -> tuple[int, ...] | None:
        """Values, with moments or not, with a count or not; or nothing."""
        return self.values.lengths(self.options.adapt)

    def numbers(self, upload: Array) -> Array:
        return self.values.numbers(upload)

    def encode(self, message: Array, up: bool) -> bytes:
        return self.values.encode(message, up)

    def decode(self, data: bytes, up: bool) -> Array:
        return self.values.decode(data, up)

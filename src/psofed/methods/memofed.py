"""MEMO-Fed: statistics in a small whitened basis; the server keeps a model of every client's loss.

Ours. The D features are redundant, so d < D coordinates u = T^T z hold the best model; T follows
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

A client needs D d + d^2 + d multiply-adds a sample: 22,480 at D = 200 and d = 80, 56 times the 2 D
of LMS. It stores D d numbers for T (128 kB in float64) and d^2 for A_k; LMS stores D numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar, Literal

import numpy as np

from psofed.core import payload
from psofed.core.schedule import Indices
from psofed.errors import InputError
from psofed.methods import basis, coding, curvature, quadratics
from psofed.methods.contract import Array, Common, Knob, Learns, Message, Plain, State, Task

SCALES = 1 - coding.SMALLEST  # makes a scale a number from 0 on
DAMP = 0.03  # added to the curvature: flat directions would amplify the rounding of messages
RECENT = 0.5  # contacts per client over which kappa is measured
SAFE = 0.6  # of the measured curvature: Newton steps tolerate almost a factor of two
RELEASE = 0.99  # of kappa is kept from one fold to the next
SILENT = 10  # contacts of the whole system before which a model is not worth sending


@dataclass(frozen=True)
class Options(Common):
    """Bytes a round (none: no limit), d, b bits a value (none: exact), forgetting and the guess."""

    name: ClassVar[str] = "memofed"
    learners: ClassVar[Learns] = "linear"
    knob: ClassVar[Knob | None] = Knob("budget", bytes=True)
    steps: ClassVar[bool] = False
    selects: ClassVar[bool] = True
    budget: float | None = 160.0
    size: int = 80
    bits: int | None = 4
    forget: float = 1.0
    ridge: float = 1.0
    inputs: Literal["signal", "columns"] = "signal"
    spread: float = 1.0  # the guess of the inputs' covariance: the variance of each,
    correlation: float = 0.5  # and the correlation of any two
    curvature: Literal["moments", "unit"] = "moments"
    basis: Literal["whitened", "none"] = "whitened"
    guard: bool = True  # whether kappa may grow
    silent: int = SILENT

    def describe(self) -> str:
        """The traffic, and what differs from the defaults."""
        budget = "" if self.budget is None else f" {self.budget:g} B a round"
        forget = f", forgets {self.forget:g}" if self.forget < 1 else ""
        return f"MEMO-Fed{budget}{forget}"

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


class Method(Plain):
    """The equations above; values travel in b bits as differences to references at both ends.

    Both ends agree on the references although messages get lost. The server changes its own only
    when a round is folded. A download says whether the number of folded contacts is odd. A client
    that has counted one contact too many undoes the last one.
    """

    idle = True
    lazy = True

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.options, self.bits, self.forget = options, options.bits, options.forget
        guess = curvature.guess(task.taps, options.spread, options.correlation)
        self.T, penalty = basis.plain(task.dim)
        if options.basis == "whitened":
            R = task.features.correlation(np.zeros(task.taps), guess)
            self.T, penalty = basis.whitened(R, options.size)
        self.size = len(penalty)
        self.prior = options.ridge * penalty
        signal = options.inputs == "signal"
        # The curvature decides the speed, not the result: the precision of the task is enough.
        T = self.T.astype(task.dtype)
        self.curvature = curvature.Curvature(task.features, T, guess, signal)
        self.tells = options.curvature == "moments"
        self._sizes = self._bytes(up=False), self._bytes(up=True)
        self._bases: dict[Any, Array] = {}
        self._offers: dict[int, tuple[int, bytes, Array]] = {}

    # What a contact costs, and who is contacted.

    def cohort(self, n: int, server: State) -> Indices:
        """Those of S_n that were heard least recently, as many as the unused budget allows."""
        members = super().cohort(n, server)
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
        """Bytes of a contact with client k."""
        contacts = int(server["contacts"][k])
        down, up = self._sizes
        down = len(payload.NOTHING) if self._is_silent(server, contacts) else down
        return down + up + 2 * self.curvature.numbers * self._more(contacts)

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
            "now": np.zeros((), np.int64), "spent": np.zeros(()),
        }  # fmt: skip

    def client(self, k: int) -> State:
        """A_k, q_k, n_k, sums of the inputs, r_k and h_k, and both before the last contact."""
        d, L = self.size, self.task.taps
        return {
            "A": np.zeros((d, d)), "q": np.zeros(d), "n": np.zeros(()), "s": np.zeros(L),
            "C": np.zeros((L, L)), "r": np.zeros(d), "h": np.zeros(d), "old_r": np.zeros(d),
            "old_h": np.zeros(d), "contacts": np.zeros((), np.int64),
        }  # fmt: skip

    # The client.

    def learn(self, client: State, x: Array, z: Array, y: Any) -> None:
        """A_k <- beta A_k + u u^T, q_k <- beta q_k + u y, n_k <- beta n_k + 1, and the inputs."""
        x, u = x.astype(np.float64), z.astype(np.float64) @ self.T
        news = {"A": u[..., :, None] * u[..., None, :], "q": u * np.asarray(y)[..., None],
                "n": 1.0, "s": x, "C": x[..., :, None] * x[..., None, :]}  # fmt: skip
        for name, new in news.items():
            client[name] *= self.forget
            client[name] += new

    def absorb(self, client: State, x: Array, z: Array, y: Array) -> None:
        """`learn` for many samples of one client, one after the other."""
        count, u = len(y), z @ self._basis(z.dtype)
        left, weighed, inputs, total = u.T, y, x.T, float(count)
        if self.forget < 1:
            past = self.forget ** np.arange(count - 1.0, -1, -1)
            left, weighed, inputs, total = u.T * past, y * past, x.T * past, past.sum()
            for name in ("A", "q", "n", "s", "C"):
                client[name] *= self.forget**count
        client["A"] += left @ u
        client["q"] += weighed @ u
        client["n"] += total
        client["s"] += inputs.sum(axis=1)
        client["C"] += inputs @ x

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
        if len(message):
            client["r"] += self._restore(message[1:])

    def upload(self, client: State, k: int, n: int) -> Message:
        """Q(g_k + r_k - h_k), and at some contacts the moments of the inputs."""
        r, h = client["r"], client["h"]
        if client["contacts"] == 0:
            h[:] = r
        count = max(float(client["n"]), 1.0)
        g = (client["q"] - client["A"] @ r) / count
        values = self._quantise(g + r - h)
        h += self._restore(values)
        told = self._more(int(client["contacts"]))
        client["contacts"] += 1
        if not told:
            return values
        moments = self.curvature.moments(client["s"] / count, client["C"] / count)
        return np.concatenate([values, moments])

    # The server.

    def download(self, server: State, k: int, n: int) -> Message:
        """Whether the contacts folded so far are odd, and Q(c - r_k)."""
        contacts = int(server["contacts"][k])
        if self._is_silent(server, contacts):
            return np.empty(0)
        away = server["c"] - server["r"][k]
        offered, known = self._offers.get(k), away.tobytes()
        if offered is not None and offered[:2] == (n, known):
            return offered[2]  # asked for again, as when the round is folded
        message = np.concatenate(([contacts % 2], self._quantise(away)))
        self._offers[k] = n, known, message
        return message

    def downloads(self, k: int, n: int) -> tuple[int | None, ...]:
        """No message while there is no useful model, or the bit and d values."""
        return 0, 1 + self._entries

    def own(self, client: State) -> Message:
        """T r_k: the model that came down last."""
        return (self.T @ client["r"]).astype(self.task.dtype)

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None:
        """The quadratic of each client that was heard replaces its old one; c minimises the sum."""
        heard = {k: m for k, m in uploads.items() if m is not None}
        if not heard:
            return
        if self.forget < 1:
            fade = self.forget ** (n - int(server["now"]))
            for name in ("sum_B", "sum_Br", "sum_g", "weight"):
                server[name] *= fade
        server["now"][...] = n
        down = {k: self.download(server, k, n) for k in heard}
        for k, message in heard.items():
            server["spent"] += self._cost(server, k)
            self._hear(server, k, n, down[k], message)
        true, assumed = server["secant"].tolist()
        ratio = SAFE * true / assumed if self.options.guard and assumed > 0 else 1.0
        kappa = max(1.0, ratio, RELEASE * float(server["kappa"]))
        server["kappa"][...] = kappa
        b = server["sum_g"] + kappa * server["sum_Br"]
        server["c"][:] = quadratics.minimum(server["sum_B"], kappa, self.prior, b)

    def _hear(self, server: State, k: int, n: int, down: Message, message: Array) -> None:
        """Client k at its new reference, sometimes with a new B_k; its part of the sums."""
        count, weight = _count(self.forget, n + 1), float(server["weight"][k])
        r, h, g, B, Br = (server[name][k] for name in ("r", "h", "g", "B", "Br"))
        first, told = not server["contacts"][k], len(message) > self._entries
        dr = self._restore(down[1:]) if down is not None and len(down) else np.zeros(self.size)
        r += dr
        if first:
            h[:], B[:] = r, np.eye(self.size) / self.step
        h += self._restore(message[: self._entries])
        if told:
            server["sum_B"] -= weight * B
            B[:] = self.curvature.matrix(message[self._entries :], count)
            B += DAMP * np.eye(self.size)
            server["sum_B"] += weight * B
        sums = quadratics.Quadratic(server["sum_B"], server["sum_g"], server["sum_Br"])
        old = quadratics.Quadratic(B, g, Br)
        true, assumed = quadratics.renew(sums, weight, count, old, r, h - r, dr)
        if not (first or told):
            # Averaged over recent contacts, so that new samples average out.
            server["secant"] *= 1 - 1 / max(RECENT * self.task.clients, 1)
            server["secant"] += -count * true, count * assumed
        server["weight"][k], server["heard"][k] = count, n
        server["contacts"][k] += 1

    def models(self, server: State, clients: State) -> Array:
        """w = T c."""
        return (self.T @ server["c"]).astype(self.task.dtype)

    # Values on the wire.

    def _quantise(self, v: Array) -> Array:
        return v if self.bits is None else coding.compand(v, self.bits)

    def _restore(self, values: Array) -> Array:
        return values if self.bits is None else coding.expand(values, self.bits)

    @property
    def _entries(self) -> int:
        """Entries of an array that stands for d values."""
        return self.size + (self.bits is not None)

    def _bytes(self, up: bool) -> int:
        """Bytes of d values; a scale and the bit about contacts share one byte."""
        if self.bits is None:
            return self.size * payload.size(self.task.wire) + (not up)
        return 1 + ceil(self.size * self.bits / 8)

    def lengths(self, n: int) -> tuple[int, ...] | None:
        return self._entries, self._entries + self.curvature.numbers

    def encode(self, message: Array, up: bool) -> bytes:
        """d values in b bits under one scale; down: and a bit; up: moments in half precision."""
        if not len(message):
            return payload.NOTHING
        odd, rest = (0, message) if up else (int(message[0]), message[1:])
        values, more = rest[: self._entries], rest[self._entries :]
        if self.bits is None:
            data = (b"" if up else bytes([odd])) + payload.encode(values, self.task.wire)
        else:
            scale = int(values[0]) + SCALES
            data = bytes([2 * scale + odd]) + coding.pack(values[1:], self.bits)
        return data + payload.encode(more, "float16")

    def decode(self, data: bytes, up: bool) -> Array:
        if data == payload.NOTHING:
            return np.empty(0)
        here = self._bytes(up)
        if self.bits is None:
            head = [] if up else [data[0]]
            values = payload.decode(data[len(head) : here], self.task.wire)
        else:
            head = [] if up else [data[0] % 2]
            codes = coding.unpack(data[1:here], self.bits, self.size)
            values = np.concatenate([[data[0] // 2 - SCALES], codes])
        more = payload.decode(data[here:], "float16")
        if len(more) not in (0, self.curvature.numbers):
            raise ValueError(f"{len(more)} moments came")
        return np.concatenate([head, values, more])


def _count(forget: float, samples: int) -> float:
    """n_k after a number of samples: the sum of the powers of beta."""
    return float(samples) if forget == 1 else (1 - forget**samples) / (1 - forget)

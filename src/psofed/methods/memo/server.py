"""What the server of MEMO-Fed does: whom it asks, what it sends, and how it folds the answers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from psofed.core import native, payload
from psofed.core.native import Array
from psofed.core.schedule import Indices
from psofed.methods.memo.messages import Curvature, Values, whitening

State = dict[str, Array]

RECENT = 0.5  # contacts per client over which kappa is measured
SAFE = 0.6  # of the measured curvature: Newton steps tolerate almost a factor of two
RELEASE = 0.99  # of kappa is kept from one fold to the next

OUT = 10.0  # times what is too far, from which on nothing counts
LEAST = 3  # known clients that a review needs
UNLIKE = 3.0  # how far the size of a client's inputs, as it reports it, may excuse it
OFTEN = 20  # reviews for every K contacts, at most


class Quadratic(NamedTuple):
    """The loss of a client near its reference r, or the sum of many: curvature, gradient, B r."""

    B: Array  # [d, d]
    g: Array  # [d]
    Br: Array  # [d]


def renew(
    sums: Quadratic, weight: float, count: float, old: Quadratic, r: Array, g: Array, dr: Array
) -> tuple[float, float]:
    """A client, so far with this weight in the sums, has the gradient g at r, and a new weight.

    The sums and its quadratic change in place. Returns dr^T dg and dr^T B dr, where r has moved by
    dr and the gradient by dg.
    """
    if not native.available():
        return renew_in_numpy(sums, weight, count, old, r, g, dr)
    found = np.empty(2)
    given = *sums, *old, r, g, dr, found, float(weight), float(count), len(r)
    native.function("renew")(*given)
    true, assumed = found.tolist()
    return true, assumed


def renew_in_numpy(
    sums: Quadratic, weight: float, count: float, old: Quadratic, r: Array, g: Array, dr: Array
) -> tuple[float, float]:
    """`renew` in NumPy."""
    sum_B, sum_g, sum_Br = sums
    Br = old.B @ r
    sum_B += (count - weight) * old.B
    sum_g += count * g - weight * old.g
    sum_Br += count * Br - weight * old.Br
    seen = float(dr @ (g - old.g)), float(dr @ (Br - old.Br))
    old.g[:], old.Br[:] = g, Br
    return seen


def effective(beta: float, samples: float) -> float:
    """n_k after a number of samples: the sum of the powers of beta."""
    return float(samples) if beta == 1 else (1 - beta**samples) / (1 - beta)


def minimum(A: Array, factor: float, prior: Array, b: Array) -> Array:
    """c = (factor A + diag(prior))^-1 b."""
    found, dim = np.empty_like(b), len(b)
    size = -(-dim // 4) * 4
    if native.available():
        memory = np.empty((size, size))
        if native.function("minimise")(A, prior, b, found, memory, size, dim, float(factor)):
            return found
    found[:] = np.linalg.solve(factor * A + np.diag(prior), b)
    return found


class MemoServer:
    """The quadratics of K clients, and the minimum c of their sum; a sample a round is counted."""

    def __init__(
        self, options: Any, values: Values, curvature: Curvature, prior: Array, clients: int,
        least: int, begin: int,
    ) -> None:  # fmt: skip
        self.values, self.curvature, self.prior, self.begin = values, curvature, prior, begin
        self.clients, self.least, self.beta = clients, least, options.forget
        self.silent = options.silent
        robust = None if options.clip is None else RobustWeights(clients, options.clip / 2)
        self.robust = robust
        self._sizes = self.values.nbytes(up=False), self.values.nbytes(up=True)
        self._fading = "sum_B", "sum_Br", "sum_g", "weight", *(["due"] if robust else [])
        self._offers: dict[int, tuple[int, bytes, Array]] = {}

    def start(self, places: int) -> State:
        """c, kappa and the sums; of every client B_k, V_k, g_k, r_k, h_k, and when it was heard."""
        K, d = places, self.values.size
        return {
            "c": np.zeros(d), "kappa": np.ones(()), "secant": np.zeros(2),
            "sum_B": np.zeros((d, d)), "sum_Br": np.zeros(d), "sum_g": np.zeros(d),
            "B": np.tile(np.eye(d), (K, 1, 1)), "V": np.tile(np.eye(d), (K, 1, 1)),
            "Br": np.zeros((K, d)), "g": np.zeros((K, d)), "r": np.zeros((K, d)),
            "h": np.zeros((K, d)), "share": np.ones(K), "weight": np.zeros(K),
            "contacts": np.zeros(K, np.int64), "heard": np.full(K, -1),
            "now": np.zeros((), np.int64), "spent": np.zeros(()),
            **(self.robust.server(K, d) if self.robust else {}),
        }  # fmt: skip

    def rounds(self, n: int) -> float:
        """n_k of a client with a sample in every round up to n."""
        return effective(self.beta, n + 1 - self.begin)

    # What a contact costs, and who is contacted.

    def chosen(self, state: State, members: Indices, n: int, budget: float | None) -> Indices:
        """Those of S_n that were heard least recently, as many as the unused budget allows."""
        rounds = n + 1 - self.begin
        members = members[(state["contacts"][members] > 0) | (rounds >= self.least)]
        if budget is None:
            return members
        left = budget * rounds - state["spent"]
        chosen = []
        for k in members[np.argsort(state["heard"][members], kind="stable")].tolist():
            left -= self._cost(state, k)
            if left < 0:
                break
            chosen.append(k)
        return np.array(sorted(chosen), np.intp)

    def _cost(self, state: State, k: int) -> int:
        """Bytes of a contact with client k, at most."""
        return self._down(state, k) + self._sizes[1] + 2 * self._most(int(state["contacts"][k]))

    def _most(self, contacts: int) -> int:
        """Numbers that a client may report with its values."""
        return max(self.values.reported) if self.values.due(contacts) else 0

    def _down(self, state: State, k: int) -> int:
        """Bytes that go down to client k."""
        silent = self._is_silent(state, int(state["contacts"][k]))
        return len(payload.NOTHING) if silent else self._sizes[0]

    def _is_silent(self, state: State, contacts: int) -> bool:
        """Whether a client of so many contacts gets no model yet."""
        return contacts == 0 and bool(state["contacts"].sum() < self.silent)

    # What is sent, and what is done with the answers.

    def offer(self, state: State, k: int, n: int) -> Array:
        """Whether the contacts of client k folded so far are odd, and Q(V_k B_k (c - r_k))."""
        contacts = int(state["contacts"][k])
        if self._is_silent(state, contacts):
            return np.empty(0)
        away = state["c"] - state["r"][k]
        offered, known = self._offers.get(k), away.tobytes()
        if offered is not None and offered[:2] == (n, known):
            return offered[2]  # asked for again, as when the round is folded
        scaled = state["V"][k] @ (state["B"][k] @ away)
        message = np.concatenate(([contacts % 2], self.values.quantise(scaled)))
        self._offers[k] = n, known, message
        return message

    def fold(self, state: State, n: int, uploads: dict[int, Array]) -> None:
        """The quadratic of each client that was heard replaces its old one; c minimises the sum."""
        down = {k: self.offer(state, k, n) for k in uploads}
        for k, message in uploads.items():
            if not len(message):  # too few samples: this costs bytes, and others come first
                state["spent"] += self._down(state, k) + self.values.uploaded(0)
                state["heard"][k] = n
        heard = [k for k, message in uploads.items() if len(message)]
        if not heard:
            return
        self._fade(state, n)
        for k in heard:
            state["spent"] += self._down(state, k) + self.values.uploaded(len(uploads[k]))
            self._hear(state, k, n, down[k], uploads[k])
        if self.robust:
            self.robust.review(state)
        self._minimise(state)

    def _fade(self, state: State, n: int) -> None:
        """All weights, and the sums with them, by beta for each round since the last fold."""
        if self.beta < 1:
            fade = self.beta ** (n - int(state["now"]))
            for name in self._fading:
                state[name] *= fade
        state["now"][...] = n

    def _hear(self, state: State, k: int, n: int, down: Array, message: Array) -> None:
        """Client k at its new reference, sometimes with a new B_k; its part of the sums."""
        values, reported = np.split(message, [self.values.entries])
        weight = float(state["weight"][k])
        r, h, g, B, Br, V = (state[name][k] for name in ("r", "h", "g", "B", "Br", "V"))
        first, moved = not state["contacts"][k], np.zeros(len(r))
        if len(down):
            moved = self.values.restore(down[1:])
        dr = V.T @ moved
        r += dr
        h += self.values.restore(values) - (0 if first else moved)
        new = B @ (V.T @ h)
        if len(reported):
            state["share"][k] = np.clip(reported[0], 0, 1)
        count = float(state["share"][k]) * self.rounds(n)
        if len(reported):
            state["sum_B"] -= weight * B
            B[:] = self.curvature.matrix(reported[1:], count)
            V[:] = whitening(B)
            h[:] = V @ new
            state["sum_B"] += weight * B
        sums = Quadratic(state["sum_B"], state["sum_g"], state["sum_Br"])
        old = Quadratic(B, g, Br)
        if self.robust:
            count = self.robust.hear(state, k, count, r, new)
        true, assumed = renew(sums, weight, count, old, r, new, dr)
        if not first and not len(reported):
            # Averaged over recent contacts, so that new samples average out.
            state["secant"] *= 1 - 1 / (1 + RECENT * self.clients)
            state["secant"] += -count * true, count * assumed
        state["weight"][k], state["heard"][k] = count, n
        state["contacts"][k] += 1

    def _minimise(self, state: State) -> None:
        """kappa, which grows with the measured curvature, then c."""
        true, assumed = state["secant"].tolist()
        ratio = SAFE * true / assumed if assumed > 0 else 1.0
        kappa = max(1.0, ratio, RELEASE * float(state["kappa"]))
        state["kappa"][...] = kappa
        b = state["sum_g"] + kappa * state["sum_Br"]
        state["c"][:] = minimum(state["sum_B"], kappa, self.prior, b)


class RobustWeights:
    """The defence clip for a server that remembers a quadratic of every client: weights a_k.

    Every quadratic has a gradient at the server's model c,

        G_k = g_k + kappa B_k (r_k - c)

    and honest clients of one task have similar ones: at the optimum they differ by noise, which
    falls with the number n_k of samples and grows with the size of their inputs. A client that
    learns something else has another gradient for ever. So at each review m is the median of all
    G_k, entry by entry, and a client is as far away as f_k = |G_k - m| min(1, sqrt(n_k / n)) /
    sqrt(t_k). Here n is the median of the n_k, and t_k the trace of B_k over its median, from 1/3
    to 3. s is the median of the f_k.

    Weight. n_k is multiplied by 1 up to f_k = L s, L half of the option `clip`, then by the square
    of L s / f_k, and from ten times that on by 0: what the client said is out of all sums, but it
    stays known. Whoever is heard is judged before it counts, so that no single message moves the
    model far. All are judged again at every review, and so come back when they behave, or when
    others agree.

    In the server's state n_k is `due`, a_k is `trust`, and a_k n_k is its `weight`.
    """

    def __init__(self, clients: int, limit: float) -> None:
        self.often, self.limit = max(clients // OFTEN, 1), limit

    def server(self, clients: int, size: int) -> State:
        """Everybody is trusted, and nothing is known."""
        return {
            "due": np.zeros(clients), "trust": np.ones(clients), "middle": np.zeros(size),
            "usual": np.zeros(()), "many": np.ones(()), "trace": np.ones(()),
            "unseen": np.zeros((), np.int64),
        }  # fmt: skip

    def hear(self, server: State, k: int, count: float, r: Array, g: Array) -> float:
        """a_k n_k of a client with n_k samples and the gradient g at r."""
        B = server["B"][k]
        G = g + float(server["kappa"]) * (B @ (r - server["c"]))
        server["due"][k] = count
        a = self._weights(server, np.array([k]), G[None])[0]
        server["trust"][k] = a
        server["unseen"] += 1
        return float(a * count)

    def review(self, server: State) -> None:
        """Everybody's weight, once in a while; the sums follow."""
        whole = server["trust"] == 1
        server["due"][:] = np.where(whole, server["weight"], server["due"])
        known = np.flatnonzero(server["due"] > 0)
        if len(known) < LEAST or server["unseen"] < self.often:
            return
        server["unseen"][...] = 0
        bend = server["Br"][known] - server["B"][known] @ server["c"]
        G = server["g"][known] + float(server["kappa"]) * bend
        server["middle"][:] = np.median(G, axis=0)
        server["many"][...] = np.median(server["due"][known])
        server["trace"][...] = np.median(_traces(server, known))
        server["usual"][...] = np.median(self._far(server, known, G))
        a = self._weights(server, known, G)
        more = a * server["due"][known] - server["weight"][known]
        for name in ("B", "g", "Br"):
            server[f"sum_{name}"] += np.tensordot(more, server[name][known], 1)
        server["weight"][known] += more
        server["trust"][known] = a

    def _far(self, server: State, k: Array, G: Array) -> Array:
        """f_k."""
        few = np.minimum(1.0, np.sqrt(server["due"][k] / server["many"]))
        large = np.clip(_traces(server, k) / server["trace"], 1 / UNLIKE, UNLIKE)
        return np.linalg.norm(G - server["middle"], axis=-1) * few / np.sqrt(large)

    def _weights(self, server: State, k: Array, G: Array) -> Array:
        usual = float(server["usual"])
        if not usual > 0:  # nothing is known, or all say the same
            return np.ones(len(k))
        far = self._far(server, k, G) / (self.limit * usual)
        return np.where(far > 1, np.where(far < OUT, np.maximum(far, 1.0) ** -2, 0.0), 1.0)


def _traces(server: State, k: Array) -> Array:
    """Of B_k, for clients k [s]."""
    return np.trace(server["B"][k], axis1=1, axis2=2)

"""What MEMO-Fed remembers: sums over a client's samples, and how both ends forget the old ones.

A client adds up A = sum u u^T, q = sum u y, n and sums of the inputs. By default the same part of
everything is forgotten in every round; adaptively, clients and server decide it from the data.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.schedule import Indices

Array = NDArray[Any]
State = dict[str, Array]
SUMS = "A", "q", "n", "s", "C"

# The client's part.
RISE = 1.5  # rho
LIMIT = 40.0  # of S
CLIP = 9.0  # times the level: a larger squared error counts as this
WARM = 32  # samples that a level takes
LONG = 1000.0  # samples over which it is then averaged
BETTER = 2.0  # standard errors by which the errors of a contact are below a level that is too high

# The server's part.
VOTES = 9  # contacts whose median says since when clients remember
SLOW = 32  # rounds in which a client may not have found a change yet
BLOCK = 50
STARTS, STOPS = 0.6, 0.2  # cosines at which a drift begins and ends
TURNS = 3  # blocks in a row at which c has to go on, for a drift to begin
FAR = 0.003  # of the length of c: a shorter way is none
HEARD = 2  # contacts for each client before which c moves because it is new
SHORT = 100.0  # but at least twice as many as leave a client


def empty(size: int, taps: int) -> State:
    """A, q and n, and of the inputs s = sum x and C = sum x x^T."""
    A, C = np.zeros((size, size)), np.zeros((taps, taps))
    return {"A": A, "q": np.zeros(size), "n": np.zeros(()), "s": np.zeros(taps), "C": C}


def scale(sums: State, part: float) -> None:
    """Keep a part of all of them, or nothing, whatever they are."""
    for name in SUMS:
        sums[name][...] = sums[name] * part if part else 0.0


def add(sums: State, x: Array, u: Array, y: Array, beta: float) -> None:
    """A <- beta A + u u^T, q <- beta q + u y, n <- beta n + 1, and the inputs: one sample.

    Or one of each of several clients: all arrays then have a leading axis.
    """
    squares, inputs = (v[..., :, None] * v[..., None, :] for v in (u, x))
    news = {"A": squares, "q": u * y[..., None], "n": 1.0, "s": x, "C": inputs}
    for name, new in news.items():
        sums[name] *= beta
        sums[name] += new


def add_many(sums: State, x: Array, u: Array, y: Array, beta: float) -> None:
    """`add` for samples x [T, L], u [T, d] and y [T], one after another."""
    count = len(y)
    left, weighed, inputs, total = u.T, y, x.T, float(count)
    if beta < 1:
        past = beta ** np.arange(count - 1.0, -1, -1)
        left, weighed, inputs, total = u.T * past, y * past, x.T * past, past.sum()
        scale(sums, beta**count)
    sums["A"] += left @ u
    sums["q"] += weighed @ u
    sums["n"] += total
    sums["s"] += inputs.sum(axis=1)
    sums["C"] += inputs @ x


class Forgetting:
    """n_k <- beta n_k + 1 at the client; the server counts a sample a round."""

    def __init__(self, beta: float, least: int) -> None:
        self.beta, self.least = beta, least

    # The client.

    def client(self, size: int) -> State:
        """What a client keeps for it."""
        return {}

    def of(self, client: State) -> float:
        """The beta of this client."""
        return self.beta

    def drops(self, client: State, u: Array, y: Array) -> int:
        """How many of these samples are dropped, with all before them."""
        return 0

    def receives(self, client: State, lost: bool, drifts: bool) -> None:
        """A download has come; the contact before it may not have counted."""

    def tells(self, client: State) -> bool:
        """An upload leaves: whether with the number of samples."""
        return False

    # The server.

    def server(self, clients: int, size: int) -> State:
        """What the server keeps for it."""
        return {}

    def now(self, server: State) -> float:
        """The beta by which all weights fade from round to round."""
        return self.beta

    def drifts(self, server: State) -> bool:
        """Whether clients are told that f drifts."""
        return False

    def ready(self, server: State, members: Indices, n: int) -> Array:
        """Which of them have enough samples, as far as the server can know."""
        ready: Array = (server["contacts"][members] > 0) | (n + 1 >= self.least)
        return ready

    def waits(self, server: State, k: int, n: int, told: float | None) -> None:
        """A client had too few samples in round n, and may have told how many."""

    def hear(self, server: State, k: int, n: int, told: float | None, drifts: bool) -> float:
        """n_k of a client that has answered in round n, perhaps with its number of samples."""
        return effective(self.beta, n + 1)

    def discount(self, server: State) -> None:
        """What is still remembered of clients that have not answered lately may weigh less."""

    def follow(self, server: State, n: int) -> None:
        """The server has a new c."""


def effective(beta: float, samples: float) -> float:
    """n_k after a number of samples: the sum of the powers of beta."""
    return float(samples) if beta == 1 else (1 - beta**samples) / (1 - beta)


def lower(server: State, which: Array, part: float) -> None:
    """The weights of these clients become a part of what they were, and the sums with them."""
    less = (1 - part) * server["weight"][which]
    server["weight"][which] -= less
    for name in ("B", "g", "Br"):
        server[f"sum_{name}"] -= np.tensordot(less, server[name][which], 1)


class AdaptiveForgetting(Forgetting):
    """The rules above, on top of a fixed beta."""

    def __init__(self, beta: float, least: int) -> None:
        super().__init__(beta, least)
        self.short = max(SHORT, 2.0 * least)
        self.fast = min(beta, 1 - 1 / self.short)
        self.slope = RISE * log(RISE) / (RISE - 1)

    # The client.

    def client(self, size: int) -> State:
        """The model that it judges by; level, its weight, S, sum and number of e^2; flags."""
        names = "dropped", "told", "asked", "drifts"
        flags = {name: np.zeros((), np.int64) for name in names}
        return {"known": np.zeros(size), "watch": np.zeros(5), **flags}

    def of(self, client: State) -> float:
        """The beta of this client."""
        return self.fast if client["drifts"] else self.beta

    def drops(self, client: State, u: Array, y: Array) -> int:
        """CUSUM: how many of these samples are dropped, with all before them."""
        dropped = self._alarm(client["watch"], y - u @ client["known"])
        if dropped:
            client["dropped"][...] = 1
            scale(client, 0.0)
        return dropped

    def _alarm(self, watch: Array, errors: Array) -> int:
        """The number of the last of these errors at which S passed its limit, from 1 on, or 0."""
        level, weight, S, total, seen = watch.tolist()
        last = 0
        for i, square in enumerate(np.square(errors, dtype=np.float64).tolist(), 1):
            total, seen, weight = total + square, seen + 1, min(weight + 1, LONG)
            if weight <= WARM or level == 0:
                level += (square - level) / weight
                continue
            x = min(square / level, CLIP)
            level += level * (x - 1) / weight
            S = max(0.0, S + x - self.slope)
            if S > LIMIT:  # the model that it knows is out of date, and so is the level
                last, level, weight, S, total, seen = i, 0.0, 0.0, 0.0, 0.0, 0.0
        watch[:] = level, weight, S, total, seen
        return last

    def receives(self, client: State, lost: bool, drifts: bool) -> None:
        """A download has come; what a lost contact has told is told again."""
        if lost:
            client["dropped"] |= client["told"]
        client["asked"][...] = drifts

    def tells(self, client: State) -> bool:
        """An upload leaves: whether with the number of samples. It judges by its new model now."""
        level, weight, S, total, seen = client["watch"].tolist()
        # The squares of normal errors have the standard deviation sqrt(2), over their mean.
        if seen >= WARM and total / seen < level * (1 - BETTER * sqrt(2 / seen)):
            level, weight, S = total / seen, seen, 0.0
        client["watch"][:] = level, weight, S, 0.0, 0.0
        client["known"][:] = client["r"]
        client["told"][...], client["drifts"][...] = client["dropped"], client["asked"]
        client["dropped"][...] = 0
        if client["drifts"] and client["n"] > self.short:
            scale(client, self.short / float(client["n"]))
        return bool(client["told"])

    # The server.

    def server(self, clients: int, size: int) -> State:
        """Of every client n_k, since when it remembers, whether it forgets; votes; the way of c."""
        return {
            "count": np.zeros(clients), "birth": np.zeros(clients, np.int64),
            "fades": np.zeros(clients, np.int64), "votes": np.zeros(VOTES, np.int64),
            "trail": np.zeros((2, size)), "mark": np.zeros((), np.int64),
            "straight": np.zeros((), np.int64), "drifts": np.zeros((), np.int64),
        }  # fmt: skip

    def now(self, server: State) -> float:
        """The beta by which all weights fade from round to round."""
        return self.fast if server["drifts"] else self.beta

    def drifts(self, server: State) -> bool:
        """Whether clients are told that f drifts."""
        return bool(server["drifts"])

    def ready(self, server: State, members: Indices, n: int) -> Array:
        """Which of them have enough samples, as far as the server can know."""
        ready: Array = n + 1 - server["birth"][members] >= self.least
        return ready

    def waits(self, server: State, k: int, n: int, told: float | None) -> None:
        """A client has dropped its statistics, and has too few new samples: so does the server."""
        if told is not None:
            self._vote(server, k, n, told)
            lower(server, np.array([k]), 0.0)

    def hear(self, server: State, k: int, n: int, told: float | None, drifts: bool) -> float:
        """n_k of a client that has answered in round n, perhaps with its number of samples."""
        count = self._vote(server, k, n, told)
        server["fades"][k], server["count"][k] = drifts, min(count, self.short) if drifts else count
        return count

    def _vote(self, server: State, k: int, n: int, told: float | None) -> float:
        """n_k, and since when client k remembers; what it tells can only make it count less."""
        since = n - int(server["heard"][k])
        beta = self.fast if server["fades"][k] else self.beta
        count = float(server["count"][k]) * beta**since + effective(beta, since)
        if told is not None:
            count = min(count, told)
            server["birth"][k] = max(n + 1 - round(told), int(server["birth"][k]))
        server["count"][k] = count
        server["votes"][:-1] = server["votes"][1:]
        server["votes"][-1] = server["birth"][k]
        return count

    def discount(self, server: State) -> None:
        """Clients that were not heard since most remember together weigh d, or less."""
        since, most = int(np.median(server["votes"])), len(server["c"])
        old = (server["birth"] < since) & (server["heard"] < since + SLOW)
        stale = np.flatnonzero(old & (server["weight"] > 0))
        total = float(server["weight"][stale].sum())
        if total > most:
            lower(server, stale, most / total)

    def follow(self, server: State, n: int) -> None:
        """Every BLOCK rounds: does c go on in the direction in which it went before?"""
        if n - int(server["mark"]) < BLOCK:
            return
        first, second = server["trail"]
        before, since = second - first, server["c"] - second
        a, b, far = (float(np.linalg.norm(way)) for way in (before, since, FAR * server["c"]))
        cosine = float(before @ since) / (a * b) if min(a, b) > far else 0.0
        new = server["contacts"].sum() < HEARD * np.count_nonzero(server["contacts"])
        goes_on = not new and cosine > (STOPS if server["drifts"] else STARTS)
        server["straight"][...] = server["straight"] + 1 if goes_on else 0
        server["drifts"][...] = server["straight"] >= (1 if server["drifts"] else TURNS)
        server["trail"][:] = second, server["c"]
        server["mark"][...] = n

"""Trust: how much the quadratic of each client counts at a server that expects malicious ones.

This is the defence clip for a server that remembers a quadratic of every client, instead of
folding changes. Every quadratic has a gradient at the server's model c,

    G_k = g_k + kappa B_k (r_k - c)

and honest clients of one task have similar ones: at the optimum they differ by noise, which falls
with the number n_k of samples and grows with the size of their inputs. A client that learns
something else has another gradient for ever. So at each review m is the median of all G_k, entry by
entry, and a client is as far away as f_k = |G_k - m| min(1, sqrt(n_k / n)) / sqrt(t_k). Here n is
the median of the n_k, and t_k the trace of B_k over its median, from 1/3 to 3. s is the median of
the f_k.

Weight. n_k is multiplied by 1 up to f_k = L s, L half of the option `clip`, then by the square of
L s / f_k, and from ten times that on by 0: what the client said is out of all sums, but it stays
known. Whoever is heard is judged before it counts, so that no single message moves the model far.
All are judged anew at every review, and so come back when they behave, or when others agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.defences import clip
from psofed.methods.contract import Task

Array = NDArray[Any]
State = dict[str, Array]

OUT = 10.0  # times what is too far, from which on nothing counts
LEAST = 3  # clients that have to be known before anybody is judged
UNLIKE = 3.0  # how far the size of a client's inputs, as it tells it, may excuse it
OFTEN = 20  # reviews for every K contacts, at most


class Trust:
    """The weights a_k; in the server's state n_k is `due`, and a_k n_k its `weight`."""

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

    def review(self, server: State, before: Array) -> None:
        """Everybody's weight, once in a while; the sums follow. `before`: weights, undiscounted."""
        part = np.divide(server["weight"], before, where=before > 0, out=np.ones_like(before))
        whole = server["trust"] == 1
        server["due"][:] = np.where(whole, server["weight"], server["due"] * part)
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
        far: Array = np.linalg.norm(G - server["middle"], axis=-1) * few / np.sqrt(large)
        return far

    def _weights(self, server: State, k: Array, G: Array) -> Array:
        usual = float(server["usual"])
        if not usual > 0:  # nothing is known, or all say the same
            return np.ones(len(k))
        far = self._far(server, k, G) / (self.limit * usual)
        return np.where(far > 1, np.where(far < OUT, np.maximum(far, 1.0) ** -2, 0.0), 1.0)


def _traces(server: State, k: Array) -> Array:
    """Of B_k, for clients k [s]."""
    return np.trace(server["B"][k], axis1=1, axis2=2)


def start(task: Task) -> Trust | None:
    """For a server whose task has the defence; else None."""
    options = None if task.defence is None else task.defence.options
    return Trust(task.clients, options.clip / 2) if isinstance(options, clip.Options) else None

"""Importance sampling: clients with large updates are asked more often, a_k = 1/(K pi_k).

Source: E. Rizk, S. Vlaski, A. H. Sayed, "Optimal importance sampling for federated learning",
ICASSP 2021, arXiv 2010.13600. It is likely what the paper calls ISFedAvg; its bibliography is not
at hand.

Faithful: clients are drawn without replacement, with probabilities that grow with the norms of
their gradients, and weights by 1/(K pi_k) make the update unbiased.

Ours: the norms are those of past uploads, remembered by the server, so that nothing is added to the
traffic; the mixture with the uniform law, which bounds the weights; systematic sampling, which has
the inclusion probabilities exactly. The original also samples within a client's data, which has no
counterpart with one sample a round.

Unverified: the original's closed form; of the paper, only the abstract was at hand.

On the paper's task there is nothing to gain: Online-Fed ends 0.00 (0.05) dB, PSO-Fed with M = 40
0.05 (0.01) dB above itself with uniform cohorts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from psofed.contract import Array, State, UniformCohorts, policies, require

MEMORY = 0.9  # of a client's score is kept when a new one comes


@dataclass(frozen=True)
class Importance(policies.Options):
    """beta, how much scores count: 0 is uniform; weights are at most 1/((1 - beta) s)."""

    name: ClassVar[str] = "importance"
    scores: ClassVar[policies.Scores] = "server"
    beta: float = 0.5  # how much scores count; 0 is uniform

    def describe(self) -> str:
        return f"importance beta={self.beta:g}"

    def check(self, clients: int, cohort: int) -> None:
        """beta is below 1; otherwise some clients would never be asked."""
        require(self, "beta", 0 <= self.beta < 1, "use 0 or more, below 1")


Options = Importance


class Policy(policies.Policy):
    """pi_k = min(1, c p_k), p_k = beta q_k / sum q + (1 - beta) / K, c such that sum pi = s.

    S_n by systematic sampling: clients in random order, and of the cumulative sum of pi those
    where it passes u, u + 1, ..., u + s - 1, u ~ U(0, 1), so that P(k in S_n) = pi_k. Where all
    p_k are equal, the uniform cohort. a_k = 1/(K pi_k) makes the sum of a_k U_k on average the mean
    of U_k over all clients. q_k <- 0.9 q_k + 0.1 |U_k| for k in S_n; q_k = 1 at first.
    """

    def __init__(self, options: Options, federation: policies.PolicyTask) -> None:
        super().__init__(options, federation)
        self.beta = options.beta
        self.uniform = UniformCohorts(self.seeds, self.clients, self.size)

    def start(self) -> State:
        """q_k = 1."""
        return {"q": np.ones(self.clients)}

    def invite(self, state: State, n: int, up_bytes: int, down_bytes: int) -> policies.Invited:
        """S_n."""
        pi = self.chances(state["q"])
        if (pi == pi[0]).all():
            return policies.Invited(self.uniform.cohort(n).tolist())
        order = np.argsort(self.seeds.uniforms("importance order", round=n, count=self.clients))
        start = self.seeds.uniforms("importance start", round=n, count=1)[0]
        return policies.Invited(systematic(pi, order, start))

    def admit(self, state: State, n: int, scores: Mapping[int, float]) -> policies.Admitted:
        """a_k = 1/(K pi_k), with the pi_k with which S_n was drawn; then q_k."""
        q = state["q"]
        pi = self.chances(q)
        for k, score in scores.items():
            q[k] = MEMORY * q[k] + (1 - MEMORY) * policies.sound(score)
        return policies.Admitted({k: 1 / (self.clients * float(pi[k])) for k in scores})

    def chances(self, q: Array) -> Array:
        """pi_k."""
        p = self.beta * q / q.sum() + (1 - self.beta) / self.clients
        return clipped(p, self.size)


def clipped(p: Array, size: int) -> Array:
    """min(1, c p_k) with c such that they sum to `size`.

    >>> clipped(np.array([0.8, 0.1, 0.1]), 2).tolist()
    [1.0, 0.5, 0.5]
    """
    pi = np.ones_like(p)
    free = np.full(len(p), size < len(p))
    while free.any():  # clients at 1 leave more for the others, some of which may then reach 1
        pi[free] = p[free] * (size - np.count_nonzero(~free)) / p[free].sum()
        if not (pi > 1).any():
            break
        free &= pi < 1
        pi[~free] = 1
    return pi


def systematic(pi: Array, order: Array, start: float) -> list[int]:
    """Whom the cumulative sum of pi, in this order, takes past start, start + 1, ...

    >>> systematic(np.array([0.5, 0.5, 0.5, 0.5]), np.array([3, 1, 0, 2]), 0.6)
    [1, 2]
    """
    total = np.cumsum(pi[order])
    size = round(float(total[-1]))
    passed = np.searchsorted(total, start + np.arange(size), side="right")
    # The last sum may be short of `size` by rounding.
    return np.unique(order[np.minimum(passed, len(order) - 1)]).tolist()

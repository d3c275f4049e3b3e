"""Optimal client sampling: many learn, mostly large updates are sent, a_k = 1/(n_a p_k).

Source: W. Chen, S. Horvath, P. Richtarik, "Optimal client sampling for federated learning", TMLR
2022, arXiv 2010.13723. The paper's key FedNu may stand for it, or for "folb"; its bibliography is
not at hand.

Faithful: the probabilities, in the exact form that sorts the norms of the updates, independent
decisions to upload, and the weights.

Ours: the clients that are asked are a uniform cohort; all of them download the model, and these
bytes are counted. With windows, where a client cannot know its U_k, it reports the change of its
whole model.

Unverified: the formulas are from memory; the approximate form, in which only sums pass the server,
is left out.

Clients report the size of their own update, and it decides their weight. A client that is not
trusted could report a false size, so a deployed server refuses this policy.

Online-Fed ends 0.23 (0.03) dB below itself with uniform cohorts. PSO-Fed with M = 40, whose windows
carry more than what was learned last, ends 0.23 (0.20) dB above.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from psofed.contract import Array, InputError, State, UniformCohorts, policies


@dataclass(frozen=True)
class Optimal(policies.Options):
    """n_a clients that are asked, m uploads to expect."""

    name: ClassVar[str] = "optimal"
    scores: ClassVar[policies.Scores] = "client"
    asked: int = 16  # n_a, clients that are asked
    uploads: int = 4  # m, that are expected

    def describe(self) -> str:
        return f"Optimal sampling {self.uploads} of {self.asked}"

    def check(self, clients: int, cohort: int) -> None:
        """Not more uploads than asked, not more asked than there are."""
        if not 1 <= self.asked <= clients:
            found = f"is {self.asked}, but there are only {clients} clients"
            found = found if self.asked > clients else f"is {self.asked}"
            raise InputError("asked", found, f"use 1 to {clients}")
        if not 1 <= self.uploads <= self.asked:
            found = f"is {self.uploads}, but {self.asked} are asked"
            raise InputError("uploads", found, f"use 1 to {self.asked}")


Options = Optimal


class Policy(policies.Policy):
    """p_k = (m + l - n_a) u_k / sum of the l smallest u_j for those l, and 1 for the others.

    u_k is the norm of what k has learned since it was asked; l is the largest number with
    0 < m + l - n_a <= sum of the l smallest u_j / u_(l), so that sum_k p_k = m. The n_a are a
    uniform cohort. Each reports u_k (4 bytes), is told p_k (4 bytes) and uploads with that
    probability. a_k = 1/(n_a p_k), however many do, makes the sum of a_k U_k on average the mean of
    U_k over all clients.
    """

    def __init__(self, options: Options, federation: policies.PolicyTask) -> None:
        super().__init__(options, federation)
        self.size = options.uploads
        self.uniform = UniformCohorts(self.seeds, self.clients, options.asked)

    def invite(self, state: State, n: int, up_bytes: int, down_bytes: int) -> policies.Invited:
        """n_a clients."""
        return policies.Invited(self.uniform.cohort(n).tolist())

    def admit(self, state: State, n: int, scores: Mapping[int, float]) -> policies.Admitted:
        """k with probability p_k, with a_k = 1/(n_a p_k)."""
        norms = np.array([policies.sound(u) for u in scores.values()])
        p = chances(norms, self.size).tolist()
        drawn = self.seeds.uniforms("optimal", client=list(scores), round=n, count=1)[:, 0]
        reported = policies.SCALAR * len(scores)
        weights = {
            k: 1 / (len(scores) * p_k)
            for k, p_k, u in zip(scores, p, drawn.tolist(), strict=True)
            if u < p_k
        }
        return policies.Admitted(weights, reported, reported)


def chances(u: Array, uploads: int) -> Array:
    """p_k, which sum to `uploads`; if all updates are zero, they are equal.

    >>> chances(np.array([1.0, 5.0, 2.0, 1.0]), 2).tolist()
    [0.25, 1.0, 0.5, 0.25]
    >>> chances(np.zeros(4), 1).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    asked, order = len(u), np.argsort(u, kind="stable")
    total = np.cumsum(u[order])
    room = uploads - asked + np.arange(1, asked + 1)  # m + l - n_a
    last = np.flatnonzero((room > 0) & (room * u[order] <= total))[-1]
    small = order[: last + 1]
    p = np.ones(asked)
    p[small] = room[last] * (u[small] / total[last] if total[last] > 0 else 1 / len(small))
    return np.minimum(p, 1.0)

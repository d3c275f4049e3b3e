"""Mixing the models that a client can have, with weights that it learns from its own labels.

With the guesses p_j of E experts and weights a_j the client answers m = sum_j a_j p_j. When the
label y becomes known, r_j = 2 (m - y)(m - p_j) bounds what expert j would have gained,
(m - y)^2 - (p_j - y)^2, from above. Bernstein online aggregation keeps, for each expert, the sum of
r - eta r^2, the sum V of r^2 and the largest |r|, rounded up to a power of two B:

    eta_j = min(1 / B_j, sqrt(ln(1 / pi_j) / V_j))
    L_j  += (r_j - eta_j r_j^2 + B_j [eta_j r_j > 1/2]) / 2
    a_j   ~ pi_j eta_j exp(eta_j L_j)

There is nothing to tune: no rate, no range, no horizon. As r is linear in the experts, the excess
over any fixed mix of them is bounded too, by about sqrt(V ln(E ln n)): on real data the answer is
usually better than the best single expert. Labels that come late only postpone what is learned.
pi is the trust with which a client begins: equal, or that of a federation it joins.

O. Wintenberger, "Optimal learning with Bernstein online aggregation", Machine Learning 106 (2017),
its version with a rate for each expert.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from psofed.core import native
from psofed.core.native import Array

SUMS = 3  # numbers that are kept of an expert: L, V and the largest |r|
FAR = 1e3  # spreads of the target


def start(*shape: int) -> Array:
    """What is remembered of each expert before the first label: [..., E, SUMS].

    >>> weights(start(2), equal(2)).tolist()
    [0.5, 0.5]
    """
    return np.zeros((*shape, SUMS))


def equal(experts: int) -> Array:
    """The trust of a client that knows nothing of its experts."""
    return np.full(experts, 1 / experts)


def rates(memory: Array, trust: Array) -> tuple[Array, Array]:
    """eta, and B; eta is infinite for an expert that has never differed from the mix."""
    square, largest = memory[..., 1], memory[..., 2]
    part, power = np.frexp(largest)
    bound = np.where(largest > 0, np.ldexp(1.0, power - (part == 0.5)), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        slow = np.sqrt(-np.log(trust) / square)
        return np.minimum(1 / bound, np.where(largest > 0, slow, np.inf)), bound


def weights(memory: Array, trust: Array) -> Array:
    """a [..., E]: not negative, with sum 1."""
    eta, _ = rates(memory, trust)
    # An expert that has never differed is as good as any: it gets the fastest rate of the others.
    known = np.isfinite(eta)
    fastest = np.where(known, eta, 0).max(axis=-1, keepdims=True)
    eta = np.where(known, eta, np.where(fastest > 0, fastest, 1.0))
    with np.errstate(divide="ignore"):
        power = np.log(trust) + np.log(eta) + eta * memory[..., 0]
    a = np.exp(power - power.max(axis=-1, keepdims=True))
    return np.asarray(a / a.sum(axis=-1, keepdims=True))


def learn(memory: Array, trust: Array, guesses: Array, mixed: Array, y: Array) -> None:
    """The label y [...] of guesses [..., E] that were mixed to m [...]; NaN: there is none."""
    gap = np.where(np.isnan(y), 0, mixed - y)
    r = 2 * gap[..., None] * (mixed[..., None] - guesses)
    memory[..., 1] += r * r
    memory[..., 2] = np.maximum(memory[..., 2], np.abs(r))
    eta, bound = rates(memory, trust)
    eta = np.where(np.isfinite(eta), eta, 0.0)
    memory[..., 0] += (r - eta * r * r + bound * (eta * r > 0.5)) / 2


def bounded(guesses: Array) -> Array:
    """Guesses in spreads of the target; a model that has diverged does not say more than FAR."""
    return np.clip(np.nan_to_num(guesses, nan=0.0), -FAR, FAR).astype(np.float64)


def cold_start(guesses: Array, count: Any, joined: Any, taps: int) -> Array:
    """Guesses [..., E] where a client without any label has only what others have taught it.

    That is the model with which it `joined`, the second expert, or its own, the first. Of who joins
    the first has not come down yet, or is near the second: that speaks for it until the client has
    as many labels as a straight line has coefficients.
    """
    taught = np.where(joined, guesses[..., 1], guesses[..., 0])
    needs = np.where(np.arange(guesses.shape[-1]) == 0, taps + 1, 1)
    return np.where(count[..., None] >= needs, guesses, taught[..., None])


class Mixer:
    """The mixes of many clients, round by round, where labels come `delay` rounds late."""

    def __init__(self, clients: int, trust: Array, delay: int = 0) -> None:
        self.trust, self.delay = trust, delay
        self.memory = start(clients, len(trust))
        self.guesses = np.zeros((delay, clients, len(trust)))  # whose labels are on their way
        self.mixed = np.zeros((delay, clients))

    @property
    def weights(self) -> Array:
        """a [K, E], as they are now."""
        return weights(self.memory, self.trust)

    def follow(self, guesses: Array, y: Array) -> Array:
        """Answers [B, K] to the guesses [B, K, E] of rounds in a row, in which labels y arrive."""
        d, rounds = self.delay, len(y)
        p = np.concatenate([self.guesses, bounded(guesses)])
        m = np.concatenate([self.mixed, np.empty(y.shape)])
        if native.available():
            y = np.ascontiguousarray(y, np.float64)
            native.function("mix")(self.memory, self.trust, p, m, y, *guesses.shape, d)
        else:
            for i in range(rounds):
                m[d + i] = np.vecdot(self.weights, p[d + i])
                learn(self.memory, self.trust, p[i], m[i], y[i])
        self.guesses, self.mixed = p[rounds:], m[rounds:]
        return m[d:]


def stacked(products: Array, with_label: Array) -> Array:
    """The weights on the simplex that minimise the sum of (a^T p - y)^2, exactly.

    `products` [E, E] is the sum of p p^T and `with_label` [E] that of p y. Of a few experts all
    sets can be tried: within a set, only the sum of the weights is fixed.

    >>> stacked(np.eye(2), np.array([1.0, 0.0])).tolist()
    [1.0, 0.0]
    """
    experts, best, least = len(with_label), equal(len(with_label)), np.inf
    for size in range(1, experts + 1):
        for some in combinations(range(experts), size):
            which = np.array(some)
            G, h = products[np.ix_(which, which)], with_label[which]
            # With a = e_1 + N c the sum is 1 for any c; N^T G N is singular if guesses are alike.
            N = np.vstack([-np.ones((1, size - 1)), np.eye(size - 1)])
            c = np.linalg.lstsq(N.T @ G @ N, N.T @ (h - G[:, 0]), rcond=1e-12)[0]
            a = N @ c
            a[0] += 1
            value = a @ G @ a - 2 * a @ h
            if a.min() >= -1e-9 and value < least * (1 - 1e-9 * np.sign(least)):
                best, least = np.zeros(experts), value
                best[which] = np.maximum(a, 0)
    return np.asarray(best / best.sum())

"""The mean square where windows are correlated in time: moments given the state of the inputs.

Windows of a series are not independent of the models that meet them: both depend on q_k, the inputs
that client k has just seen. But q_k is a Markov chain, and given q_k the models know nothing about
the next input. So the second moments of v = (w, w_1, ..., w_K, 1) are followed together with
functions of q_k, which are orthonormal, E h_a h_b = 1{a = b}, the first of them constant:

    S_kb = E[v v^T h_b(q_k)],     E[v v^T | q_1, ..., q_K] = S_0 + sum_k sum_b>0 S_kb h_b(q_k)

Download and upload are linear in v and know nothing of the inputs: they act on all S_kb alike. With
1_k = 1 if k is in S_n, psi what clients have learned from phi, and u_k zero elsewhere,

    phi1_k = S_k w + (I - S_k) w_k (if selected),     phi0_k = w_k (if not)
    v+ = u + sum_k (1_k - p) u_k,     E v+ v+^T = E u u^T + sum_kl Cov(1_k, 1_l) E u_k u_l^T
    u = (w + mean_k S1_k (psi1_k - w),  p psi1_k + (1 - p) psi0_k,  1)
    u_k = (S1_k (psi1_k - w) / |S_n|,  psi1_k - psi0_k at client k)

Clients learn one by one, v+ = L_k v with psi = phi - mu z (z^T phi - y), as q_k becomes q_k+:

    S_ka+ = sum_b E[h_a(q_k+) L_k S_kb L_k^T h_b(q_k)],     S_j0+ = S_k0+
    S_ja+ = E[L_k S_ja L_k^T]     for j != k and a > 0

Two things are approximated: interactions of the states of two clients are left out, and of all h_b
those few are kept with which (z, y)(z, y)^T correlates most. With h_0 alone, windows count as
independent. Nothing is pooled, and fourth moments have no closure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from math import factorial
from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from psofed.core.native import Array
from psofed.experiment import Experiment
from psofed.federation.contract import Task
from psofed.streams.synthetic import Autoregressive, Synthetic
from psofed.theory.moments import Moments
from psofed.theory.system import System

FUNCTIONS, FEWEST = 24, 12  # h_b of each client
NUMBERS = 4 * 10**6  # in all S_kb
OPERATORS = 4 * 10**7  # numbers in the operators of all clients
OLDEST, NODES = 24, 10  # of the quadrature: f is most curved in the oldest input
NEGLIGIBLE = 1e-10  # weight of a node
DEGREE = 8  # of the polynomials that the h_b are made of
MOST_TAPS, SLOW = 4, 0.9  # with larger theta, what is left out is felt
PART = 1000  # nodes at a time


@dataclass(frozen=True, eq=False)
class Chain:
    """One client's chain by nodes (q, q+) with weights, and what the client sees on the way."""

    weights: Array  # [n], sum 1
    before: Array  # [b, n]: h_b(q)
    after: Array  # [b, n]: h_b(q+)
    z: Array  # [n, D]
    f: Array  # [n], noise-free
    noise: float  # its variance
    theta: float = 0.0  # correlation of neighbours

    @cached_property
    def turn(self) -> Array:
        """E[h_a(q+) h_b(q)]: [a, b]."""
        return np.asarray((self.after * self.weights) @ self.before.T)

    @cached_property
    def first(self) -> Array:
        """E[h_a(q+) z z~^T h_b(q)] as a matrix [a D, b (D + 1)]; z~ = (z, -f)."""
        return self._expected(lambda z, seen: (z.T, seen.T))

    @cached_property
    def fourth(self) -> Array:
        """E[h_a(q+) z z^T (z~^T P z~) h_b(q)], from the triangle of P to that of the result."""
        return self._expected(lambda z, seen: (_pairs(z, 1), _pairs(seen, 2)))

    @cached_property
    def disturbed(self) -> Array:
        """E[h_a(q+) z z^T] times the variance of the noise: [a, D, D]."""
        return np.asarray(((self.after * self.weights)[:, None] * self.z.T) @ self.z * self.noise)

    def alone(self) -> tuple[Array, Array]:
        """`first` and `fourth` of h_0 alone, for what is conditioned on other clients."""
        D = self.z.shape[1]
        return self.first[:D, : D + 1], self.fourth[: _triangle(D), : _triangle(D + 1)]

    def _expected(self, of: Any) -> Array:
        total: Any = 0.0
        for i in range(0, len(self.weights), PART):
            part = slice(i, i + PART)
            left, right = of(self.z[part], np.hstack([self.z[part], -self.f[part, None]]))
            left = (self.after[:, part] * self.weights[part])[:, None] * left
            right = self.before[:, None, part] * right
            total = total + left.reshape(-1, left.shape[-1]) @ right.reshape(-1, right.shape[-1]).T
        return np.asarray(total)


def _pairs(z: Array, twice: int) -> Array:
    """z_i z_j, i <= j: [pairs, n]; those of two different entries `twice`."""
    i, j = np.triu_indices(z.shape[1])
    return np.asarray((z[:, i] * z[:, j] * np.where(i == j, 1, twice)).T)


def _triangle(size: int) -> int:
    return size * (size + 1) // 2


class LiftedRecursion:
    """The moments of one method for these clients, round by round."""

    def __init__(self, system: System, chains: tuple[Chain, ...]) -> None:
        self.system, self.chains = system, chains
        K, D = len(chains), system.dim
        self.selected = np.full((K, K), system.p2 - system.p**2)  # Cov(1_k, 1_l)
        np.fill_diagonal(self.selected, system.p - system.p**2)
        self.triangle = np.triu_indices(D + 1)
        self.square = np.empty((D, D), int)  # where a triangle has each entry of a matrix
        i, j = np.triu_indices(D)
        self.square[i, j] = self.square[j, i] = np.arange(len(i))

    def models(self, rounds: int) -> Iterator[tuple[Array, Array]]:
        """Mean and covariance of the server's model before rounds 0..rounds."""
        K, D = len(self.chains), self.system.dim
        size = (K + 1) * D + 1
        S = np.zeros((K, len(self.chains[0].before), size, size))
        S[:, 0, -1, -1] = 1  # all models are zero
        for n in range(rounds + 1):
            mean = S[0, 0, :D, -1]
            yield mean, S[0, 0, :D, :D] - np.outer(mean, mean)
            if n < rounds:
                S = self.after(n, S)

    def after(self, n: int, S: Array) -> Array:
        """One round: download, learn, upload."""
        K, D = len(self.chains), self.system.dim
        d, d1 = (np.broadcast_to(self.system.masks(i), (K, D))[..., None] for i in (n, n + 1))
        S = _both(S, lambda rows: self._received(rows, d))
        for k in range(K):
            self._learn(S, k)
        u = _both(S, lambda rows: self._mean(rows, d1))
        u_k = _both(S, lambda rows: self._deviations(rows, d1))
        u_k = u_k.reshape(*S.shape[:2], K, 2 * D, K, 2 * D) * self.selected[:, None, :, None]
        return u + _both(u_k.reshape(*S.shape[:2], 2 * D * K, 2 * D * K), self._placed)

    def _received(self, rows: Array, d: Array) -> Array:
        """(w, phi1_1..phi1_K, phi0_1..phi0_K, 1)."""
        w, (idle,), one = self._split(rows, 1)
        selected = idle + d * (w[..., None, :, :] - idle)
        return np.concatenate([w, _flat(selected), _flat(idle), one], axis=-2)

    def _learn(self, S: Array, k: int) -> None:
        """Client k learns; E psi1_k psi0_k^T comes out wrong, but nobody is both: it cancels."""
        system, K, D = self.system, len(self.chains), self.system.dim
        chain, cases = self.chains[k], (2 if system.idle and not system.whole else 1)
        at = [slice(D * (1 + K * case + k), D * (2 + K * case + k)) for case in range(cases)]
        own = (chain.turn @ S[k].reshape(len(chain.turn), -1)).reshape(S[k].shape)
        self._learned(S[k][None], own[None], at, chain.first, chain.fourth)
        for block in at:
            own[:, block, block] += system.step**2 * chain.disturbed
        for each in S[:, 1:, None] if len(own) > 1 else ():
            self._learned(each, each, at, *chain.alone())
        S[k], S[:, 0] = own, own[0]

    def _learned(self, S: Array, new: Array, at: list[slice], first: Array, fourth: Array) -> None:
        """What L changes in E[h_a(q+) L S_b L^T h_b(q)], at these rows; S is [case, b, ., .]."""
        count, b, size, _ = S.shape
        mu, D = self.system.step, self.system.dim
        for block in at:
            seen = [*range(block.start, block.stop), size - 1]
            rows = S[:, :, seen]
            change = mu * (first @ rows.reshape(count, -1, size)).reshape(count, b, D, size)
            pairs = rows[..., seen][..., *self.triangle].reshape(count, -1)
            new[:, :, block] -= change
            new[..., block] -= np.swapaxes(change, 2, 3)
            energy = (pairs @ fourth.T).reshape(count, b, -1)
            new[:, :, block, block] += mu**2 * energy[..., self.square]

    def _mean(self, rows: Array, d1: Array) -> Array:
        """The rows of u."""
        w, (selected, idle), one = self._split(rows, 2)
        after = w + (d1 * (selected - w[..., None, :, :])).mean(axis=-3)
        kept = idle + self.system.p * (selected - idle)
        return np.concatenate([after, _flat(kept), one], axis=-2)

    def _deviations(self, rows: Array, d1: Array) -> Array:
        """The rows of all u_k, without those that are zero."""
        w, (selected, idle), _ = self._split(rows, 2)
        sent = d1 * (selected - w[..., None, :, :]) / self.system.cohort
        return _flat(np.concatenate([sent, selected - idle], axis=-2))

    def _placed(self, rows: Array) -> Array:
        """Their sum, with a row for each entry of v."""
        twice = rows.reshape(*rows.shape[:-2], -1, 2, self.system.dim, rows.shape[-1])
        w, clients = twice[..., 0, :, :].sum(axis=-3), _flat(twice[..., 1, :, :])
        return np.concatenate([w, clients, np.zeros_like(w[..., :1, :])], axis=-2)

    def _split(self, rows: Array, cases: int) -> tuple[Array, list[Array], Array]:
        """w, the clients by case and number, and 1."""
        K, D = len(self.chains), self.system.dim
        parts = rows[..., D:-1, :].reshape(*rows.shape[:-2], cases, K, D, rows.shape[-1])
        return rows[..., :D, :], list(np.moveaxis(parts, -4, 0)), rows[..., -1:, :]


def _flat(clients: Array) -> Array:
    """The rows of all clients, one after another."""
    return clients.reshape(*clients.shape[:-3], -1, clients.shape[-1])


def _both(S: Array, rows: Any) -> Array:
    """A linear map of the rows of symmetric matrices, applied to columns too."""
    return np.asarray(rows(np.swapaxes(rows(S), -1, -2)))


def functions(clients: int, dim: int) -> int:
    """How many h_b a system of this size can have; 0 if that is too few for an accurate curve."""
    numbers = clients * ((2 * clients + 1) * dim + 1) ** 2
    operators = clients * _triangle(dim) * _triangle(dim + 1)
    most = min(FUNCTIONS, NUMBERS // numbers, int((OPERATORS / operators) ** 0.5))
    return most if most >= FEWEST else 0


def chains(experiment: Experiment, task: Task, moments: Moments) -> tuple[Chain, ...] | None:
    """The clients' chains, if inputs are windows of AR(1) series and the system is small.

    Where |z| has no bound, no polynomials of the state are enough.
    """
    stream, count = experiment.stream, functions(task.clients, task.dim)
    if not isinstance(stream, Synthetic) or type(stream.source) is not Autoregressive:
        return None
    if not count or stream.taps > MOST_TAPS or experiment.features.longest is None:
        return None
    laws, made = stream.laws(task.seeds, moments.clients), []
    for k, (theta, mean, variance, _) in enumerate(zip(*laws, strict=True)):
        weights, series, before, after = autoregression(theta, stream.taps)
        x = mean * np.sqrt((1 + theta) / (1 - theta)) + np.sqrt(variance) * series.T
        f = stream.function(x)
        if stream.spread:
            f = f + stream.personal(task.seeds, moments.clients[k : k + 1], x[None])[0]
        z = task.features(x).astype(np.float64, copy=False)
        # Combinations of all but h_0, from the one that tells most of (z, y)(z, y)^T.
        joint = (after[1:] * weights) @ _pairs(np.hstack([z, f[:, None]]), 1).T
        Q = np.linalg.svd(joint, full_matrices=False)[0][:, : count - 1].T
        before, after = (np.vstack([h[:1], Q @ h[1:]]) for h in (before, after))
        made.append(Chain(weights, before, after, z, f, float(moments.v[k]), theta))
    return tuple(made)


def autoregression(theta: float, taps: int) -> tuple[Array, Array, Array, Array]:
    """Gauss-Hermite nodes of a normalised AR(1) series, with polynomials of its state.

    weights [n], windows [taps, n], newest first, and Hermite polynomials of q and q+ [b, n]. The
    state is all but the oldest of L inputs, rotated so that its entries are independent.
    """
    depth = max(taps - 1, 1)
    rules = zip(*(hermegauss(count) for count in (OLDEST, *[NODES] * depth)), strict=True)
    series, factors = (np.array(np.meshgrid(*rule)).reshape(depth + 1, -1) for rule in rules)
    weights = factors.prod(axis=0) / factors.prod(axis=0).sum()
    some = weights > NEGLIGIBLE
    series, weights = series[:, some], weights[some] / weights[some].sum()
    for last, now in pairwise(series):
        now *= np.sqrt(1 - theta**2)
        now += theta * last
    values, vectors = np.linalg.eigh(theta ** np.abs(np.subtract.outer(*[np.arange(depth)] * 2)))
    q = [(vectors / np.sqrt(values)).T @ part for part in (series[:-1], series[1:])]
    return weights, series[::-1][:taps], hermite(q[0]), hermite(q[1])


def hermite(q: Array) -> Array:
    """Normalised Hermite polynomials of total degree up to DEGREE in independent normals [d, n]."""
    single = [np.ones_like(q), q]
    for degree in range(1, DEGREE):
        single.append(q * single[-1] - degree * single[-2])
    scaled = [each / np.sqrt(factorial(degree)) for degree, each in enumerate(single)]
    degrees = [each for each in product(range(DEGREE + 1), repeat=len(q)) if sum(each) <= DEGREE]
    return np.array([np.prod([scaled[a][i] for i, a in enumerate(each)], axis=0)
                     for each in sorted(degrees, key=sum)])  # fmt: skip

"""The mean-square error: one mean per client, four covariances for all.

docs/theory.md derives it and lists what it approximates. In short: A = Cov(w), B = Cov(w, w_k),
C = Cov(w_k) and X = Cov(w_k, w_l), each D x D and averaged over clients, given the windows of the
world; the means are exact, and what cohorts and unequal clients add to the covariances enters
through them. Data of a round are independent of the models that meet them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from psofed.core.native import Array
from psofed.theory.mean import MeanRecursion, Means, Round
from psofed.theory.moments import Population
from psofed.theory.system import System


@dataclass(frozen=True, eq=False)
class PooledWindows:
    """The windows of a round, averaged over clients; d_k is the diagonal of S_k."""

    rho: Array  # [D]: mean_k d_k
    Pi: Array  # [D, D]: mean_k d_k d_k^T
    pair: Array  # [D, D]: mean_{k != l} d_k d_l^T

    def mixed(self, A: Array, B: Array, C: Array, same: bool) -> Array:
        """Cov(S w + (I - S) w_k, S' w + (I - S') w_l); with `same` k = l."""
        # Z + Z^T is all that differs from C, because A, C and Pi are symmetric.
        Z = A + C
        Z *= A.dtype.type(0.5)
        Z -= B
        Z *= self.Pi if same else self.pair
        left = B - C
        left *= self.rho[:, None]
        Z += left
        out = Z + Z.T
        out += C
        return out

    def into_rows(self, B: Array, X: Array) -> Array:
        """rho_a∘B + (1 - rho_a)∘X."""
        out = B - X
        out *= self.rho[:, None]
        out += X
        return out

    def into_columns(self, A: Array, B: Array) -> Array:
        """A∘rho_b + B∘(1 - rho_b)."""
        out = A - B
        out *= self.rho
        out += B
        return out

    @cached_property
    def rows(self) -> Any:
        """The entries that anybody exchanges: what is not uploaded need not be computed."""
        found = np.flatnonzero(self.rho)
        return found if len(found) < len(self.rho) // 2 else slice(None)

    @property
    def up(self) -> Array:
        """rho of the rows that are exchanged, as a column."""
        return self.rho[self.rows, None]

    @property
    def inner(self) -> tuple[Array, Array]:
        """Pi and pair, where both entries are exchanged."""
        rows = self.rows
        return self.Pi[rows][:, rows], self.pair[rows][:, rows]


class Calendar:
    """The windows of a method, round by round; two rounds need those of each."""

    def __init__(self, system: System, kind: Any) -> None:
        self.system, self.kind = system, kind
        self._recent: dict[int, PooledWindows] = {}

    def __getitem__(self, n: int) -> PooledWindows:
        if n not in self._recent:
            self._recent = {k: v for k, v in self._recent.items() if k == n - 1}
            self._recent[n] = self._windows(n)
        return self._recent[n]

    def _windows(self, n: int) -> PooledWindows:
        turn = self.system.turned(n)
        if turn is None:
            return self._drawn(n)
        first, turned = self._first, ((turn, turn), (0, 1))
        return PooledWindows(
            np.roll(first.rho, turn), np.roll(first.Pi, *turned), np.roll(first.pair, *turned)
        )

    @cached_property
    def _first(self) -> PooledWindows:
        return self._drawn(0)

    def _drawn(self, n: int) -> PooledWindows:
        d = self.system.masks(n).astype(self.kind)
        squares, pairs = outer(d)
        return PooledWindows(d.mean(axis=0), squares, squares if self.system.coordinated else pairs)


def outer(a: Array) -> tuple[Array, Array]:
    """mean_k a_k a_k^T, and mean_{k != l} a_k a_l^T."""
    J, squares, total = len(a), a.T @ a, a.sum(axis=0)
    pairs = np.outer(total, total)
    pairs -= squares
    pairs *= a.dtype.type(1 / max(J * (J - 1), 1))
    squares *= a.dtype.type(1 / J)
    return squares, pairs


class Second(NamedTuple):
    """Covariances of server and clients: A = Cov(w), B = Cov(w, w_k), C = Cov(w_k), X between."""

    A: Array
    B: Array
    C: Array
    X: Array


class State(NamedTuple):
    """All means and the pooled covariances before a round."""

    means: Means
    second: Second


class ReducedRecursion:
    """Means per client and pooled covariances of one method, in docs/theory.md's notation."""

    def __init__(self, system: System, data: Population) -> None:
        self.system, self.data, self.R = system, data, data.R
        self.mean = MeanRecursion(system, data.R_k, data.moments.r.astype(data.kind))
        eye = np.eye(system.dim, dtype=data.kind)
        self.H = eye - data.kind(system.step) * data.R
        self.windows = Calendar(system, data.kind)
        self.H0 = self.H if system.idle else eye  # for clients that are not selected

    def start(self) -> State:
        """Initial models are zero and certain."""
        zero = np.zeros((self.system.dim,) * 2, self.data.kind)
        return State(self.mean.start(), Second(zero, zero, zero, zero))

    def trajectory(self, rounds: int) -> Iterator[State]:
        """The state before rounds 0..rounds, the last included."""
        state = self.start()
        for n in range(rounds + 1):
            yield state
            if n < rounds:
                state = self.after(n, state)

    def after(self, n: int, state: State) -> State:
        """One round: download, learn, upload."""
        now = self.mean.round(n, state.means)
        whole = self.system.whole
        return State(now.after, self._whole(now, state) if whole else self._part(n, now, state))

    def _whole(self, now: Round, state: State) -> Second:
        """M = D: w+ is the mean of |S_n| clients that all started from w."""
        s, A, H = self.system.cohort, state.second.A, self.H
        N = self._noise(now, state, (A,))[0]
        Q1 = self._learned(A, N, slice(None))
        A = Q1 / s + (1 - 1 / s) * (H @ A @ H) + self._cohorts(now.e[:, 0])
        return state.second._replace(A=_symmetric(A))

    def _part(self, n: int, now: Round, state: State) -> Second:
        """M < D. Rows that no client uploads are not computed where only uploads need them."""
        H, kind = self.H, self.data.kind
        A, B, C, X = state.second
        p = kind(self.system.p)
        down, up = self.windows[n], self.windows[n + 1]
        # After the download: F = Cov(phi_k), X11 and X10 between selected and idle, B1 = Cov(w, .).
        F, X11 = down.mixed(A, B, C, True), down.mixed(A, B, X, False)
        B1 = down.into_columns(A, B)
        # After learning, in the uploaded rows: Q1 = Cov(psi_k), Y between clients, V = Cov(., w).
        rows = up.rows
        N1, N0 = self._noise(now, state, (F, C))
        Q1 = self._learned(F, N1, rows)
        Y11 = H[rows] @ X11 @ H
        V = H[rows] @ B1.T
        X10 = down.into_rows(B, X)
        Y10 = H[rows] @ X10 @ self.H0
        B, X = self._kept(B, B1), self._between(X, X10, X11)
        # After the upload.
        e, dl = now.e[:, 0], (now.g1 - now.g0)[:, 0]
        squares, pairs = outer(dl)
        C = self._clients(C, F, N1, N0)
        C += p * (1 - p) * squares
        X += (kind(self.system.p2) - p * p) * pairs
        A_up, B_up = self._uploaded(up, A, V, Q1, Y11)
        B_up += (1 - p) * Y10
        B[rows] += up.up * (B_up - B[rows])
        # e is zero in other rows.
        if len(V) < len(A):
            B[rows] += self._covariance(e[:, rows], dl)
            A_up[np.ix_(rows, rows)] += self._cohorts(e[:, rows])
        else:
            B += self._covariance(e, dl)
            A_up += self._cohorts(e)
        return Second(A_up, B, _symmetric(C), _symmetric(X))

    def _uploaded(
        self, up: PooledWindows, A: Array, V: Array, Q1: Array, Y11: Array
    ) -> tuple[Array, Array]:
        """Cov(w+) given the cohort, and p Cov(uploaded entries, psi_k) of selected clients k."""
        rows, s = up.rows, self.system.cohort
        Q1 *= self.data.kind(1 / s)
        Y11 *= self.data.kind(1 - 1 / s)
        Gam, Gam2 = up.inner
        half = self.data.kind(0.5)
        # A+ = A + Z + Z^T, so the terms that are symmetric enter Z by halves.
        Z = V - A[rows]
        Z *= up.up
        rest = A[rows][:, rows] * half
        rest -= V[:, rows]
        square = Gam * (half * Q1[:, rows] + rest * self.data.kind(1 / s))
        square += Gam2 * (half * Y11[:, rows] + rest * self.data.kind(1 - 1 / s))
        Z[:, rows] += square
        B_up = Q1 + Y11
        B_up *= self.data.kind(self.system.p)
        return _with_rows(A, rows, Z), B_up

    def _kept(self, B: Array, B1: Array) -> Array:
        """Cov(w, psi_k), over k being selected or not."""
        p = self.data.kind(self.system.p)
        if not self.system.idle:
            return p * (B1 @ self.H) + (1 - p) * B
        both = p * B1
        both += (1 - p) * B
        return both @ self.H

    def _clients(self, C: Array, F: Array, N1: Array, N0: Array) -> Array:
        """p Cov(psi of a selected client) + (1 - p) Cov(psi of an idle one)."""
        p, everything = self.data.kind(self.system.p), slice(None)
        if not self.system.idle:
            return p * self._learned(F, N1, everything) + (1 - p) * C
        return self._learned(p * F + (1 - p) * C, p * N1 + (1 - p) * N0, everything)

    def _between(self, X: Array, X10: Array, X11: Array) -> Array:
        """Cov(psi_k, psi_l), over both, one or none of the two being selected."""
        p, p2 = self.data.kind(self.system.p), self.data.kind(self.system.p2)
        H = self.H
        if self.system.idle:
            mixed = X10 + X10.T
            mixed *= p - p2
            mixed += p2 * X11
            mixed += (1 - 2 * p + p2) * X
            return H @ mixed @ H
        one = H @ X10
        return p2 * (H @ X11 @ H) + (p - p2) * (one + one.T) + (1 - 2 * p + p2) * X

    def _learned(self, P: Array, N: Array, rows: Any) -> Array:
        """Rows of Cov(psi) = P - mu (R P + P R) + mu^2 N."""
        mu = self.data.kind(self.system.step)
        RP = self.R[rows] @ P
        out = RP + (RP.T if len(RP) == len(P) else P[rows] @ self.R)
        out *= -mu
        out += P[rows]
        out += mu**2 * N[rows]
        return out

    def _noise(self, now: Round, state: State, P: tuple[Array, ...]) -> list[Array]:
        """N(P, m) - mean_k u_k u_k^T of selected clients and, if there are two P, of idle ones."""
        data, kind = self.data.moments, self.data.kind
        means = (now.m1, now.u1), (state.means.clients, now.u0)
        out = []
        for each, (m, u) in zip(P, means, strict=False):
            m, u = m[:, 0], u[:, 0]
            squares = data.c + data.v - np.vecdot(m, data.r + u)
            N = self.data.noise(each, m, squares.astype(kind))
            N -= (u.T @ u) * kind(1 / len(u))
            out.append(N)
        return out

    def _cohorts(self, e: Array) -> Array:
        """Cov of the mean of e_k over a cohort drawn without replacement."""
        s, K = self.system.cohort, self.system.total
        centred = e - e.mean(axis=0)
        factor = (K - s) / max(K - 1, 1) / s / len(e)
        return (centred.T @ centred) * self.data.kind(factor)

    def _covariance(self, e: Array, dl: Array) -> Array:
        """Cov over cohorts of the server's increment and of the effect of selection on a client."""
        s, K, p = self.system.cohort, self.system.total, self.system.p
        factor = p * (1 - p) / s * K / max(K - 1, 1) / len(e)
        return ((e - e.mean(axis=0)).T @ dl) * self.data.kind(factor)


def _with_rows(A: Array, rows: Any, Z: Array) -> Array:
    """A + Z + Z^T, where Z has some rows only; exactly symmetric."""
    if len(Z) == len(A):
        out = Z + Z.T
        out += A
        return out
    block = Z[:, rows]
    Z[:, rows] = (block + block.T) * A.dtype.type(0.5)
    out = A.copy()
    out[rows] += Z
    out[:, rows] += Z.T
    return out


def _symmetric(P: Array) -> Array:
    out = P + P.T
    out *= P.dtype.type(0.5)
    return out

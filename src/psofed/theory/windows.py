"""What the windows of a round do to pooled covariances, over all clients.

With d_k the diagonal of S_k: rho = mean_k d_k, Pi = mean_k d_k d_k^T, and pair is the mean of
d_k d_l^T over clients k != l.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.theory.system import System

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Coordinated:
    """One window for all clients, so rho is 0 or 1 and Pi = pair = rho rho^T: entries move."""

    rows: Array  # the entries of the window
    kind: Any

    def mixed(self, A: Array, B: Array, C: Array, same: bool) -> Array:
        """Cov(S w + (I - S) w_k, S w + (I - S) w_l): A inside the window, C outside, B between."""
        w, out = self.rows, C.copy()
        out[w] = B[w]
        out[:, w] = B[w].T
        out[np.ix_(w, w)] = A[np.ix_(w, w)]
        return out

    def into_rows(self, B: Array, X: Array) -> Array:
        """rho_a∘B + (1 - rho_a)∘X."""
        out = X.copy()
        out[self.rows] = B[self.rows]
        return out

    def into_columns(self, A: Array, B: Array) -> Array:
        """A∘rho_b + B∘(1 - rho_b)."""
        out = B.copy()
        out[:, self.rows] = A[:, self.rows]
        return out

    @property
    def up(self) -> Any:
        """rho of the rows that are exchanged, as a column."""
        return self.kind(1)

    @property
    def inner(self) -> tuple[Any, Any]:
        """Pi and pair, where both entries are exchanged."""
        return self.kind(1), self.kind(1)


@dataclass(frozen=True, eq=False)
class Own:
    """A window for each client."""

    rho: Array  # [D]
    Pi: Array  # [D, D]
    pair: Array  # [D, D]

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


Windows = Coordinated | Own


class Calendar:
    """The windows of a method, round by round; two rounds need those of each."""

    def __init__(self, system: System, kind: Any) -> None:
        self.system, self.kind = system, kind
        self._recent: dict[int, Windows] = {}

    def __getitem__(self, n: int) -> Windows:
        if n not in self._recent:
            self._recent = {k: v for k, v in self._recent.items() if k == n - 1}
            self._recent[n] = self._windows(n)
        return self._recent[n]

    def _windows(self, n: int) -> Windows:
        if self.system.coordinated:
            return Coordinated(np.flatnonzero(self.system.masks(n)[0]), self.kind)
        turn = self.system.turned(n)
        if turn is None:
            return self._own(n)
        first = self._first
        rho, turned = np.roll(first.rho, turn), ((turn, turn), (0, 1))
        return Own(rho, np.roll(first.Pi, *turned), np.roll(first.pair, *turned))

    @cached_property
    def _first(self) -> Own:
        return self._own(0)

    def _own(self, n: int) -> Own:
        d = self.system.masks(n).astype(self.kind)
        return Own(d.mean(axis=0), *outer(d))


def outer(a: Array) -> tuple[Array, Array]:
    """mean_k a_k a_k^T, and mean_{k != l} a_k a_l^T."""
    J, squares, total = len(a), a.T @ a, a.sum(axis=0)
    pairs = np.outer(total, total)
    pairs -= squares
    pairs *= a.dtype.type(1 / max(J * (J - 1), 1))
    squares *= a.dtype.type(1 / J)
    return squares, pairs

"""Exact cases to replay, and their recursion with literal matrices, eq. (8), (9) and (11).

A case has all random draws and, if known, the models that must follow. What replays it here is slow
and dense, and shares nothing with `core` or the engine, so that a mistake cannot hide in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from psofed.core import features
from psofed.core.features import Cosines
from psofed.core.schedule import GivenCohorts, Rotating
from psofed.core.seeds import Seeds, subsets
from psofed.federation.contract import Array, Task
from psofed.methods import onlinefed, psofed
from psofed.simulate.draws import Draws
from psofed.streams.contract import Samples

TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class Case:
    """A resolved run of PSO-Fed or Online-Fed, in the axis order client, round, coordinate."""

    name: str
    algorithm: str  # "pso" or "online"
    features: Cosines
    x: Array  # [K, N, L]
    y: Array  # [K, N]
    cohorts: tuple[tuple[int, ...], ...]
    step: float
    masks: Array  # [K, M]: the ones of S_{k,0}
    shift: int
    w0: Array  # [D]
    local0: Array  # [K, D]
    w: Array | None = None  # [N + 1, D]: expected global models before each round
    local: Array | None = None  # [N + 1, K, D]

    @property
    def idle(self) -> bool:
        """Whether clients that are not selected learn."""
        return self.algorithm == "pso"

    def method(self) -> psofed.Method:
        """The method of this case, with its windows and cohorts as given."""
        clients, _, taps = self.x.shape
        task = Task(
            clients=clients,
            dim=self.features.dim,
            taps=taps,
            step=self.step,
            seeds=Seeds(0),
            features=self.features,
            cohorts=GivenCohorts(self.cohorts, clients),
            wire="float64",
        )
        if self.algorithm == "online":
            return onlinefed.Method(onlinefed.Options(), task)
        schedule = Rotating(self.masks, self.shift, self.features.dim)
        return psofed.Method(psofed.Options(shared=self.masks.shape[1]), task, schedule)

    def draws(self) -> Draws:
        """The draws that are written in it."""
        sizes = [len(cohort) for cohort in self.cohorts]
        members = [k for cohort in self.cohorts for k in cohort]
        start = np.concatenate([[0], np.cumsum(sizes, dtype=np.intp)])
        clients, rounds = self.y.shape

        def source(rows: int, first: int, stop: int, memory: Any) -> Any:
            y = self.y[:, first:stop]
            return Samples(self.x[:, first:stop], y, np.zeros_like(y))

        everybody, forever = np.arange(clients), np.full(clients, rounds)
        members_array = np.array(members, np.intp)
        return Draws(self.features, everybody, forever, start, members_array, source)


def draw(number: int, seed: int = 0) -> Case:
    """A small random case, number `number` of a seed: any K, D, M, tau, cohort sizes, algorithm."""
    seeds = Seeds(seed, run=number)
    pick = seeds.generator("case")
    clients, taps, rounds = (int(pick.integers(1, high)) for high in (7, 5, 40))
    dim = int(pick.integers(2, 16))
    algorithm = "online" if pick.random() < 0.2 else "pso"
    shared = dim if algorithm == "online" else int(pick.integers(1, dim + 1))
    rows = subsets(pick.random((1 if pick.random() < 0.5 else clients, shared)), dim)
    return Case(
        name=f"random case {number} of seed {seed}",
        algorithm=algorithm,
        features=features.cosine(seeds, dim, taps, width=1.0),
        x=pick.standard_normal((clients, rounds, taps)),
        y=pick.standard_normal((clients, rounds)),
        cohorts=tuple(
            tuple(np.flatnonzero(pick.random(clients) < 0.4).tolist()) for _ in range(rounds)
        ),
        step=float(pick.uniform(0.1, 1.0)),
        masks=np.broadcast_to(rows, (clients, shared)),
        shift=int(pick.integers(0, dim + 1)),
        w0=pick.standard_normal(dim),
        local0=pick.standard_normal((clients, dim)),
    )


def selection(mask: Sequence[int], shift: int, n: int, dim: int) -> Array:
    """The diagonal matrix S_{k,n}: S_{k,0} after n right circular shifts by tau."""
    diagonal = np.zeros(dim)
    diagonal[list(mask)] = 1
    return np.diag(np.roll(diagonal, shift * n % dim))


def matrix_A(S: list[Array], a: Array) -> Array:
    """Eq. (9)."""
    K, D = len(S), len(S[0])
    A = np.eye((K + 1) * D)
    for k in range(K):
        row = slice((k + 1) * D, (k + 2) * D)
        A[row, :D] = a[k] * S[k]
        A[row, row] = np.eye(D) - a[k] * S[k]
    return A


def matrix_B(S: list[Array], a: Array) -> Array:
    """Eq. (11). An empty cohort leaves everything as it is."""
    K, D = len(S), len(S[0])
    B = np.eye((K + 1) * D)
    if a.any():
        B[:D, :D] = np.eye(D) - sum(a[k] / a.sum() * S[k] for k in range(K))
        for k in range(K):
            B[:D, (k + 1) * D : (k + 2) * D] = a[k] / a.sum() * S[k]
    return B


def run(case: Case) -> tuple[Array, Array]:
    """Eq. (10): w_e <- B (A w_e + mu Z_e epsilon_e). Returns w [N+1, D] and w_k [N+1, K, D]."""
    K, N, _ = case.x.shape
    W, b = case.features.W, case.features.b
    D = len(b)
    w_e = np.concatenate([case.w0, case.local0.ravel()])
    history = [w_e]
    for n in range(N):
        a = np.isin(np.arange(K), case.cohorts[n]).astype(float)
        S_now = [selection(case.masks[k], case.shift, n, D) for k in range(K)]
        S_next = [selection(case.masks[k], case.shift, n + 1, D) for k in range(K)]
        Z_e = np.zeros(((K + 1) * D, K + 1))
        y_e = np.zeros(K + 1)
        for k in range(K):
            if a[k] or case.idle:  # otherwise this client does not learn in this round
                z = np.sqrt(2 / D) * np.cos(W @ case.x[k, n] + b)
                Z_e[(k + 1) * D : (k + 2) * D, k + 1] = z
                y_e[k + 1] = case.y[k, n]
        Aw = matrix_A(S_now, a) @ w_e
        epsilon_e = y_e - Z_e.T @ Aw  # Eq. (8)
        w_e = matrix_B(S_next, a) @ (Aw + case.step * Z_e @ epsilon_e)
        history.append(w_e)
    models = np.array(history).reshape(N + 1, K + 1, D)
    return models[:, 0], models[:, 1:]

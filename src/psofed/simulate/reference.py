"""Exact cases to replay, and their recursion with literal matrices, eq. (8), (9) and (11).

A case has all random draws and, if known, the models that must follow. What replays it here is slow
and dense, and shares nothing with `core` or the engine, so that a mistake cannot hide in both.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core import features
from psofed.core.features import Waves
from psofed.core.schedule import GivenCohorts, Rotating
from psofed.core.seeds import Seeds, subsets
from psofed.errors import InputError
from psofed.federation import schema
from psofed.federation.contract import Task
from psofed.methods import onlinefed, psofed
from psofed.simulate.draws import Draws
from psofed.streams.contract import Samples

Array = NDArray[Any]
TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class Case:
    """A resolved run of PSO-Fed or Online-Fed, in the axis order client, round, coordinate."""

    name: str
    algorithm: str  # "pso" or "online"
    features: Waves
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


def read(path: str | Path) -> Case:
    """A case in the format of tests/golden; every mistake in it is an InputError that names it."""
    text = schema.read_text(path, "a case in JSON")
    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        right = "is the file complete? give a case in JSON"
        raise InputError("", f"is not JSON: {error}", right, str(path)) from None
    try:
        if not isinstance(table, dict):
            raise InputError("", "is not a JSON object", "give a case, as in tests/golden")
        return _parse(table)
    except InputError as error:
        raise error.inside(where=str(path)) from None


def _parse(table: dict[str, Any]) -> Case:
    if table.get("algorithm") not in ("pso", "online"):
        raise InputError("algorithm", f"is {table.get('algorithm')!r}", 'use "pso" or "online"')
    clients, dim, taps, rounds = (_count(table, key) for key in ("K", "D", "L", "N"))
    online = table["algorithm"] == "online"
    shared = dim if online else _count(table, "M")
    local0 = _array(table, "wk0", (clients, dim))
    masks = np.broadcast_to(np.arange(dim), (clients, dim))
    if not online:
        masks = _positions(table, "masks0", (clients, shared), dim)
    expected = table.get("expected", {})
    if not isinstance(expected, dict):
        raise InputError("expected", "is not an object", "give w and wk, or leave it out")
    return Case(
        name=str(table.get("name", "")),
        algorithm=table["algorithm"],
        features=Waves(_array(table, "W", (dim, taps)), _array(table, "b", (dim,))),
        x=_array(table, "x", (clients, rounds, taps)),
        y=_array(table, "y", (clients, rounds)),
        cohorts=_cohorts(table, clients, rounds),
        step=float(_array(table, "mu", ())),
        masks=masks,
        shift=0 if online else _shift(table),
        w0=_array(table, "w0", (dim,)),
        local0=local0,
        w=_array(expected, "w", (rounds + 1, dim)) if expected else None,
        local=_array(expected, "wk", (rounds + 1, clients, dim)) if expected else None,
    )


def _count(table: dict[str, Any], key: str) -> int:
    value = table.get(key)
    if type(value) is not int or value < 1:
        raise InputError(key, f"is {value!r}", "use a whole number above 0")
    return value


def _shift(table: dict[str, Any]) -> int:
    value = table.get("tau")
    if type(value) is not int:
        raise InputError("tau", f"is {value!r}", "use a whole number")
    return value


def _array(table: dict[str, Any], key: str, shape: tuple[int, ...]) -> Array:
    right = f"give finite numbers of shape {list(shape)}"
    if key not in table:
        raise InputError(key, "is missing", right)
    try:
        array = np.array(table[key], np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(key, "is ragged or not numeric", right) from None
    if array.shape != shape:
        raise InputError(key, f"has shape {list(array.shape)}", right)
    if not np.isfinite(array).all():
        raise InputError(key, "has a value that is not finite", right)
    return array


def _positions(table: dict[str, Any], key: str, shape: tuple[int, ...], below: int) -> Array:
    array = _array(table, key, shape)
    positions = array.astype(np.intp)
    if (positions != array).any() or positions.min() < 0 or positions.max() >= below:
        raise InputError(
            key, "has a value out of range", f"use whole numbers from 0 to {below - 1}"
        )
    if any(len(set(row)) < len(row) for row in positions.tolist()):
        raise InputError(key, "names a position twice", "give distinct positions")
    return positions


def _cohorts(table: dict[str, Any], clients: int, rounds: int) -> tuple[tuple[int, ...], ...]:
    rows = table.get("selected")
    right = f"give a list of distinct clients, from 0 to {clients - 1}, for each of {rounds} rounds"
    if not isinstance(rows, list) or len(rows) != rounds:
        raise InputError("selected", "is not a list with an entry for each round", right)
    for n, row in enumerate(rows):
        good = isinstance(row, list) and all(type(k) is int and 0 <= k < clients for k in row)
        if not good or len(set(row)) < len(row):
            raise InputError(f"selected[{n}]", f"is {row!r}", right)
    # Uploads are folded in client order, not in the order of the case.
    return tuple(tuple(sorted(row)) for row in rows)


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

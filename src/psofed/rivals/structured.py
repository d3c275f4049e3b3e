"""Structured updates: learn the update in a small random space, and send its coordinates.

Source: J. Konečný, H. B. McMahan, F. X. Yu, P. Richtárik, A. T. Suresh, D. Bacon, "Federated
learning: strategies for improving communication efficiency", 2016, arXiv 1610.05492.

Faithful: the mask and the low rank. A mask lets a client train M random entries. With a low rank
the update of the model as a matrix is A B, A random and known to both ends, and B is trained. Masks
and A are drawn afresh for each client and block, from the shared seed, so only values travel.

Ours: the model, a vector, is written as a matrix of `rows` rows, row by row. A has orthonormal
columns, so that full rank is FedAvg. The subspace, which is a low rank of a matrix with D rows, but
cheap: its A are fresh columns of one rotation a run (`form = "lowrank"` with `rows` = D draws each
A afresh). The original sends the seed of each A or mask; here both ends have it.

Unverified: the law of A, and whether the original rescales it; here the step is as given, also for
B, so that a small space learns more slowly at the same step, and is stable with a larger one.

Only the uplink shrinks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from psofed.contract import (
    Ahead,
    Array,
    Coded,
    Compressed,
    Indices,
    InputError,
    Learns,
    Message,
    Paced,
    State,
    Task,
    at_least_one,
    equations,
    geometric,
    subsets,
    whole,
)


@dataclass(frozen=True)
class Structured(Paced):
    """The kind of space, its number M of coordinates (rank times columns if low rank), and E."""

    name: ClassVar[str] = "structured"
    coded: ClassVar[Coded] = "down"
    learners: ClassVar[Learns] = "descending"
    form: Literal["mask", "subspace", "lowrank"] = "mask"  # of the space
    shared: int = 40  # M, its dimension
    rows: int | None = None  # of the model as a matrix; low rank only
    local_steps: int = 1  # E, rounds of a block

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """M = D/5, as a mask, as a subspace and as a low rank."""
        rows, m = shape_rows(dim, None), max(dim // 5, 1)
        return cls("mask", m), cls("subspace", m), cls("lowrank", max(rows // 5, 1) * dim // rows)

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """M that are also ranks, so that all forms can have them, and E."""
        rows = shape_rows(dim, None)
        ranks = geometric(1, rows)
        shared = tuple(rank * dim // rows for rank in ranks)
        return {**super().choices(dim, rounds), "shared": shared}

    @property
    def sharing(self) -> tuple[int | None, str]:
        """M."""
        return self.shared, ""

    def describe(self) -> str:
        names = {"mask": "Random mask", "subspace": "Random subspace", "lowrank": "Low rank"}
        steps = f" E={self.local_steps}" * (self.local_steps > 1)
        rows = f" of {self.rows} rows" if self.rows else ""
        return f"{names[self.form]} M={self.shared}{rows}{steps}"

    def check(self, dim: int, clients: int) -> None:
        """M fits; for low rank, the matrix has whole rows and columns."""
        at_least_one(self, "local_steps", "shared", "rows")
        if self.shared > dim:
            raise InputError("shared", f"is {self.shared}, but dim is {dim}", f"use 1 to {dim}")
        if self.form != "lowrank" and self.rows is not None:
            raise InputError("rows", f"is {self.rows}, but a {self.form} has none", "leave it out")
        if self.form == "lowrank":
            rows = shape_rows(dim, self.rows)
            if dim % rows or self.shared % (dim // rows):
                found = f"is {self.shared}, but a matrix of {rows} rows has {dim / rows:g} columns"
                right = "use a divisor of dim for rows, and a multiple of the columns for shared"
                raise InputError("shared", found, right)


Options = Structured


def shape_rows(dim: int, rows: int | None) -> int:
    """Rows of the matrix: as given, or the divisor of D next to sqrt(D/2) from above, 2 or more.

    >>> shape_rows(200, None), shape_rows(6, None), shape_rows(1, None)
    (10, 2, 1)
    """
    if rows is not None:
        return rows
    least = min(max(int(np.sqrt(dim / 2)), 2), dim)
    return next(d for d in range(least, dim + 1) if dim % d == 0)


class Method(Compressed):
    """B <- B + mu e A^T z from B = 0, with e of w = w_n + A B; B is sent, and U = A B.

    A has orthonormal columns, fresh for each client and block. Of a mask they are M of the
    identity; of a subspace, M of a random rotation. With a low rank r, z and U are matrices of
    these rows, A has r columns, and B is a matrix of M = r D / rows numbers.
    """

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.form, self.count = options.form, options.shared
        self.rows = shape_rows(task.dim, options.rows) if options.form == "lowrank" else task.dim
        self.rank = options.shared * self.rows // task.dim
        if options.form == "lowrank":
            self.spaces = Ahead(self._matrices, task.cohorts, self.rows * self.rank)
        else:
            self.spaces = Ahead(self._axes, task.cohorts, self.rank)
        if options.form == "subspace":
            normal = task.seeds.world.matrix("basis", self.rows, self.rows)
            self.basis = np.linalg.qr(normal)[0].astype(task.dtype)

    def client(self) -> State:
        """Also the space of this block: A, or which columns it has."""
        if self.form == "lowrank":
            return super().client() | {"space": self.task.zeros(self.rows, self.rank)}
        return super().client() | {"space": np.zeros(self.rank, np.int64)}

    def receive(self, client: State, k: Indices, n: int, message: Message) -> None:
        """w_k <- w_n, and a fresh space."""
        super().receive(client, k, n, message)
        client["space"][:] = self.spaces(k, n)

    def learn(self, client: State, x: Array, z: Array, y: Array) -> None:
        """Eq. (5), projected."""
        w, space = client["w"], client["space"]
        prediction, g = self.learner.both(w, z)
        change = equations.descent(y - prediction, self._coordinates(g, space), self.step)
        w += self._image(change, space)

    def pack(self, client: State, h: Array, k: Indices, n: int) -> Message:
        return whole(self._coordinates(h, client["space"]))

    def unpack(self, message: Message, k: Indices, n: int) -> Array:
        return self._image(message.values, self.spaces(k, n - n % self.pace))

    def _coordinates(self, v: Array, space: Array) -> Array:
        """A^T v: v is [..., D], A^T v is [..., M]."""
        head = v.shape[:-1]
        if self.form == "lowrank":
            matrix = v.reshape(*head, self.rows, self.task.dim // self.rows)
            return (_turned(space) @ matrix).reshape(*head, self.count)
        # With the whole basis, of which A is some columns: faster than gathering those.
        return (v if self.form == "mask" else v @ self.basis)[equations.at(space)]

    def _image(self, coordinates: Array, space: Array) -> Array:
        """A c: c is [..., M], A c is [..., D]."""
        head = coordinates.shape[:-1]
        if self.form == "lowrank":
            B = coordinates.reshape(*head, self.rank, self.task.dim // self.rows)
            return (space @ B).reshape(*head, self.task.dim)
        v = np.zeros((*head, self.task.dim), coordinates.dtype)
        v[equations.at(space)] = coordinates
        return v if self.form == "mask" else v @ _turned(self.basis)

    def _axes(self, k: Any, n: Any) -> Array:
        purpose = f"structured:{self.form}:{self.rank}"
        u = self.task.seeds.uniforms(purpose, client=k, round=n, count=self.rank)
        return subsets(u, self.rows)

    def _matrices(self, k: Any, n: Any) -> Array:
        """A fresh A for each client and round: the orthonormal part of a Gaussian matrix."""
        count = self.rows * self.rank
        normal = self.task.seeds.normals(f"lowrank:{self.rows}:{self.rank}", k, count, n)
        drawn = normal.reshape(*normal.shape[:-1], self.rows, self.rank)
        return np.linalg.qr(drawn)[0].astype(self.task.dtype)


def _turned(A: Array) -> Array:
    """A^T."""
    return A.swapaxes(-1, -2)

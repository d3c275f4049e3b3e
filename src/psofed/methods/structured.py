"""Structured updates: learn the update in a small random space, and send its coordinates.

J. Konečný, H. B. McMahan, F. X. Yu, P. Richtárik, A. T. Suresh, D. Bacon, "Federated learning:
strategies for improving communication efficiency", 2016. Spaces come from the shared seed, so only
coordinates travel; only the uplink shrinks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from psofed.core import equations
from psofed.core.schedule import Ahead
from psofed.core.seeds import subsets
from psofed.errors import InputError
from psofed.methods import fedavg
from psofed.methods.contract import Array, Learns, Message, State, Task, Who


@dataclass(frozen=True)
class Options(fedavg.Paced):
    """The kind of space, its number M of coordinates (rank times columns if low rank), and E."""

    name: ClassVar[str] = "structured"
    learners: ClassVar[Learns] = "descending"
    form: Literal["mask", "subspace", "lowrank"] = "mask"
    shared: int = 40
    rows: int | None = None
    local_steps: int = 1

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """M = D/5, as a mask and as a subspace."""
        return (cls("mask", m := max(dim // 5, 1)), cls("subspace", m))

    @property
    def sharing(self) -> tuple[int | None, str]:
        """M."""
        return self.shared, ""

    def describe(self) -> str:
        names = {"mask": "Random mask", "subspace": "Random subspace", "lowrank": "Low rank"}
        steps = f" E={self.local_steps}" * (self.local_steps > 1)
        return f"{names[self.form]} M={self.shared}{steps}"

    def check(self, dim: int, clients: int) -> None:
        """M fits; for low rank, the matrix has whole rows and columns."""
        fedavg.at_least_one(self, "local_steps", "shared", "rows")
        if self.shared > dim:
            raise InputError("shared", f"is {self.shared}, but dim is {dim}", f"use 1 to {dim}")
        if self.form == "lowrank":
            rows = shape_rows(dim, self.rows)
            if dim % rows or self.shared % (dim // rows):
                found = f"is {self.shared}, but a matrix of {rows} rows has {dim / rows:g} columns"
                right = "use a divisor of dim for rows, and a multiple of the columns for shared"
                raise InputError("shared", found, right)


def shape_rows(dim: int, rows: int | None) -> int:
    """Rows of the matrix: as given, or the divisor of D next to half its square root from above.

    >>> shape_rows(200, None)
    10
    """
    if rows is not None:
        return rows
    return next(d for d in range(max(int(np.sqrt(dim / 2)), 1), dim + 1) if dim % d == 0)


class Method(fedavg.Compressed):
    """U = c A A^T sum of the gradients, A orthonormal, so that U has the right mean (c = D/M).

    A mask trains M entries without rescaling; a subspace takes M columns of one random orthogonal
    matrix; a low rank takes columns of a smaller one for all columns of the model as a matrix.
    """

    stacked = True

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.form, self.shared = options.form, options.shared
        D, M = task.dim, options.shared
        self.rows = shape_rows(D, options.rows) if options.form == "lowrank" else D
        self.rank = M * self.rows // D
        self.axes = Ahead(self._axes, task.cohorts, self.rank)
        if options.form != "mask":
            size = self.task.cohorts.size
            self.step *= min(1.0, size * M / D)  # rescaled, the update is D/M times as noisy
            normal = task.seeds.world.matrix("basis", self.rows, self.rows)
            self.basis = np.linalg.qr(normal)[0].astype(task.dtype)

    def client(self, k: int) -> State:
        """Also the axes of this block's space."""
        return super().client(k) | {"axes": np.zeros(self.rank, np.int64)}

    def receive(self, client: State, k: Who, n: int, message: Message) -> None:
        """w_k <- w_n, and a fresh space."""
        super().receive(client, k, n, message)
        if message is not None:
            client["axes"][:] = self.axes(k, n)

    def learn(self, client: State, x: Array, z: Array, y: Any) -> None:
        """Eq. (5), projected."""
        w, axes = client["w"], client["axes"]
        prediction, g = self.learner.both(w, z)
        change = (self.step * (y - prediction))[..., None] * self._coordinates(g, axes)
        w += self._image(change if self.form == "mask" else change * (self.rows / self.rank), axes)

    def pack(self, client: State, h: Array, k: Who, n: int) -> Array:
        return self._coordinates(h, client["axes"])

    def unpack(self, message: Array, k: Who, n: int) -> Array:
        return self._image(message, self.axes(k, n - n % self.local_steps))

    def _coordinates(self, v: Array, axes: Array) -> Array:
        """A^T v: v is [..., D], A^T v is [..., M]."""
        head = v.shape[:-1]
        if self.form != "mask":
            # With the whole basis, of which A is some columns: faster than gathering those.
            v = self._turned(v, self.basis)
        return v.reshape(*head, self.rows, -1)[equations.at(axes)].reshape(*head, -1)

    def _image(self, coordinates: Array, axes: Array) -> Array:
        """A c: c is [..., M], A c is [..., D]."""
        head, D = coordinates.shape[:-1], self.task.dim
        full = np.zeros((*head, self.rows, D // self.rows), coordinates.dtype)
        full[equations.at(axes)] = coordinates.reshape(*head, self.rank, -1)
        v = full.reshape(*head, D)
        return v if self.form == "mask" else self._turned(v, self.basis.swapaxes(-1, -2))

    def _turned(self, v: Array, B: Array) -> Array:
        """B^T V, the model as a matrix V of these rows."""
        if self.rows == self.task.dim:
            return v @ B
        V = v.reshape(*v.shape[:-1], self.rows, -1)
        B = B if B.ndim == 2 else B[:, None]  # of several runs
        turned: Array = (V.swapaxes(-1, -2) @ B).swapaxes(-1, -2)
        return turned.reshape(v.shape)

    def _axes(self, k: Any, n: Any) -> Array:
        purpose = f"structured:{self.form}:{self.rank}"
        u = self.task.seeds.uniforms(purpose, client=k, round=n, count=self.rank)
        return subsets(u, self.rows)

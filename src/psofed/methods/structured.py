"""Structured updates: learn the update in a small random space, and send its coordinates.

J. Konečný, H. B. McMahan, F. X. Yu, P. Richtárik, A. T. Suresh, D. Bacon, "Federated learning:
strategies for improving communication efficiency", 2016. Spaces come from the shared seed, so only
coordinates travel; only the uplink shrinks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from psofed.core.seeds import subsets
from psofed.errors import InputError
from psofed.methods import fedavg
from psofed.methods.contract import Array, Common, Message, State, Task


@dataclass(frozen=True)
class Options(Common):
    """The kind of space, its M coordinates (rank times columns, if low rank), and E."""

    name: ClassVar[str] = "structured"
    knob: ClassVar[str] = "local_steps"
    form: Literal["mask", "subspace", "lowrank"] = "mask"
    shared: int = 40
    rows: int | None = None
    local_steps: int = 1

    def describe(self) -> str:
        names = {"mask": "Random mask", "subspace": "Random subspace", "lowrank": "Low rank"}
        steps = f" E={self.local_steps}" * (self.local_steps > 1)
        return f"{names[self.form]} M={self.shared}{steps}"

    def check(self, dim: int, clients: int) -> None:
        """M fits; a low rank has a shape."""
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

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(options, task)
        self.form, self.shared = options.form, options.shared
        D, M = task.dim, options.shared
        self.rows = shape_rows(D, options.rows) if options.form == "lowrank" else D
        self.rank = M * self.rows // D
        if options.form != "mask":
            size = getattr(self.task.cohorts, "size", 1)
            self.step *= min(1.0, size * M / D)  # rescaled, the update is D/M times as noisy
            normal = task.seeds.world.generator("basis").standard_normal((self.rows, self.rows))
            self.basis = np.linalg.qr(normal)[0].astype(task.dtype)

    def client(self, k: int) -> State:
        """And the axes of this block's space."""
        return super().client(k) | {"axes": np.zeros(self.rank, np.int64)}

    def receive(self, client: State, k: int, n: int, message: Message) -> None:
        """w_k <- w_n, and a fresh space."""
        super().receive(client, k, n, message)
        if message is not None:
            client["axes"][:] = self._axes(k, n)

    def learn(self, client: State, x: Array, z: Array, y: Any) -> None:
        """Eq. (5), projected."""
        w = client["w"]
        error = y - w @ z
        if self.form == "mask":
            axes = client["axes"]
            w[axes] += self.step * error * z[axes]
        else:
            A = self.basis[:, client["axes"]]
            gradient = A @ (A.T @ z.reshape(self.rows, -1))
            w += (self.step * error * (self.rows / self.rank)) * gradient.reshape(-1)

    def pack(self, client: State, h: Array, k: int, n: int) -> Array:
        if self.form == "mask":
            return h[client["axes"]]
        A = self.basis[:, client["axes"]]
        coordinates: Array = (A.T @ h.reshape(self.rows, -1)).reshape(-1)
        return coordinates

    def unpack(self, message: Array, k: int, n: int) -> Array:
        axes = self._axes(k, n - n % self.local_steps)
        if self.form == "mask":
            update = np.zeros(self.task.dim, message.dtype)
            update[axes] = message
            return update
        image: Array = (self.basis[:, axes] @ message.reshape(self.rank, -1)).reshape(-1)
        return image

    def _axes(self, k: int, n: int) -> Array:
        purpose = f"structured:{self.form}:{self.rank}"
        u = self.task.seeds.uniforms(purpose, client=k, round=n, count=self.rank)
        return subsets(u, self.rows)

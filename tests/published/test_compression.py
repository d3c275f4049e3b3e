"""Compressed and structured updates, transcribed from their papers in plain loops."""

from math import floor, sqrt

import numpy as np
import pytest

from helpers.drawn import STEP, K, agree, drawn, federated, learned
from psofed.core.seeds import subsets
from psofed.rivals import qsgd, sketch, structured, topk

DIMS = [12, 16]


def between(position, u):
    """One of the two whole numbers next to `position`, so that the mean is right."""
    below = floor(position)
    return below + 1 if u >= 1 - (position - below) else below


def subset(data, purpose, k, n, size, population):
    u = data.seeds.uniforms(purpose, client=k, round=n, count=size)
    return subsets(u, population).tolist()


def hadamard(v):
    """H v / sqrt(m), H_ij = (-1)^(number of common ones of i and j in binary)."""
    m = len(v)
    rows = [[(-1) ** (i & j).bit_count() for j in range(m)] for i in range(m)]
    return [sum(h * x for h, x in zip(row, v, strict=True)) / sqrt(m) for row in rows]


def quantised(values, bits, u):
    """Suresh et al.: k = 2^bits levels from the least to the largest value, at random."""
    low, high, top = min(values), max(values), 2**bits - 1
    if low == high:
        return values
    width = (high - low) / top
    levels = [between((v - low) / width, r) for v, r in zip(values, u, strict=True)]
    return [low + width * level for level in levels]


def sketched(data, k, n, h, bits, shared, rotate):
    """Rotate, take M entries times D/M, quantise; then back."""
    size = len(h)
    if rotate:
        size = 1
        while size < len(h):
            size *= 2
        draw = data.seeds.uniforms("signs", client=k, round=n, count=size)
        signs = [-1 if u < 0.5 else 1 for u in draw]
        h = hadamard([s * x for s, x in zip(signs, [*h, *[0.0] * (size - len(h))], strict=True)])
    kept = list(range(size))
    if shared is not None and shared < size:
        kept = subset(data, f"subsample:{shared}", k, n, shared, size)
    values = [h[j] * size / len(kept) for j in kept]
    if bits is not None:
        luck = data.seeds.uniforms("sketch", client=k, round=n, count=len(kept))
        values = quantised(values, bits, luck)
    full = [0.0] * size
    for j, value in zip(kept, values, strict=True):
        full[j] = value
    if rotate:
        full = [s * x for s, x in zip(signs, hadamard(full), strict=True)]
    return np.array(full[: data.z.shape[-1]])


SKETCHES = [
    {"bits": 1},
    {"bits": 2, "local_steps": 3},
    {"bits": None, "shared": 8},
    {"bits": 1, "rotate": True},
    {"bits": 2, "rotate": True, "shared": 10, "local_steps": 2},
]


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("setting", SKETCHES, ids=str)
def test_sketched_updates_are_those_of_konecny(setting, dim):
    options = sketch.Options(**setting)
    data, simulated = drawn(options, dim)

    def update(data, k, first, last, w):
        h = learned(data, k, first, last, w)
        return sketched(data, k, last, h, options.bits, options.shared, options.rotate)

    agree(federated(data, options.local_steps, update), simulated)


def orthonormal(matrix):
    """Columns by Gram and Schmidt, twice for their rounding."""
    columns = [np.array(c, float) for c in np.transpose(matrix)]
    for _ in range(2):
        for i, c in enumerate(columns):
            for before in columns[:i]:
                c = c - sum(a * b for a, b in zip(before, c, strict=True)) * before
            columns[i] = c / sqrt(sum(a * a for a in c))
    return np.transpose(columns)


def trained(data, k, first, last, w, space):
    """Only the coordinates c of the update A c are trained, from 0, by gradient steps."""
    c = np.zeros(space.shape[1])
    for n in range(first, last + 1):
        z, y = data.z[k][n], data.y[k][n]
        v = w + space @ c
        e = y - sum(a * b for a, b in zip(v, z, strict=True))
        c = c + STEP * e * (space.T @ z)
    return space @ c


STRUCTURES = [
    ("mask", 4, None, 1), ("mask", 5, None, 3), ("subspace", 4, None, 1), ("subspace", 6, None, 2),
    ("lowrank", 4, 4, 1), ("lowrank", 8, 2, 3), ("lowrank", 3, "dim", 2),
]  # fmt: skip


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize(("form", "shared", "rows", "steps"), STRUCTURES)
def test_structured_updates_are_those_of_konecny(form, shared, rows, steps, dim):
    rows = dim if rows == "dim" else rows
    shared = shared if rows in (None, dim) else max(rows // 2, 1) * dim // rows
    options = structured.Options(form, shared, rows, steps)
    data, simulated = drawn(options, dim)
    rank = shared * (rows or dim) // dim
    turned = orthonormal(data.seeds.matrix("basis", dim, dim))

    def space(k, n):
        """A for the model as a vector."""
        if form == "lowrank":
            normal = data.seeds.normals(f"lowrank:{rows}:{rank}", k, rows * rank, n)
            A = orthonormal(normal.reshape(rows, rank))
            # vec(A B), row by row, is (A kron I) vec(B).
            return np.kron(A, np.eye(dim // rows))
        columns = subset(data, f"structured:{form}:{rank}", k, n, shared, dim)
        return (np.eye(dim) if form == "mask" else turned)[:, columns]

    def update(data, k, first, last, w):
        return trained(data, k, first, last, w, space(k, first))

    agree(federated(data, steps, update), simulated)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize(("kept", "memory", "steps"), [(1, 1.0, 1), (3, 0.5, 2), (5, 0.0, 1)])
def test_top_k_keeps_what_it_does_not_send(kept, memory, steps, dim):
    options = topk.Options(kept, memory, steps)
    data, simulated = drawn(options, dim)
    rest = {k: [0.0] * dim for k in range(K)}

    def update(data, k, first, last, w):
        h = learned(data, k, first, last, w)
        v = [a + b for a, b in zip(h, rest[k], strict=True)]
        order = sorted(range(dim), key=lambda j: (-abs(v[j]), j))
        sent = set(order[:kept])
        rest[k] = [0.0 if j in sent else memory * v[j] for j in range(dim)]
        return np.array([v[j] if j in sent else 0.0 for j in range(dim)])

    agree(federated(data, steps, update), simulated)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize(("levels", "steps"), [(1, 1), (3, 1), (15, 3), (4, 2)])
def test_qsgd_and_fedpaq_send_levels_of_the_norm(levels, steps, dim):
    options = qsgd.Options(levels, steps)
    data, simulated = drawn(options, dim)

    def update(data, k, first, last, w):
        h = learned(data, k, first, last, w)
        norm = sqrt(sum(v * v for v in h))
        u = data.seeds.uniforms("qsgd", client=k, round=last, count=dim)
        chosen = [between(levels * abs(v) / norm, r) for v, r in zip(h, u, strict=True)]
        return np.array(
            [norm * (1 if v > 0 else -1) * c / levels for v, c in zip(h, chosen, strict=True)]
        )

    agree(federated(data, steps, update), simulated)

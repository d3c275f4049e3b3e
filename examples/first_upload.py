"""Which samples follow from a client's first upload of MEMO-Fed: an inversion of its gradient.

The gradient of n samples is g = sum_t a_t u(x_t) with a_t = (y_t - u_t^T r) / n, of features
u = T^T z, known to a few bits. The moments of the inputs are L + 1 more equations (of columns,
L (L + 3) / 2), in half precision.

    python examples/first_upload.py --samples 1 2 4 8

plays clients of the paper's stream that send after so many samples, and prints how many of these
are found. (By default nothing leaves a client before it has 42.)
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.features import Whitened
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.federation.clients import stacked
from psofed.federation.contract import rows
from psofed.methods import memofed
from psofed.privacy import inversion
from psofed.privacy.inversion import READ, Guess, InverseProblem, invert, pose
from psofed.simulate.draws import draw

Array = NDArray[Any]
HALF = 2.0**-11  # relative rounding of half precision


def problem(method: memofed.Method, message: Array, count: int) -> InverseProblem:
    """The inverse problem of a first upload after `count` samples.

    Of windows of one signal, the samples are taken to follow each other.
    """
    values, _, moments = np.split(message, [method.values.entries, method.values.entries + 1])
    if not len(values):
        raise InputError("message", "has no values", "take the first upload that has some")
    taps, signal = method.task.taps, len(moments) == method.curvature.numbers(signal=True)
    layout = (inversion.delayed if signal else inversion.apart)(count, taps)
    # In the first upload V is the identity and h is 0: it is the gradient itself.
    change, noise = method.values.restore(values), rounding(method, values)
    means = method.curvature.means(signal)
    square = moments[means] if signal else moments[means:][_diagonal(taps)]
    guess = Guess(moments[:means], np.sqrt(np.maximum(square, 1e-2)), 1 / count)
    basis = Whitened(method.task.features, method.T)
    posed = pose(basis, np.arange(method.size), change, layout, guess, noise)
    posed = replace(posed, at=_whitened(basis))
    return replace(posed, clue=_moments(moments, taps, signal), clues=len(moments))


def _whitened(features: Whitened) -> inversion.Tangent:
    """u = T^T z and its slopes, by those of z."""
    below = inversion.tangent(features.base, np.arange(features.base.dim))

    def at(x: Array) -> tuple[Array, Array]:
        z, slope = below(x)
        return z @ features.T, slope @ features.T

    return at


def labels(method: memofed.Method, x: Array, a: Array, reference: Array) -> Array:
    """y_t = n a_t + u_t^T r."""
    u = Whitened(method.task.features, method.T)(x)
    found: Array = len(a) * a + u @ reference
    return found


def rounding(method: memofed.Method, values: Array) -> Array:
    """Deviation of what each value may have been: of b bits, within the step of its level."""
    bits = method.options.bits
    if bits is None:
        eps = float(np.finfo(method.task.wire).eps)
        return np.abs(values) * (eps / 3) + 1e-12
    restored, half = np.abs(method.values.restore(values)), 2 ** (bits - 1)
    level = values[1:] // 2
    # v = s ((level + 1/2) / H)^2 stands for s level^2 / H^2 to s (level + 1)^2 / H^2.
    scale = restored / np.square((level + 0.5) / half)
    found: Array = scale * (2 * level + 1) / half**2 / np.sqrt(12)
    return found


def _diagonal(taps: int) -> Array:
    """Where variances stand among the covariances of columns, row by row."""
    return np.cumsum([0, *range(taps, 1, -1)])


def _moments(stated: Array, taps: int, signal: bool) -> inversion.Clue:
    """Means and covariances of the inputs, against those that were stated."""
    noise = np.abs(stated) * HALF / np.sqrt(3) + 1e-6
    lags = range(taps)
    if signal:
        masks = np.array([np.eye(taps, k=lag) / (taps - lag) for lag in lags])
        spreads = np.full((1, taps), 1 / taps)  # one mean, over all inputs
    else:
        rows, columns = np.triu_indices(taps)
        masks = np.zeros((len(rows), taps, taps))
        masks[np.arange(len(rows)), rows, columns] = 1.0
        spreads = np.eye(taps)
    twice = masks + np.swapaxes(masks, 1, 2)

    def clue(x: Array) -> tuple[Array, Array]:
        count = x.shape[-2]
        means = x.mean(axis=-2) @ spreads.T  # [..., means]
        mean = np.broadcast_to(means, (*means.shape[:-1], taps))
        square = np.swapaxes(x, -1, -2) @ x / count
        C = square - mean[..., :, None] * mean[..., None, :]
        misses = np.concatenate([means, np.einsum("kij,...ij->...k", masks, C)], axis=-1) - stated
        # d C_k / d x_t = (P + P^T)(x_t - m) / n; of one mean for all inputs, its share of m.
        by_square = np.einsum("kij,...tj->...tik", twice, x)
        by_mean = np.einsum("kij,...j->...ik", twice, mean)
        if signal:
            by_mean = np.broadcast_to(by_mean.sum(axis=-2, keepdims=True) / taps, by_mean.shape)
        slopes = np.concatenate(
            [np.broadcast_to(spreads.T, (*x.shape, len(spreads))),
             by_square - by_mean[..., None, :, :]], axis=-1,
        ) / count  # fmt: skip
        return misses / noise, slopes / noise

    return clue


def upload(
    count: int, client: int = 0, **options: Any
) -> tuple[memofed.Method, Array, Array, Array]:
    """The first upload of a client after `count` samples, from its bytes; and x and y of these."""
    chosen = memofed.Options(**{"least": 1} | options)
    experiment = Experiment(
        rounds=max(count, 2), runs=1, seed=3, dtype="float64", methods=(chosen,)
    )
    task = experiment.task(0)
    method = memofed.Method(chosen, task)
    (chunk,) = draw(experiment, task, everybody=True).chunks()
    x, y, state = chunk.x[client, :count], chunk.y[client, :count], stacked(method.client(), 1)
    method.learn(state, x[None], task.features(x)[None], y[None])
    k = np.array([client])
    method.receive(state, k, 0, rows([np.empty(0)]))
    message = method.upload(state, k, count - 1).row(0)
    assert message is not None
    sent = method.encode(message, up=True)
    return method, method.values.decode(sent, up=True), x, y


def main() -> None:
    """Print the share of samples that are found, by the number of samples in the upload."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--clients", type=int, default=5)
    asked = parser.parse_args()
    for count in asked.samples:
        found = []
        for k in range(asked.clients):
            method, message, x, _ = upload(count, k)
            posed = problem(method, message, count)
            read = invert(posed, Seeds(0).generator("audit", client=k))
            off = np.abs(read.x[:, None] - x).max(axis=-1).min(axis=0)
            found.append((off <= READ * x.std()).mean())
        counts = f"{posed.equations} equations, {posed.unknowns} unknowns"
        print(f"{count} samples, {counts}: {100 * np.mean(found):.0f} % are found")


if __name__ == "__main__":
    main()

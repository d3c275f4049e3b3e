"""The rules of a stream: its samples depend on seed, client and round, and on nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.checks.bench import exchange, stepwise
from psofed.checks.bench import small as small_world
from psofed.checks.rules import largest, only_if, require
from psofed.core import features
from psofed.core.seeds import Seeds
from psofed.methods import onlinefed
from psofed.streams.contract import BLOCK, Samples, Stream, about, measured, varies

Array = NDArray[Any]
SOME = np.arange(4)


def _known(stream: Stream) -> int:
    return len(about(stream).clients_named())


def _drawn(stream: Stream) -> None:
    only_if(not measured(stream), "its samples were measured")


def samples_have_their_form(stream: Stream) -> None:
    """Samples have x [K, N, L] and y [K, N] of the type asked for, finite, L = taps."""
    _drawn(stream)
    taps: object = stream.taps  # whatever the plug-in gives
    require(isinstance(taps, int) and taps > 0, f"taps is {taps!r}")
    for dtype in (np.float32, np.float64):
        made = stream.samples(Seeds(0), SOME, 0, 7, dtype)
        shape = (len(SOME), 7, stream.taps)
        require(made.x.shape == shape, f"x has shape {made.x.shape}, not {shape}")
        for name, array in (("f(x)", made.clean), ("the noise", made.noise)):
            require(array.shape == shape[:2], f"{name} has shape {array.shape}, not {shape[:2]}")
        for name, array in (("x", made.x), ("y", made.y)):
            require(array.dtype == dtype, f"{name} is {array.dtype} where {np.dtype(dtype)} is due")
        require(np.isfinite(made.x).all(), "x is not finite everywhere")
        finite = np.isfinite(made.y).all()
        require(finite or about(stream).gaps, "y is not finite, and no `gaps` are declared")


def seeds_decide(stream: Stream) -> None:
    """The same seed gives the same bits, and another one does not."""
    _drawn(stream)
    first, again = (stream.samples(Seeds(2), SOME, 0, 30, np.float64) for _ in range(2))
    require(np.array_equal(first.x, again.x), "a second drawing gives other inputs")
    require(np.array_equal(first.y, again.y, equal_nan=True), "a second drawing gives other y")
    for seeds in (Seeds(3), Seeds(2, 1)):
        other = stream.samples(seeds, SOME, 0, 30, np.float64)
        require(not np.array_equal(first.y, other.y), "another seed or run gives the same y")


def earlier_samples_stay(stream: Stream) -> None:
    """More rounds or more clients never change earlier samples."""
    _drawn(stream)
    only_if(not _known(stream), "its clients are given")
    for short, more in ((1, 1), (5, 30), (40, BLOCK)):
        few = stream.samples(Seeds(0), np.array([7]), 0, short, np.float64)
        many = stream.samples(Seeds(0), np.array([3, 7, 900_000]), 0, short + more, np.float64)
        same = np.array_equal(few.x[0], many.x[1, :short])
        require(same, f"x of {short} rounds changes with {more} more rounds and two more clients")
        same = np.array_equal(few.y[0], many.y[1, :short], equal_nan=True)
        require(same, f"y of {short} rounds changes with {more} more rounds and two more clients")


def parts_are_the_whole(stream: Stream) -> None:
    """A stream that is read in blocks is the stream read at once."""
    _drawn(stream)
    for blocks, more in ((1, 3), (2, 300)):
        middle, seeds = blocks * BLOCK, Seeds(0)
        whole = stream.samples(seeds, SOME, 0, middle + more, np.float64)
        first = stream.samples(seeds, SOME, 0, middle, np.float64)
        rest = stream.samples(seeds, SOME, middle, middle + more, np.float64, first.memory)
        for name in ("x", "y"):
            joined = np.hstack([getattr(first, name), getattr(rest, name)])
            same = np.allclose(joined, getattr(whole, name), rtol=0, atol=1e-13, equal_nan=True)
            require(same, f"{name} differs if it is read in two parts, at round {middle}")


def some_clients_go_on(stream: Stream) -> None:
    """The memory can be cut to some of the clients, who go on as before."""
    _drawn(stream)
    whole = stream.samples(Seeds(0), SOME, 0, BLOCK + 9, np.float64)
    memory = stream.samples(Seeds(0), SOME, 0, BLOCK, np.float64).memory
    rows = np.array([1, 3])
    cut = None if memory is None else memory[rows]
    rest = stream.samples(Seeds(0), SOME[rows], BLOCK, BLOCK + 9, np.float64, cut)
    same = np.allclose(rest.y, whole.y[rows, BLOCK:], rtol=0, atol=1e-13, equal_nan=True)
    require(same, "two of four clients get other samples after the first block")


def snapshots_have_their_form(stream: Stream) -> None:
    """A snapshot has as many samples as asked for, of all clients or of some of them."""
    _drawn(stream)
    for clients in (3, 1000, np.array([2, 5])):
        if not (_known(stream) and isinstance(clients, int)):
            made = stream.snapshot(Seeds(0), "test", clients, 20)
            require(made.x.shape == (20, stream.taps), f"x has shape {made.x.shape} for 20")
            require(made.clean.shape == (20,), f"f(x) has shape {made.clean.shape} for 20")
            require(np.isfinite(made.clean).all(), "f(x) is not finite everywhere")


def worlds_are_shared(stream: Stream) -> None:
    """Runs of one world share its test set, and nothing that happens in a run."""
    _drawn(stream)
    one, two = Seeds(7, 1, shared_world=3), Seeds(7, 2, shared_world=3)
    first, again = (stream.snapshot(seeds, "test", 5, 9).x for seeds in (one, two))
    require(np.array_equal(first, again), "the test sets of two runs of one world differ")
    first, again = (stream.samples(seeds, SOME, 0, 5, np.float64).x for seeds in (one, two))
    require(not np.array_equal(first, again), "two runs of one world have the same samples")


def purposes_are_apart(stream: Stream) -> None:
    """Snapshots for two purposes are independent."""
    _drawn(stream)
    one, two = (stream.snapshot(Seeds(0), what, 5, 20).x for what in ("test", "centres"))
    require(not np.array_equal(one, two), "they are the same samples")


def the_test_set_is_of_what_is_learned(stream: Stream) -> None:
    """The test set is of the function that is learned."""
    _drawn(stream)
    only_if(not varies(stream), "its f changes over time")
    only_if(not about(stream).gaps, "it has gaps")
    many, seeds = np.arange(8), Seeds(1)
    made = stream.samples(seeds, many, 0, 8 * BLOCK, np.float64)
    x, y = made.x.reshape(-1, stream.taps), made.clean.reshape(-1)
    width = float(np.sqrt(stream.taps) * x.std()) or 1.0
    z = features.cosine(seeds, 200, stream.taps, width)
    learned, later = slice(0, None, 2), slice(1, None, 2)
    gram = z(x[learned]).T @ z(x[learned]) + 1e-3 * np.eye(200)
    w = np.linalg.solve(gram, z(x[learned]).T @ y[learned])
    own = np.mean((y[later] - z(x[later]) @ w) ** 2)
    test: Samples = stream.snapshot(seeds, "test", len(many), 2000)
    error = np.mean((test.clean - z(test.x) @ w) ** 2)
    spread = float(np.var(y)) or 1.0
    words = f"a model with error {own:.2g} on samples has {error:.2g} on the test set"
    require(error <= 4 * own + 0.02 * spread, f"{words}; is `snapshot` of another f or other x?")


def declared_laws_are_true(stream: Stream) -> None:
    """The law of the inputs, if it is declared, is what the samples show."""
    law = about(stream).input_law(Seeds(4), SOME)
    only_if(law is not None, "none is declared")
    assert law is not None
    mean, covariance = law
    x = stream.samples(Seeds(4, 1, shared_world=0), SOME, 0, 16_384, np.float64).x
    scale = np.sqrt(np.einsum("kii->ki", covariance))
    # Neighbouring windows may say nearly the same: one in 20 counts.
    off = np.abs(x.mean(axis=1) - mean) / scale
    require(off.max() <= 5 * np.sqrt(20 / 16_384), f"a mean is off by {off.max():.2g} deviations")
    for k in range(len(SOME)):
        apart = np.abs(np.cov(x[k].T) - covariance[k]) / np.outer(scale[k], scale[k])
        words = f"a covariance of client {k} is off by {apart.max():.2g}"
        require(apart.max() <= 5 * np.sqrt(2 * 20 / 16_384), words)


def methods_run_on_it(stream: Stream) -> None:
    """A method learns from it, and simulation and messages agree."""
    known = _known(stream)
    settings: dict[str, Any] = {"clients": known, "cohort": 1} if known else {}
    experiment = small_world(onlinefed.Options(step=0.1), stream=stream, **settings)
    simulated = stepwise(experiment)
    require(np.abs(simulated).max() > 0, "the model stays 0")
    apart = largest(exchange(experiment).models, simulated)
    require(apart <= 1e-12, f"the models differ by {apart:.1e}")


RULES = (
    samples_have_their_form, seeds_decide, earlier_samples_stay, parts_are_the_whole,
    some_clients_go_on, snapshots_have_their_form, worlds_are_shared, purposes_are_apart,
    the_test_set_is_of_what_is_learned, declared_laws_are_true, methods_run_on_it,
)  # fmt: skip

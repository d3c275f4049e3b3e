"""The rules of streams, learners and sample checks: what samples are, and what is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from psofed.cli.laws.drivers import exchange, largest, small, stepwise
from psofed.cli.laws.rules import BrokenError, applies, close, goes_on, require
from psofed.core import features
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.federation.contract import Array, Task
from psofed.federation.foreign import call, real, shaped
from psofed.federation.learners.contract import Learner
from psofed.methods import onlinefed, psofed
from psofed.stages.checks.contract import VERDICTS, Memory, SampleCheck, judged
from psofed.streams.contract import BLOCK, Samples, Stream, about, measured, snapshot
from psofed.streams.contract import samples as drawn

SOME = np.arange(4)


def _known(stream: Stream) -> int:
    return len(about(stream).clients_named())


def _measured(stream: Stream) -> str:
    return "its samples were measured" if measured(stream) else ""


@applies(_measured)
def samples_have_their_form(stream: Stream) -> None:
    """Samples have x [K, N, L] and y [K, N] of the type asked for, snapshots x [N, L], finite."""
    taps: object = stream.taps  # whatever the plug-in gives
    require(isinstance(taps, int) and taps > 0, f"taps is {taps!r}")
    for dtype in (np.float32, np.float64):
        made = drawn(stream, Seeds(0), SOME, 0, 7, dtype)
        shape = (len(SOME), 7, stream.taps)
        require(made.x.shape == shape, f"x has shape {made.x.shape}, not {shape}")
        for name, array in (("f(x)", made.clean), ("the noise", made.noise)):
            require(array.shape == shape[:2], f"{name} has shape {array.shape}, not {shape[:2]}")
        for name, array in (("x", made.x), ("y", made.y)):
            require(array.dtype == dtype, f"{name} is {array.dtype}, not {np.dtype(dtype)}")
        require(np.isfinite(made.x).all(), "x is not finite everywhere")
        finite = np.isfinite(made.y).all()
        require(finite or about(stream).gaps, "y is not finite, and no `gaps` are declared")
    for clients in (3, 1000, np.array([2, 5])):
        if not (_known(stream) and isinstance(clients, int)):
            test = snapshot(stream, Seeds(0), "test", clients, 20)
            require(test.x.shape == (20, taps), f"x of a snapshot has shape {test.x.shape} for 20")
            require(test.clean.shape == (20,), f"f(x) has shape {test.clean.shape} for 20")
            require(np.isfinite(test.clean).all(), "f(x) is not finite everywhere")


@applies(_measured)
def samples_follow_the_seed(stream: Stream) -> None:
    """The same seed gives the same bits, and another one does not."""
    first, again = (drawn(stream, Seeds(2), SOME, 0, 30, np.float64) for _ in range(2))
    require(np.array_equal(first.x, again.x), "a second drawing gives other inputs")
    require(np.array_equal(first.y, again.y, equal_nan=True), "a second drawing gives other y")
    for seeds in (Seeds(3), Seeds(2, 1)):
        other = drawn(stream, seeds, SOME, 0, 30, np.float64)
        require(not np.array_equal(first.y, other.y), "another seed or run gives the same y")


@applies(lambda stream: _measured(stream) or "its clients are given" * bool(_known(stream)))
def earlier_samples_stay(stream: Stream) -> None:
    """More rounds or more clients never change earlier samples."""
    for short, more in ((1, 1), (5, 30), (40, BLOCK)):
        few = drawn(stream, Seeds(0), np.array([7]), 0, short, np.float64)
        many = drawn(stream, Seeds(0), np.array([3, 7, 900_000]), 0, short + more, np.float64)
        same = np.array_equal(few.x[0], many.x[1, :short])
        require(same, f"x of {short} rounds changes with {more} more rounds and two more clients")
        same = np.array_equal(few.y[0], many.y[1, :short], equal_nan=True)
        require(same, f"y of {short} rounds changes with {more} more rounds and two more clients")


@applies(_measured)
def parts_are_the_whole(stream: Stream) -> None:
    """A stream that is read in blocks, then for some of its clients, is the stream read at once."""
    for middle, more in ((BLOCK, 3), (2 * BLOCK, 300)):
        whole = drawn(stream, Seeds(0), SOME, 0, middle + more, np.float64)
        memory = drawn(stream, Seeds(0), SOME, 0, middle, np.float64).memory
        for rows in (SOME, np.array([1, 3])):
            cut = None if memory is None else memory[rows]
            rest = drawn(stream, Seeds(0), SOME[rows], middle, middle + more, np.float64, cut)
            for name in ("x", "y"):
                both = getattr(rest, name), getattr(whole, name)[rows, middle:]
                same = np.allclose(*both, rtol=0, atol=1e-13, equal_nan=True)
                found = f"{name} of clients {rows.tolist()} differs if it is read in two parts"
                require(same, f"{found}, at round {middle}")


@applies(_measured)
def worlds_are_shared(stream: Stream) -> None:
    """Runs of one world share its test set, which is drawn for nothing else, and no samples."""
    one, two = Seeds(7, 1, shared_world=3), Seeds(7, 2, shared_world=3)
    first, again = (snapshot(stream, seeds, "test", 5, 9).x for seeds in (one, two))
    require(np.array_equal(first, again), "the test sets of two runs of one world differ")
    other = snapshot(stream, one, "centres", 5, 9).x
    require(not np.array_equal(first, other), "a snapshot for another purpose has the same samples")
    first, again = (drawn(stream, seeds, SOME, 0, 5, np.float64).x for seeds in (one, two))
    require(not np.array_equal(first, again), "two runs of one world have the same samples")


def _not_one_function(stream: Stream) -> str:
    changes = "its f changes over time" if about(stream).changes else ""
    return _measured(stream) or changes or ("it has gaps" if about(stream).gaps else "")


@applies(_not_one_function)
def the_test_set_is_of_what_is_learned(stream: Stream) -> None:
    """The test set is of the function that is learned."""
    many, seeds = np.arange(8), Seeds(1)
    made = drawn(stream, seeds, many, 0, 8 * BLOCK, np.float64)
    x, y = made.x.reshape(-1, stream.taps), made.clean.reshape(-1)
    width = float(np.sqrt(stream.taps) * x.std()) or 1.0
    z = features.cosine(seeds, 200, stream.taps, width)
    learned, later = slice(0, None, 2), slice(1, None, 2)
    gram = z(x[learned]).T @ z(x[learned]) + 1e-3 * np.eye(200)
    w = np.linalg.solve(gram, z(x[learned]).T @ y[learned])
    own = np.mean((y[later] - z(x[later]) @ w) ** 2)
    test: Samples = snapshot(stream, seeds, "test", len(many), 2000)
    error = np.mean((test.clean - z(test.x) @ w) ** 2)
    spread = float(np.var(y)) or 1.0
    words = f"a model with error {own:.2g} on samples has {error:.2g} on the test set"
    require(error <= 4 * own + 0.02 * spread, f"{words}; is `snapshot` of another f or other x?")


@applies(lambda stream: "none is declared" * (about(stream).input_law(Seeds(4), SOME) is None))
def declared_laws_are_true(stream: Stream) -> None:
    """The law of the inputs, if it is declared, is what the samples show."""
    law = about(stream).input_law(Seeds(4), SOME)
    assert law is not None
    mean, covariance = law
    x = drawn(stream, Seeds(4, 1, shared_world=0), SOME, 0, 16_384, np.float64).x
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
    experiment = small(onlinefed.Options(step=0.1), stream=stream, **settings)
    simulated = stepwise(experiment)
    require(np.abs(simulated).max() > 0, "the model stays 0")
    close(exchange(experiment).models, simulated, "sent and simulated models")


STREAM = (
    samples_have_their_form, samples_follow_the_seed, earlier_samples_stay, parts_are_the_whole,
    worlds_are_shared, the_test_set_is_of_what_is_learned, declared_laws_are_true,
    methods_run_on_it,
)  # fmt: skip


STEP, TINY = 0.05, 1e-3
MODELS = 3  # with which a learner is tried
CLOSE = 1e-6  # relative to the largest number


def _world(learner: Learner, **changes: Any) -> Experiment:
    features = Features(dim=10, width=1.5) if learner.featured else Features()
    half = psofed.Options(shared=1, allow_uneven=True)
    return small(half, **{"learner": learner, "features": features, "step": STEP} | changes)


def arrays_have_their_shapes(learner: Learner) -> None:
    """Arrays have the shapes of the contract, axes broadcast, and what is declared holds."""
    task = _world(learner).task(0)
    try:
        w, z = _models(learner, task)
        _predicts(learner, w, z)
        _learns(learner, w, z)
    except InputError as error:
        raise BrokenError(str(error)) from None


def _models(learner: Learner, task: Task) -> tuple[Array, Array]:
    """Some models near the first one, and a point for each."""
    dim, width = task.dim, task.features.dim
    if learner.linear and width != dim:
        found = f"size is {dim}, but z has {width} entries, and the model is w^T z, as linear says"
        raise BrokenError(found)
    runs = [Seeds(0, run, shared_world=0) for run in (1, 1, 2)]
    drawn = [call("initial", learner.initial, seeds, task.taps, dim) for seeds in runs]
    first, *others = (real("initial", each, (dim,)).astype(np.float64) for each in drawn)
    same = all(np.array_equal(first, each) for each in others)
    right = "draw from seeds.world.generator only"
    require(same, f"initial gives two models for the same seeds; {right}")
    rng = np.random.default_rng(0)
    z = rng.standard_normal((MODELS, width))
    return first + 0.1 * rng.standard_normal((MODELS, dim)), z


def _predicts(learner: Learner, w: Array, z: Array) -> None:
    """Many models at their points are each by itself."""
    together = shaped("predict", call("predict", learner.predict, w, z), (MODELS,))
    for i in range(MODELS):
        alone = shaped("predict", call("predict", learner.predict, w[i], z[i]), ())
        many = shaped("predict", call("predict", learner.predict, w[i], z), (MODELS,))
        _same("predict", (alone, many[i]), together[i], "leading axes have to broadcast")
    if learner.linear:
        right = "it is not w^T z, as linear says: leave out linear = True"
        _same("predict", together, np.vecdot(w, z), right)


def _learns(learner: Learner, w: Array, z: Array) -> None:
    """A step does what was declared."""
    stepped, prediction = w.copy(), np.asarray(learner.predict(w, z))
    y = prediction + 1
    errors = shaped("learn", call("learn", learner.learn, stepped, z, y, TINY), (MODELS,))
    _same("learn", errors, y - prediction, "it has to return y - prediction, of before the step")
    require(not np.array_equal(stepped, w), "learn changes nothing; change w in place: w += ...")
    for i in range(MODELS):
        one = w[i].copy()
        call("learn", learner.learn, one, z[i], y[i], TINY)
        _same("learn", one, stepped[i], "leading axes have to broadcast")
    if learner.descends:
        g = shaped("direction", call("direction", learner.direction, w, z), w.shape)
        right = "it is not w + mu e direction(w, z), as descends says: leave out descends = True"
        _same("learn", stepped, w + TINY * errors[:, None] * g, right)


def _same(field: str, found: Any, wanted: Any, right: str) -> None:
    size = max(1.0, float(np.abs(np.asarray(wanted)).max()))
    near = np.allclose(found, wanted, rtol=CLOSE, atol=CLOSE * size, equal_nan=True)
    require(near, f"{field} gives other numbers than the contract says; {right}")


def precision_is_kept(learner: Learner) -> None:
    """The precision of a model is kept."""
    for dtype in ("float32", "float64"):
        task = _world(learner, dtype=dtype).task(0)
        w, rng = np.tile(task.initial(), (2, 1)), np.random.default_rng(0)
        z = rng.standard_normal((2, task.features.dim)).astype(dtype)
        found = learner.predict(w, z), learner.learn(w, z, np.ones(2, dtype), TINY), w
        for name, array in zip(("predict", "learn", "w"), found, strict=True):
            require(array.dtype == dtype, f"{name} is {array.dtype}, not {dtype}")


def a_step_helps(learner: Learner) -> None:
    """A step makes the error smaller at the sample from which it was learned."""
    task = _world(learner).task(0)
    rng = np.random.default_rng(0)
    w = np.tile(task.initial(), (20, 1)) + 0.1 * rng.standard_normal((20, task.dim))
    z = task.features(rng.standard_normal((20, task.taps)))
    y = learner.predict(w, z) + rng.choice([-1.0, 1.0], 20)
    learner.learn(w, z, y, TINY)
    worse = int(np.count_nonzero(np.abs(y - learner.predict(w, z)) > 1))
    require(not worse, f"it is larger after {worse} of 20 steps of {TINY}")


def the_learning_executors_agree(learner: Learner) -> None:
    """Simulated and deployed clients have the same models, to 1e-12."""
    experiment = _world(learner)
    expected = stepwise(experiment)
    require(largest(expected[-1], expected[0]) > 0, "nothing is learned")
    close(exchange(experiment).models, expected, "sent and simulated models")


LEARNER = (
    arrays_have_their_shapes, precision_is_kept, a_step_helps, the_learning_executors_agree,
)  # fmt: skip


FEW, SAMPLES, TAPS = 3, 60, 2  # clients, samples of each, inputs


def _samples(dtype: str) -> tuple[Array, Array, Array]:
    """x, y and predictions of some clients; a label is wrong now and then, and one is none."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((SAMPLES, FEW, TAPS)).astype(dtype)
    y, prediction = rng.standard_normal((2, SAMPLES, FEW)).astype(dtype)
    y[rng.random(y.shape) < 0.1] = -999
    y[20, 1] = np.nan
    return x, y, prediction


def _stack(check: SampleCheck, dtype: str) -> Memory:
    one = check.memory(TAPS, dtype)
    return {name: np.stack([array] * FEW) for name, array in one.items()}


def _verdicts(check: SampleCheck, memory: Memory, *samples: Any) -> tuple[Array, Array]:
    found = [judged(check, memory, *sample) for sample in zip(*samples, strict=True)]
    learned, verdicts = (np.array(each) for each in zip(*found, strict=True))
    return learned, verdicts


def there_is_a_verdict_on_each_sample(check: SampleCheck) -> None:
    """There is a verdict on each sample, and what is learned keeps its precision."""
    for dtype in ("float32", "float64"):
        learned, verdicts = _verdicts(check, _stack(check, dtype), *_samples(dtype))
        require(verdicts.shape == (SAMPLES, FEW), f"verdicts have shape {verdicts.shape[1:]}")
        known = verdicts.dtype.kind in "iu" and 0 <= verdicts.min() <= verdicts.max()
        require(bool(known and verdicts.max() < len(VERDICTS)), "a verdict is not one of those")
        require(learned.dtype == dtype, f"y is {learned.dtype}, not {dtype}")


def clients_are_judged_alone(check: SampleCheck) -> None:
    """Several clients at once get the verdicts that each gets alone."""
    x, y, prediction = _samples("float64")
    together = _verdicts(check, _stack(check, "float64"), x, y, prediction)
    for k in range(FEW):
        alone = _verdicts(check, check.memory(TAPS, "float64"), x[:, k], y[:, k], prediction[:, k])
        for one, all_of in zip(alone, together, strict=True):
            require(np.array_equal(one, all_of[:, k], equal_nan=True), f"client {k} differs")


def memory_is_all(check: SampleCheck) -> None:
    """Its memory is a dict of arrays, and all that it remembers: saved and loaded, it goes on."""
    samples = _samples("float64")

    def play(memory: Memory, first: int, stop: int) -> list[Array]:
        return list(_verdicts(check, memory, *(each[first:stop] for each in samples))[1])

    goes_on(lambda: _stack(check, "float64"), play, SAMPLES)


CHECK = (there_is_a_verdict_on_each_sample, clients_are_judged_alone, memory_is_all)

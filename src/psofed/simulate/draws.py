"""Randomness is resolved first: samples, cohorts and the test set of one run, as arrays.

Samples come chunk by chunk. The test set has the error of any number of models at once, and two
levels to compare it with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core import native
from psofed.core.features import FeatureMap
from psofed.core.schedule import UniformCohorts
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.federation.contract import Array, State, Task
from psofed.federation.learners.contract import Learner
from psofed.federation.membership import FleetCohorts
from psofed.simulate import kernel
from psofed.simulate.kernel import compiled
from psofed.stages.mix import HEAVY, Mixed
from psofed.stages.surroundings import attack_in
from psofed.streams import contract
from psofed.streams.contract import BLOCK, about

PART = 2**16  # rounds whose cohorts are drawn at once
CHUNK_SAMPLES = 2**20  # samples that are in memory at once, about 60 MB


@dataclass(frozen=True, eq=False)
class Chunk:
    """The samples of rounds first..first+length-1, of the first rows of the drawn clients."""

    first: int
    x: Array  # [client, round, tap]
    y: Array  # [client, round]


@dataclass(frozen=True, eq=False)
class Draws:
    """The input of every executor of one run: nothing random is left.

    Row i of all arrays over clients belongs to client ids[i]. Clients that are selected last come
    first, so that those who still matter in a chunk are always the first rows.
    """

    features: FeatureMap
    ids: Array
    last: Array  # [row]: the round after which the client's model is no longer needed
    start: Array  # the cohort of round n is members[start[n]:start[n + 1]]
    members: Array  # rows
    source: Any  # a function of (rows, first, stop, memory) that gives Samples
    gaps: bool = False  # whether y may be NaN: a client has no sample in that round

    @property
    def rounds(self) -> int:
        return len(self.start) - 1

    def chunks(self, length: int | None = None) -> Iterator[Chunk]:
        """The samples, a chunk of rounds at a time; by default CHUNK_SAMPLES samples."""
        if length is None:
            length = max(CHUNK_SAMPLES // max(len(self.ids), 1) // BLOCK, 1) * BLOCK
        memory = None
        for first in range(0, self.rounds, length):
            rows = int(np.count_nonzero(self.last >= first))
            memory = None if memory is None else memory[:rows]
            stop = min(first + length, self.rounds)
            samples = self.source(rows, first, stop, memory)
            memory, y = samples.memory, samples.y
            if not self.gaps and np.isnan(y).any():
                row, n = np.argwhere(np.isnan(y))[0]
                found = f"gives client {self.ids[row]} no number as y of round {first + n}"
                raise InputError(
                    "stream",
                    found,
                    "derive a stream with gaps from StreamOptions, with gaps = True",
                )
            yield Chunk(first, samples.x, y)


def draw(experiment: Experiment, task: Task, everybody: bool, in_order: bool = False) -> Draws:
    """The draws of one run: of all clients for all rounds, or of each until its last selection.

    `in_order`: of those who are ever selected for all rounds, in their order.
    """
    rounds, cohorts = experiment.rounds, task.cohorts
    assert isinstance(cohorts, UniformCohorts)
    parts = (np.arange(n, min(n + PART, rounds)) for n in range(0, rounds, PART))
    members, counts = (np.concatenate(m) for m in zip(*map(cohorts.many, parts), strict=True))
    if isinstance(cohorts, FleetCohorts) and (void := cohorts.history.void):
        takes_place = np.array([n not in void for n in range(rounds)])
        members = members[np.repeat(takes_place, counts)]
        counts = counts * takes_place
    if everybody:
        ids, last = np.arange(task.places), np.full(task.places, rounds)
    else:
        ids, last = _selected(members, np.repeat(np.arange(rounds), counts), task.places)
        if in_order:
            last = np.full(len(ids), rounds)
        order, row = np.argsort(-last, kind="stable"), np.empty(len(ids), np.intp)
        row[order] = np.arange(len(ids))
        members = row[np.searchsorted(ids, members)]
        ids, last = ids[order], last[order]

    attack = attack_in(experiment.attack, task)

    def source(rows: int, first: int, stop: int, memory: Any) -> Any:
        stream, dtype, who = experiment.stream, task.dtype, ids[:rows]
        drawn = contract.samples(stream, task.seeds, who, first, stop, dtype, memory)
        return contract.falsified(drawn, attack, who, first)

    start = np.concatenate([[0], np.cumsum(counts)])
    gaps = about(experiment.stream).gaps
    return Draws(task.features, ids, last, start, members, source, gaps)


def _selected(members: Array, when: Array, clients: int) -> tuple[Array, Array]:
    """Those who are ever selected, in order, and the last round of each."""
    if clients > len(members):
        # The first appearance in the reversed list is the last round of each client.
        found, backwards = np.unique(members[::-1], return_index=True)
        return found, when[::-1][backwards]
    last = np.full(clients, -1)
    last[members] = when  # the latest stays
    found = np.flatnonzero(last >= 0)
    return found, last[found]


JITTER = 1e-11  # relative to the trace: keeps the factor real, and is far below any error


@dataclass(frozen=True, eq=False)
class TestSet:
    """A test set in the form of its MSE: scale |factor^T w - target|^2 + rest.

    With more samples than features the factor is the triangle L of Z Z^T / N_test = L L^T, which
    costs D^2/2 for a model, not N_test D; otherwise it is Z_test itself. Where f changes over time,
    by a share a, the target moves by a times `shift`, and the rest with it.
    """

    __test__ = False  # not a test for pytest, despite the name

    factor: Array  # [D, row]
    target: Array  # [row]
    shift: Array  # [row]
    scale: float
    outside: Array  # [2, 2]: of the target and its shift, what no model reaches
    triangular: bool = False

    def mse(self, w: Array, a: Any = 0.0) -> NDArray[np.float64]:
        """Eq. (3), estimated: |y_test - Z_test^T w|^2 / N_test of each w [..., D], with its a."""
        if self.triangular and native.available() and w.dtype == self.factor.dtype:
            return self.scale * self._compiled(w, a) + self.rest(a)
        misfit = w @ self.factor
        misfit -= self.target
        if np.any(a):
            misfit -= np.multiply.outer(np.asarray(a, misfit.dtype), self.shift)
        misfit = misfit.astype(np.float64, copy=False)
        return self.scale * np.vecdot(misfit, misfit) + self.rest(a)

    def _compiled(self, w: Array, a: Any) -> NDArray[np.float64]:
        """The squared length of the misfit; half of the factor is zero."""
        dim, out = w.shape[-1], np.empty(w.shape[:-1])
        shares = np.ascontiguousarray(np.broadcast_to(np.asarray(a, float), out.shape))
        fits = np.empty((4, dim), w.dtype)
        native.function("misfits", w.dtype)(
            np.ascontiguousarray(w), self.factor, self.target, self.shift, shares, out, out.size,
            dim, fits,
        )  # fmt: skip
        return out

    def rest(self, a: Any) -> Any:
        """The squared length of what lies outside, when f has changed by a."""
        # As plain numbers: it is asked at each mark, and NumPy's take ten times as long.
        (now, _), (moved, apart) = self.outside.tolist()
        return (now + a * moved) ** 2 + (a * apart) ** 2


def make_test(z: Array, y: Array, dtype: Any, later: Array | None = None) -> TestSet:
    """The test set of features z [N_test, D] and targets y, for models of precision `dtype`.

    `later` has the targets after f has changed, if it does.
    """
    count, dim = z.shape
    shift = np.zeros(count) if later is None else later - y
    if count < dim:
        factor = np.ascontiguousarray(z.T, dtype)
        return TestSet(factor, y.astype(dtype), shift.astype(dtype), 1 / count, np.zeros((2, 2)))
    # In float64 always: the features are so redundant that float32 cannot tell them apart. With
    # the targets as more features, the last rows of the triangle are the targets and the rest.
    moments = kernel.products(z, np.stack([y] if later is None else [y, shift], axis=1)) / count
    size = len(moments)
    moments.ravel()[:: size + 1] += JITTER * np.trace(moments)
    L = np.zeros((dim + 2, dim + 2))
    L[:size, :size] = np.linalg.cholesky(moments, upper=True).T
    target, shift = (np.ascontiguousarray(row, dtype) for row in L[dim:, :dim])
    factor = np.ascontiguousarray(L[:dim, :dim], dtype)
    return TestSet(factor, target, shift, 1.0, L[dim:, dim:], triangular=True)


@dataclass(frozen=True, eq=False)
class TestPoints:
    """A test set for models that are not linear: their predictions at all points."""

    __test__ = False

    learner: Learner
    z: Array
    y: Array
    shift: Array  # of the targets, where f changes

    def mse(self, w: Array, a: Any = 0.0) -> NDArray[np.float64]:
        """Eq. (3), estimated, of each w [..., D], with its a."""
        shares = np.broadcast_to(a, w.shape[:-1])
        found = np.empty(w.shape[:-1])
        for i in np.ndindex(found.shape):
            misfit = self.y + shares[i] * self.shift - self.learner.predict(w[i], self.z)
            found[i] = np.square(misfit).mean()
        return found


Judge = TestSet | TestPoints


@dataclass(frozen=True, eq=False)
class OwnTests:
    """The test set, in which every sample is of one client, whose own model predicts it."""

    learner: Learner
    x: Array
    z: Array
    y: Array
    shift: Array  # of the targets, where f changes
    owners: Array  # [sample]: the client

    def mse(self, w: Array, a: float = 0.0) -> float:
        """The mean square error of models [K, D], or of one [D] that all clients have."""
        models = w if w.ndim == 1 else w[self.owners]
        return self._error(self.learner.predict(models, self.z), a)

    def mixed(self, stage: Mixed, clients: State, a: float = 0.0) -> float:
        """The same of the mixes with which clients answer."""
        kept = {name: array[self.owners] for name, array in clients.items() if name not in HEAVY}
        return self._error(stage.answer(kept, self.x, self.z)[0], a)

    def _error(self, guesses: Array, a: float) -> float:
        return float(np.square(self.y + a * self.shift - guesses).mean())


def draw_own_tests(experiment: Experiment, task: Task) -> OwnTests:
    """The samples of `draw_test`, by client."""
    x, y, later = experiment.draw_test(task.seeds)
    x = x.astype(task.dtype)
    z = compiled(task.features, task.dtype)(x)
    owners = experiment.tested[np.arange(len(y)) % len(experiment.tested)]
    shift = np.zeros(len(y)) if later is None else later - y
    return OwnTests(task.learner, x, z, y, shift, owners)


def draw_test(experiment: Experiment, task: Task) -> Judge:
    """Samples of all clients, fixed within the run, with the targets that the experiment names."""
    x, y, later = experiment.draw_test(task.seeds)
    z = compiled(task.features, task.dtype)(x.astype(task.dtype))
    if not task.learner.linear:
        shift = np.zeros(len(z)) if later is None else later - y
        return TestPoints(task.learner, z, y, shift)
    return make_test(z, y, task.dtype, later)


def floors(experiment: Experiment, run: int) -> tuple[float, float]:
    """Eq. (4), estimated: the test MSE of a ridge regression on plenty of data; the noise variance.

    w = (sum z z^T + lambda I)^-1 sum z y, lambda = 1e-6 n / D, on n = 200 D noise-free samples; it
    is judged as the methods are. Where f changes, the samples are those of the beginning.
    """
    task = experiment.task(run)
    count = 200 * task.dim
    sample = contract.snapshot(experiment.stream, task.seeds, "ridge", task.clients, count)
    dim, features = task.dim, compiled(task.features, task.dtype)
    sums = np.zeros((dim + 1, dim + 1))
    for part in np.array_split(np.arange(count), 10):  # all features at once would be large
        z = features(sample.x[part].astype(task.dtype))
        sums += kernel.products(z, sample.clean[part, None])
    R, r = np.triu(sums[:dim, :dim]), sums[:dim, dim]
    R += np.triu(R, 1).T
    w = np.linalg.solve(R + 1e-6 * count / task.dim * np.eye(task.dim), r)
    ridge = draw_test(experiment, replace(task, dtype="float64")).mse(w)
    return float(ridge), float(np.mean(np.square(sample.noise)))

"""Randomness is resolved first: the samples and cohorts of one run, as arrays, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.case import Case
from psofed.core.features import FeatureMap
from psofed.core.fleet import FleetCohorts
from psofed.core.schedule import UniformCohorts
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.methods.contract import Task
from psofed.streams import drawing
from psofed.streams.contract import BLOCK, Samples, about

Array = NDArray[Any]
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


def _check(stream: Any, rounds: int) -> None:
    """Refuse rounds for which the stream has no samples; once for all runs, if it can be told."""
    try:
        hash(stream)
    except TypeError:
        about(stream).check_rounds(rounds)
    else:
        _checked(stream, rounds)


@lru_cache(maxsize=1)
def _checked(stream: Any, rounds: int) -> None:
    about(stream).check_rounds(rounds)


def draw(experiment: Experiment, task: Task, everybody: bool, in_order: bool = False) -> Draws:
    """The draws of one run: of all clients for all rounds, or of each until its last selection.

    `in_order`: of those who are ever selected for all rounds, in their order.
    """
    _check(experiment.stream, experiment.rounds)
    rounds, cohorts = experiment.rounds, task.cohorts
    assert isinstance(cohorts, UniformCohorts)
    parts = (np.arange(n, min(n + PART, rounds)) for n in range(0, rounds, PART))
    members, counts = (np.concatenate(m) for m in zip(*map(cohorts.many, parts), strict=True))
    if isinstance(cohorts, FleetCohorts) and (void := cohorts.roster.void):
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

    def source(rows: int, first: int, stop: int, memory: Any) -> Any:
        stream, dtype, who = experiment.stream, task.dtype, ids[:rows]
        drawn = drawing.samples(stream, task.seeds, who, first, stop, dtype, memory)
        return drawing.falsified(drawn, task.attack, who, first)

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


def of_case(case: Case) -> Draws:
    """The draws that are written in a case."""
    sizes = [len(cohort) for cohort in case.cohorts]
    members = [k for cohort in case.cohorts for k in cohort]
    start = np.concatenate([[0], np.cumsum(sizes, dtype=np.intp)])
    clients, rounds = case.y.shape

    def source(rows: int, first: int, stop: int, memory: Any) -> Any:
        y = case.y[:, first:stop]
        return Samples(case.x[:, first:stop], y, np.zeros_like(y))

    everybody, forever = np.arange(clients), np.full(clients, rounds)
    members_array = np.array(members, np.intp)
    return Draws(case.features, everybody, forever, start, members_array, source)

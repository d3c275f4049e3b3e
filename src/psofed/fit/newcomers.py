"""A client on its first day: what the shared model of the others is worth to it.

Some clients are held out. The others learn together from the warm-up's end to the round at which
models are frozen; scaling, width and step are those of their warm-up, for a newcomer brings no
statistics. Then the held-out client arrives. Its rows before that are not used for anything. From
its first row on, each of its samples is predicted before its label is known, by

    shared      the model of the others, which does not change any more
    own         a model that starts from zero and learns from this client's labels, as they arrive
    own, best   the same with the step that was best for this client, known in hindsight
    started     the shared model as a start, which then learns like `own`

All have the same features; `own` and `started` have the step of the federation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.features import Waves
from psofed.core.seeds import Seeds
from psofed.data import warmup
from psofed.data.encoder import Encoder
from psofed.data.reading import Table
from psofed.data.rounds import Rounds
from psofed.errors import InputError, nearest
from psofed.fit import federation, fitting
from psofed.fit.federation import Span
from psofed.fit.fitting import STEPS, Counting, silent
from psofed.fit.plan import Plan
from psofed.fit.player import Contender
from psofed.methods import local
from psofed.methods.contract import State, Task

Array = NDArray[Any]
MODELS = ("shared", "own", "own_best", "started")
FEWEST, ROOM = 30, 10  # after the change from one model to the other: samples, part of all
HUGE = 1e100  # the squared error of a model that has diverged


@dataclass(frozen=True, eq=False)
class Arrival:
    """One newcomer: its samples in order, from its first row on."""

    client: str
    labels: Array  # [S] how many of its labels were known when the sample was predicted
    errors: dict[str, Array]  # by model: squared errors [S] over the variance of its target
    plan: Plan  # of the others, with width and step
    best_step: float  # the one of "own_best"
    round: int  # of the others, at which it arrives

    def caught_up(self, model: str) -> int | None:
        """After how many labels a model has caught up with the shared one; None: it never does.

        In hindsight there is a best sample at which to change from the shared model to this one:
        that with the least error in total, the first one if several are equal. What counts is the
        labels that were known then. Up to there, over every stretch that ends there, the shared
        model has less error; from there on, over all that is left, it has not. A tenth of the
        samples must follow: better by chance in the last few is not caught up.
        """
        gain = self.errors["shared"] - self.errors[model]
        gain = np.nan_to_num(gain, nan=-HUGE, posinf=HUGE, neginf=-HUGE)
        later = np.cumsum(gain[::-1])[::-1]  # by sample: what is gained from it on
        room = len(later) - max(FEWEST, len(later) // ROOM)
        if room < 0:
            return None
        change = int(np.argmax(later[: room + 1]))
        return int(self.labels[change]) if later[change] >= 0 else None

    def mean(self, model: str, first: int = 0, stop: float = np.inf) -> float:
        """Mean error over samples that had from `first` to below `stop` labels before them."""
        here = (self.labels >= first) & (self.labels < stop)
        return float(self.errors[model][here].mean()) if here.any() else float("nan")


@dataclass(frozen=True, eq=False)
class Newcomers:
    """All of them."""

    arrivals: list[Arrival]
    absent: list[str]  # those without a labelled row after their arrival
    label_delay: int


def check(names: Sequence[str], clients: list[str], plan: Plan, every: bool) -> list[list[int]]:
    """The groups of clients that are held out together: as named, or each client in turn."""
    option = "--newcomers" if every else "--hold-out"
    if len(clients) < 2:
        found = f"is given, but the table has one client, {clients[0]!r}"
        raise InputError(option, found, "there must be others to learn from")
    if plan.methods[0].alone:
        found = f"is {plan.methods[0].title()!r}, which has no shared model for a newcomer"
        raise InputError("method", found, "use one that shares")
    if every:
        return [[k] for k in range(len(clients))]
    for name in names:
        if name not in clients:
            raise InputError(option, f"is {name!r}", nearest(name, clients))
    group = sorted({clients.index(name) for name in names})
    if len(group) == len(clients):
        raise InputError(option, "names every client", "leave some to learn from")
    return [group]


def study(
    table: Table, plan: Plan, groups: list[list[int]], counting: Counting = silent
) -> Newcomers:
    """Each group held out in turn; the clients of a group arrive at the same time, each alone."""
    arrivals, absent = [], []
    for group in groups:
        home = _Home(table, plan, group, counting)
        for k in group:
            arrival = home.welcome(k)
            if arrival is None:
                absent.append(table.clients[k])
            else:
                arrivals.append(arrival)
    return Newcomers(arrivals, absent, plan.label_delay)


class _Home:
    """The federation of the others, when a newcomer arrives."""

    def __init__(self, table: Table, plan: Plan, group: list[int], counting: Counting) -> None:
        self.table = table
        others = table.part([k for k in range(len(table.clients)) if k not in group])
        span = fitting.spans(others, plan)
        self.origin, self.arrival = others.start, span.frozen
        self.encoder: Encoder = warmup.learn(
            others, span.first if span.first else others.rounds, plan.limited
        )
        fitting.check_inputs(self.encoder, others)
        rounds = Rounds(others, self.encoder)
        plan = replace(plan, methods=plan.methods[:1])
        self.plan = fitting.tuned(rounds, plan, span, counting, linear=False)[0]
        (contender,) = fitting.line_up(rounds, self.plan, False, 0.1, span.first)
        learning = Span(span.first, span.frozen, span.frozen)
        names = ", ".join(table.clients[k] for k in group)
        with counting(f"learning without {names[:40]}, rounds") as on_round:
            _, (player,) = federation.federate(
                rounds, [contender], plan.label_delay, learning, on_round
            )
        w = player.shared  # of a method without a server: one for each client
        self.shared = w.copy() if w.ndim == 1 else w.mean(axis=0)

    def welcome(self, k: int) -> Arrival | None:
        """What the models say to the samples of client k; None if it has none."""
        since = self.origin + (self.arrival - 0.5) * self.table.tick
        late = self.table.part([k], since)
        if late.end[0] < since:
            return None
        rounds = Rounds(late, self.encoder, self.origin)
        waves = fitting.draw(self.plan, self.encoder)
        mine = self.plan.methods[0].step or self.plan.step or 0.2
        steps = list(dict.fromkeys((mine, *STEPS)))
        contenders = [self._contender(rounds, waves, self.shared, 0.0)]
        contenders += [self._contender(rounds, waves, self.shared, mine)]
        contenders += [self._contender(rounds, waves, None, step) for step in steps]
        stop = int(rounds.last.max()) + 1
        span = Span(self.arrival, stop, stop)
        scores, _ = federation.federate(rounds, contenders, self.plan.label_delay, span)
        variance = scores.truths["prequential"].variance
        traces = [_trace(score.trace or []) for score in scores.scores]
        n, known = traces[0][0], ~np.isnan(traces[0][1])
        if not known.any() or not variance > 0:
            return None
        still, started, *own = (errors[known] / variance for _, errors in traces)
        best = int(np.argmin([np.nan_to_num(e.sum(), nan=np.inf) for e in own]))
        errors = dict(zip(MODELS, (still, own[0], own[best], started), strict=True))
        labels = _labels(n[known], self.plan.label_delay)
        name = self.table.clients[k]
        return Arrival(name, labels, errors, self.plan, steps[best], self.arrival)

    def _contender(
        self, rounds: Rounds, waves: Waves, begin: Array | None, step: float
    ) -> Contender:
        task = federation.task(
            rounds, waves, Seeds(self.plan.seed), step or 1.0, 1, self.plan.label_delay,
            begin=self.arrival,
        )  # fmt: skip
        return Contender("", _Begun(task, begin, still=not step), waves, traced=True)


class _Begun(local.Method):
    """Learning alone from a given model on; a still one does not learn."""

    def __init__(self, task: Task, begin: Array | None, still: bool) -> None:
        super().__init__(local.Options(), task)
        self.begin = task.zeros(task.dim) if begin is None else begin.astype(task.dtype)
        self.still = still

    def client(self, k: int) -> State:
        return {"w": self.begin.copy()}

    def learn(self, client: State, x: Array, z: Array, y: Any) -> None:
        if not self.still:
            super().learn(client, x, z, y)


def _trace(blocks: list[tuple[int, Array]]) -> tuple[Array, Array]:
    """The rounds of a trace, and its errors in them."""
    n = [first + np.arange(len(errors)) for first, errors in blocks]
    parts = [errors[:, 0] for _, errors in blocks]
    return np.concatenate([np.empty(0, int), *n]), np.concatenate([np.empty(0), *parts])


def _labels(n: Array, delay: int) -> Array:
    """How many labels are known before each of the rounds n, which all have one.

    The label of round m is learned in round m + delay, after the prediction of that round.

    >>> _labels(np.array([5, 6, 9]), 1).tolist()
    [0, 0, 2]
    """
    return np.searchsorted(n + delay, n, side="left")

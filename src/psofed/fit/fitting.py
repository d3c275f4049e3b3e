"""From a plan and a table to a model with scores on data that it has not seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from psofed.core import features
from psofed.core.features import Linear, Waves
from psofed.core.seeds import Seeds
from psofed.data import losses, warmup
from psofed.data import reading as tables
from psofed.data.columns import Columns
from psofed.data.encoder import Encoder
from psofed.data.form import Form
from psofed.data.reading import Drops, Table
from psofed.data.rounds import Rounds
from psofed.errors import InputError, nearest
from psofed.fit import federation, portrait
from psofed.fit.federation import Span
from psofed.fit.outcome import Fit as Fit
from psofed.fit.plan import Plan
from psofed.fit.player import Contender, Player
from psofed.fit.scores import Scores
from psofed.methods import centralised, local, onlinefed
from psofed.methods.contract import Options
from psofed.methods.contract import start as start
from psofed.methods.titles import titles
from psofed.sample_checks.contract import in_words

Array = NDArray[Any]
WIDTHS = (0.5, 0.75, 1.0, 1.5, 2.5)  # times sqrt(L): the distance of two samples grows with it
STEPS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
PATIENCE = 1.05  # the smallest step within 5 % of the best: it forgets least
TUNING = 4000  # rounds of the warm-up, its last ones, in which candidates compete
LINEAR = "Linear, Online-Fed"
Counting = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]


def silent(what: str) -> AbstractContextManager[Callable[[int, int], None]]:
    """No progress."""
    return nullcontext(lambda done, total: None)


def fit_table(
    source: Any, *, target: str, time: str | tuple[str, ...], client: str | None = None,
    compare: bool = True, **options: Any,
) -> Fit:  # fmt: skip
    """Fit a file, a folder or a data frame. Options are the fields of `Columns`, `Form` and `Plan`.

    >>> from psofed.fit import example
    >>> done = fit_table(
    ...     example.path(), target="pollutant", time="time", client="station", label_delay=6,
    ...     calendar=("hour",), dim=50, width=2.0, step=0.3, compare=False,
    ... )
    >>> bool(done.scores.error(0, "prequential") < 0.7)
    True
    """
    known = {cls: {f.name for f in dataclasses.fields(cls)} for cls in (Columns, Form, Plan)}
    for name in options:
        if not any(name in names for names in known.values()):
            right = nearest(name, sorted(set().union(*known.values())))
            raise InputError(name, "is not a known option", right)
    when = (time,) if isinstance(time, str) else tuple(time)
    plain = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    own: dict[Any, dict[str, Any]] = {
        cls: {k: v for k, v in plain.items() if k in names} for cls, names in known.items()
    }
    columns = Columns(target=target, time=when, client=client, **own[Columns])
    form = Form(**own[Form])
    table = tables.read(source, columns, form=form)
    return fit(table, Plan(columns, **{"form": form} | own[Plan]), compare)


@threadpool_limits.wrap(limits=1, user_api="blas")  # type: ignore[untyped-decorator] # small matrices
def fit(table: Table, plan: Plan, compare: bool = True, counting: Counting = silent) -> Fit:
    """Tune on the warm-up, then learn and judge; the first method of the plan gives the model."""
    losses.check(table, plan.allow_loss)
    span = spans(table, plan)
    encoder = warmup.learn(table, span.first if span.first else table.rounds, plan.limited)
    check_inputs(encoder, table)
    rounds = Rounds(table, encoder)
    plan, linear_step = tuned(rounds, plan, span, counting)
    contenders = line_up(rounds, plan, compare, linear_step, span.first)
    with counting("learning, rounds") as on_round:
        scores, players = federation.federate(
            rounds, contenders, plan.label_delay, span, on_round, intervals=True
        )
    _check_learned(table, scores, span)
    losses.check_share(
        table,
        Drops(table.drops.counts + rounds.drops.counts, table.drops.first | rounds.drops.first),
        plan.allow_loss,
    )
    model = players[0]
    own = None if model.own is None else model.own.copy()
    notes = drop_notes(table, rounds) + doubts(scores) + check_notes(scores)
    waves = draw(plan, encoder)
    painted = portrait.paint(table, encoder, model, scores, span.frozen, span.stop, plan.seed)
    return Fit(plan, table, encoder, waves, scores, span, entrants(plan, compare), _single(model),
               own, rounds.drops, notes, model.shared.ndim > 1, painted)  # fmt: skip


def _check_learned(table: Table, scores: Scores, span: Span) -> None:
    """Refuse a model that has seen no label: one wrong time makes a table so long."""
    seen, judged = (scores.truths[part].count.sum() for part in ("prequential", "frozen"))
    if not seen - judged:
        found = f"have no label from {span.first:,} to {span.frozen:,}, where models learn"
        right = "look for a wrong time: the last one is here"
        raise InputError("rounds", found, right, table.latest)


def _single(player: Player) -> Array:
    """One model for all clients: the server's, or the mean of those that are judged."""
    w = player.shared
    return w.copy() if w.ndim == 1 else w.mean(axis=0)


def spans(table: Table, plan: Plan) -> Span:
    """Where the warm-up ends and where models are frozen."""
    total = table.rounds
    first = round(plan.warmup * total)
    needed = [table.columns.target, *table.numeric]
    if not first and not set(needed) <= set(table.columns.ranges):
        missing = next(name for name in needed if name not in table.columns.ranges)
        found = f"is {plan.warmup} of {total} rounds, which is none, and {missing!r} has no range"
        right = "give a longer one, or ranges for all numbers"
        raise InputError("warmup", found, right, table.latest)
    frozen = total - round(plan.frozen * total)
    if frozen - first < plan.label_delay + 2:
        found = f"leave {max(frozen - first, 0)} of {total} rounds to learn in"
        right = "give more rows, or lower the shares"
        if plan.label_delay:
            right = f"labels come {plan.label_delay} ticks late: {right}"
        raise InputError("warmup and frozen", found, right, table.latest)
    return Span(first, frozen, total)


def check_inputs(encoder: Encoder, table: Table) -> None:
    """Refuse a table that has no usable inputs."""
    if not encoder.taps:
        right = "name columns, or use target_lags or calendar"
        raise InputError("inputs", "are empty", right, table.header)
    for name in encoder.columns.lags_of:
        if name not in encoder.numeric:
            found = "has lags of its own, but is not a numeric input"
            right = "use lags of " + ", ".join(encoder.numeric)
            raise InputError(f"column {name!r}", found, right, table.header)
    if encoder.columns.calendar and not table.calendar:
        found = f"is {list(encoder.columns.calendar)}, but time is a number"
        raise InputError("calendar", found, "leave it out, or give times as dates", table.header)


def draw(plan: Plan, encoder: Encoder) -> Waves:
    """The feature map of the plan, in the precision of the models."""
    width = plan.width or float(np.sqrt(encoder.taps))
    return features.cosine(Seeds(plan.seed), plan.dim, encoder.taps, width).astype(np.float32)


def entrants(plan: Plan, compare: bool) -> list[Options]:
    """The plan's methods, then the reference and the controls that it does not have."""
    names = {options.name for options in plan.methods}
    beside = (onlinefed.Options(), local.Options(), centralised.Options()) if compare else ()
    return [*plan.methods, *(options for options in beside if options.name not in names)]


def line_up(
    rounds: Rounds, plan: Plan, compare: bool, linear_step: float, begin: int = 0
) -> list[Contender]:
    """The plan's methods, then what they are compared with."""
    waves, seeds = draw(plan, rounds.encoder), Seeds(plan.seed)
    step = plan.step or 0.2
    delay, wire = plan.label_delay, plan.wire
    task = federation.task(rounds, waves, seeds, step, plan.cohort, delay, wire, begin,
                           plan.check)  # fmt: skip
    all_of = entrants(plan, compare)
    contenders = [
        Contender(title, start(options, task), waves)
        for title, options in zip(titles(all_of, step), all_of, strict=True)
    ]
    if not compare:
        return contenders
    line = Linear(rounds.encoder.taps)
    linear = start(onlinefed.Options(step=linear_step), federation.with_features(task, line))
    return [*contenders, Contender(LINEAR, linear, line), Contender(federation.PERSISTENCE)]


def tuned(
    rounds: Rounds, plan: Plan, span: Span, counting: Counting, linear: bool = True
) -> tuple[Plan, float]:
    """The plan with a kernel width and a step, found on the warm-up where they are not given.

    Candidates compete within the warm-up only, judged in its second half by their prequential
    error and, frozen in the middle, by what they still know. First the width, then the step; then,
    with `linear`, the step of the linear control.
    """
    root = float(np.sqrt(rounds.encoder.taps))
    first = max(0, span.first - TUNING)
    own = Span(first, (first + span.first) // 2, span.first)
    if own.stop - own.frozen <= plan.label_delay + 10:
        return replace(plan, width=plan.width or root, step=plan.step or 0.2), 0.1
    if plan.width is None:
        widths = [round(c * root, 3) for c in WIDTHS]
        candidates = [replace(plan, width=w, step=plan.step or 0.2) for w in widths]
        plan = replace(
            plan, width=_best(rounds, candidates, own, counting("tuning the width")).width
        )
    if plan.step is None:
        candidates = [replace(plan, step=s) for s in STEPS]
        best = _best(rounds, candidates, own, counting("tuning the step"), PATIENCE)
        plan = replace(plan, step=best.step)
    if not linear:
        return plan, 0.1
    return plan, _linear_step(rounds, plan, own, counting("tuning the linear control"))


def _best(rounds: Rounds, plans: list[Plan], span: Span, on: Any, patience: float = 1.0) -> Plan:
    contenders = []
    for plan in plans:
        waves = draw(plan, rounds.encoder)
        task = federation.task(rounds, waves, Seeds(plan.seed), plan.step or 0.2, plan.cohort,
                               plan.label_delay, plan.wire, span.first, plan.check)  # fmt: skip
        contenders.append(Contender("", start(plan.methods[0], task), waves))
    return plans[_winner(rounds, contenders, plans[0].label_delay, span, on, patience)]


def _linear_step(rounds: Rounds, plan: Plan, span: Span, on: Any) -> float:
    line = Linear(rounds.encoder.taps)
    contenders = []
    for step in STEPS:
        task = federation.task(
            rounds,
            line,
            Seeds(plan.seed),
            step,
            plan.cohort,
            plan.label_delay,
            begin=span.first,
            check=plan.check,
        )
        contenders.append(Contender("", start(onlinefed.Options(), task), line))
    return STEPS[_winner(rounds, contenders, plan.label_delay, span, on, PATIENCE)]


def _winner(
    rounds: Rounds,
    contenders: list[Contender],
    delay: int,
    span: Span,
    counting: Any,
    patience: float,
) -> int:
    """The first with nearly the least error in the second half, frozen and learning together."""
    with counting as on_round:
        scores, _ = federation.federate(rounds, contenders, delay, span, on_round)
    late = scores.marks > span.frozen
    errors = [
        np.sum(score.curve[late]) + np.sum(score.errors.get("frozen", {}).get("global", 0.0))
        for score in scores.scores
    ]
    known = np.nan_to_num(errors, nan=np.inf)
    return int(np.flatnonzero(known <= patience * known.min())[0])


def doubts(scores: Scores) -> list[str]:
    """Reasons why the scores mean little; a line each."""
    lines = []
    if any(truth.count.sum() and not truth.variance > 0 for truth in scores.truths.values()):
        lines.append("the target does not vary where it is judged: no error over its variance")
    if len(scores.clients) == 1:
        lines.append("there is only one client: it has no other client to share with")
    return lines


def drop_notes(table: Table, rounds: Rounds) -> list[str]:
    """What was not used, and why; a line each."""
    lines = [f"dropped: {line}" for line in (*table.drops.lines(), *rounds.drops.lines())]
    if rounds.unlabelled:
        lines.append(
            f"predicted, but neither learned nor judged: {rounds.unlabelled} without target"
        )
    names = (*rounds.encoder.numeric, rounds.encoder.columns.target)
    beyond = [f"{count:,} of {name!r}" for name, count in zip(names, rounds.beyond, strict=True)
              if count]  # fmt: skip
    if beyond:
        lines.append(f"taken as missing, being far outside the usual range: {', '.join(beyond)}")
    return lines


def check_notes(scores: Scores) -> list[str]:
    """What a check made of the samples; a line for each method."""
    checked = (score for score in scores.scores if score.checked)
    return [f"{score.title}: {in_words(score.checked)}" for score in checked]

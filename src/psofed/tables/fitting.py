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
from psofed.core.features import FeatureMap, Linear, Waves
from psofed.core.seeds import Seeds
from psofed.errors import InputError, nearest
from psofed.federation.options import Options, titles
from psofed.methods import centralised, local, onlinefed
from psofed.stages.checks.contract import in_words
from psofed.stages.surroundings import Surroundings, start
from psofed.streams.data import reading
from psofed.streams.data import recipe as recipes
from psofed.streams.data import rounds as losses
from psofed.streams.data.columns import Columns
from psofed.streams.data.recipe import Recipe
from psofed.streams.data.rounds import UNLABELLED, Rounds
from psofed.streams.data.table import Drops, Table
from psofed.streams.data.textfile import Form
from psofed.tables import backtest, player
from psofed.tables.backtest import Contender
from psofed.tables.outcome import Fit
from psofed.tables.plan import Plan, Span
from psofed.tables.player import Persistence, Player
from psofed.tables.scores import Scores

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

    >>> from psofed.tables import example
    >>> done = fit_table(
    ...     example.PATH, target="pollutant", time="time", client="station", label_delay=6,
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
    table = reading.read(source, columns, form=form)
    return fit(table, Plan(columns, **{"form": form} | own[Plan]), compare)


@threadpool_limits.wrap(limits=1, user_api="blas")  # type: ignore[untyped-decorator] # small matrices
def fit(table: Table, plan: Plan, compare: bool = True, counting: Counting = silent) -> Fit:
    """Tune on the warm-up, then learn and judge; the first method of the plan gives the model."""
    losses.check(table, plan.allow_loss)
    span = spans(table, plan)
    rounds = sampled(table, plan, span)
    plan, linear_step = tuned(rounds, plan, span, counting)
    contenders = line_up(rounds, plan, compare, linear_step, span.first)
    with counting("learning, rounds") as on_round:
        watch = Seeds(plan.seed)
        scores = backtest.run(rounds, contenders, plan.label_delay, span, on_round, watch)
    _check_learned(table, scores, span)
    losses.check_share(
        table,
        Drops(table.drops.counts + rounds.drops.counts, table.drops.first | rounds.drops.first),
        plan.allow_loss,
    )
    first = contenders[0]
    assert isinstance(first, Player)
    own, w = None if first.own is None else first.own.copy(), first.shared
    # One model for all clients: the server's, or the mean of those that are judged.
    shared = w.copy() if w.ndim == 1 else w.mean(axis=0)
    notes = drop_notes(table, rounds) + doubts(scores) + check_notes(scores)
    return Fit(plan, table, rounds.recipe, draw(plan, rounds.recipe), scores, span,
               entrants(plan, compare), shared, own, rounds.drops, notes, w.ndim > 1)  # fmt: skip


def without(table: Table, names: tuple[str, ...]) -> Table:
    """The table without the clients of these names, who are then new to the model."""
    for name in names:
        if name not in table.clients:
            raise InputError("--hold-out", f"is {name!r}", nearest(name, table.clients))
    others = [k for k, name in enumerate(table.clients) if name not in names]
    if not others:
        raise InputError("--hold-out", "names every client", "leave some to learn from")
    return table.part(others) if names else table


def _check_learned(table: Table, scores: Scores, span: Span) -> None:
    """Refuse a model that has seen no label: one wrong time makes a table so long."""
    seen, judged = (scores.truths[part].count.sum() for part in ("prequential", "frozen"))
    if not seen - judged:
        found = f"have no label from {span.first:,} to {span.frozen:,}, where models learn"
        right = "look for a wrong time: the last one is here"
        raise InputError("rounds", found, right, table.latest)


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


def sampled(table: Table, plan: Plan, span: Span) -> Rounds:
    """The samples of a table, scaled as its warm-up says; all of it, if every range is given."""
    stop = span.first or table.rounds
    limits = recipes.usual(table, stop) if plan.limited else None
    return Rounds(table, recipes.learn(table, stop, limits), limits=limits)


def draw(plan: Plan, recipe: Recipe) -> Waves:
    """The feature map of the plan, in the precision of the models."""
    width = plan.width or float(np.sqrt(recipe.taps))
    return features.cosine(Seeds(plan.seed), plan.dim, recipe.taps, width).astype(np.float32)


def entrants(plan: Plan, compare: bool) -> list[Options]:
    """The plan's methods, then the reference and the controls that it does not have."""
    names = {options.name for options in plan.methods}
    beside = (onlinefed.Options(), local.Options(), centralised.Options()) if compare else ()
    return [*plan.methods, *(options for options in beside if options.name not in names)]


def contender(
    rounds: Rounds, plan: Plan, options: Options, features: FeatureMap, begin: int, title: str = ""
) -> Player:
    """A method over the table, with the settings of the plan."""
    task = player.task(rounds, features, Seeds(plan.seed), plan.step or 0.2, plan.cohort,
                       plan.label_delay, plan.wire, begin)  # fmt: skip
    return Player(title, start(options, task, Surroundings(plan.check)), features, rounds)


def line_up(
    rounds: Rounds, plan: Plan, compare: bool, linear_step: float, begin: int = 0
) -> list[Contender]:
    """The plan's methods, then what they are compared with."""
    waves, every = draw(plan, rounds.recipe), entrants(plan, compare)
    found: list[Contender] = [
        contender(rounds, plan, options, waves, begin, title)
        for title, options in zip(titles(every, plan.step or 0.2), every, strict=True)
    ]
    if not compare:
        return found
    line, online = Linear(rounds.recipe.taps), onlinefed.Options(step=linear_step)
    linear = contender(rounds, plan, online, line, begin, LINEAR)
    return [*found, linear, Persistence(rounds.clients)]


def tuned(rounds: Rounds, plan: Plan, span: Span, counting: Counting) -> tuple[Plan, float]:
    """The plan with a kernel width and a step, found on the warm-up where they are not given.

    Candidates compete within the warm-up only, judged in its second half by their prequential
    error and, frozen in the middle, by what they still know. First the width, then the step, then
    the step of the linear control.
    """
    root = float(np.sqrt(rounds.recipe.taps))
    own = tuning_span(span)
    if own.stop - own.frozen <= plan.label_delay + 10:
        return replace(plan, width=plan.width or root, step=plan.step or 0.2), 0.1
    if plan.width is None:
        plans = [replace(plan, width=round(c * root, 3)) for c in WIDTHS]
        best = _winner(rounds, _each(rounds, plans, own), plan, own, counting("tuning the width"))
        plan = replace(plan, width=plans[best].width)
    if plan.step is None:
        players = _each(rounds, [replace(plan, step=s) for s in STEPS], own)
        best = _winner(rounds, players, plan, own, counting("tuning the step"), PATIENCE)
        plan = replace(plan, step=STEPS[best])
    line = Linear(rounds.recipe.taps)
    players = [contender(rounds, plan, onlinefed.Options(step=s), line, own.first) for s in STEPS]
    best = _winner(rounds, players, plan, own, counting("tuning the linear control"), PATIENCE)
    return plan, STEPS[best]


def tuning_span(span: Span) -> Span:
    """The last rounds of the warm-up, of which the second half is judged."""
    first = max(0, span.first - TUNING)
    return Span(first, (first + span.first) // 2, span.first)


def _each(rounds: Rounds, plans: list[Plan], span: Span) -> list[Player]:
    """The first method of each plan."""
    return [
        contender(rounds, plan, plan.methods[0], draw(plan, rounds.recipe), span.first)
        for plan in plans
    ]


def _winner(
    rounds: Rounds, contenders: list[Player], plan: Plan, span: Span, counting: Any,
    patience: float = 1.0,
) -> int:  # fmt: skip
    """The first with nearly the least error in the second half, frozen and learning together."""
    with counting as on_round:
        scores = backtest.run(rounds, contenders, plan.label_delay, span, on_round)
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
    if UNLABELLED in rounds.unused:
        count = rounds.unused[UNLABELLED].sum()
        lines.append(f"predicted, but neither learned nor judged: {count} without target")
    names, counts = (*table.numeric, table.columns.target), np.roll(rounds.beyond, -1)
    beyond = [f"{count:,} of {name!r}" for name, count in zip(names, counts, strict=True) if count]
    if beyond:
        lines.append(f"taken as missing, being far outside the usual range: {', '.join(beyond)}")
    return lines


def check_notes(scores: Scores) -> list[str]:
    """What a check made of the samples; a line for each method."""
    checked = (score for score in scores.scores if score.checked)
    return [f"{score.title}: {in_words(score.checked)}" for score in checked]

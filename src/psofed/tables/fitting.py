"""From a plan and a table to a model with scores on data that it has not seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from psofed.core import features
from psofed.core.features import FeatureMap, Linear, Waves
from psofed.core.native import Array
from psofed.core.seeds import Seeds
from psofed.errors import InputError, nearest
from psofed.extras import need
from psofed.federation.options import Options, titles
from psofed.methods import centralised, local, onlinefed
from psofed.stages.checks.contract import in_words
from psofed.stages.surroundings import Surroundings, start
from psofed.streams.data import reading
from psofed.streams.data import recipe as recipes
from psofed.streams.data import rounds as losses
from psofed.streams.data.columns import Columns
from psofed.streams.data.recipe import Recipe
from psofed.streams.data.rounds import Rounds
from psofed.streams.data.table import Drops, Table
from psofed.streams.data.textfile import Form
from psofed.tables import backtest, player
from psofed.tables import model as models
from psofed.tables.backtest import Contender
from psofed.tables.model import Model
from psofed.tables.plan import Plan, Span
from psofed.tables.player import Persistence, Player
from psofed.tables.scores import Scores

WIDTHS = (0.5, 0.75, 1.0, 1.5, 2.5)  # times sqrt(L): the distance of two samples grows with it
STEPS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
PATIENCE = 1.05  # the smallest step within 5 % of the best: it forgets least
ENOUGH = 1.03  # the smallest D within 3 % of the best
TUNING = 4000  # rounds of the warm-up, its last ones, in which candidates compete
LINEAR = "Linear, Online-Fed"
Counting = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]


def silent(what: str) -> AbstractContextManager[Callable[[int, int], None]]:
    """No progress."""
    return nullcontext(lambda done, total: None)


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """A finished fit: the plan with its tuned numbers, the scores and the models.

    `predict` uses the model of the first method, `save` writes it to a file, and `to_frame` has the
    scores. It can be pickled; the rows of the table do not come along, so that what reads them
    again (`table.read`) works only where it was made.
    """

    plan: Plan
    table: Table
    recipe: Recipe  # how a row becomes the inputs of the model
    features: Waves
    scores: Scores
    span: Span
    shared: Array  # the model of the first method, after the last label
    own: Array | None
    later: Drops  # rows that were read but gave no sample
    notes: list[str]
    averaged: bool = False  # whether `shared` is the mean of models of which each client has one

    @property
    def unit(self) -> float:
        """One scaled unit of the target, in its own units."""
        return float(self.recipe.scale[-1])

    @cached_property
    def model(self) -> Model:
        """The model of the first method, as `save` saves it."""
        own = self.own if self.own is not None and self.own.nbytes <= models.OWN else None
        learned = self.scores.intervals
        radii: dict[str, Array] = {}
        if learned is not None and learned.radii.nbytes <= models.OWN:
            radii = dict(zip(learned.models, learned.radii, strict=True))
        for model, gone in (("own", own is None), ("global", self.averaged)):
            if gone:
                radii.pop(model, None)
        names = tuple(self.scores.clients) if own is not None or radii else ()
        title, delay = self.plan.methods[0].title(), self.plan.label_delay
        return Model(self.recipe, self.features, self.shared, names, own, title, delay,
                     radii.get("global"), radii.get("own"))  # fmt: skip

    def predict(self, source: Any, interval: float | None = None, own: bool = False) -> Any:
        """The prediction for each row of a frame or file: see `Model.predict`."""
        return self.model.predict(source, interval, own, self.plan.form)

    def save(self, path: str | Path) -> None:
        """Write the file that `psofed.load_model` and `psofed predict` read."""
        self.model.save(path)

    def to_frame(self) -> Any:
        """The scores as a pandas frame, one row per method."""
        rows = self.scores.rows(self.unit)
        return need("pandas", "frame", "frames").DataFrame(rows).set_index("method")

    def __repr__(self) -> str:
        count, target = len(self.scores.clients), self.plan.columns.target
        whose = "1 client" if count == 1 else f"{count} clients"
        frozen = f"{self.scores.error(0, 'frozen'):.4g}"
        return (
            f"<Fit of {target!r}: {self.scores.scores[0].title}, {whose}, {self.table.rows:,} rows,"
            f" frozen error {frozen} of the variance>"
        )

    def __getstate__(self) -> dict[str, Any]:
        """Without the spool, which is a temporary file of this process."""
        state = {k: v for k, v in self.__dict__.items() if k != "model"}
        return state | {"table": replace(self.table, spool=None)}  # type: ignore[arg-type]


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
        scores = backtest.run(rounds, contenders, plan.label_delay, span, on_round, watch=True)
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
    said = notes(table, rounds, scores)
    return Fit(plan, table, rounds.recipe, draw(plan, rounds.recipe), scores, span, shared, own,
               rounds.drops, said, w.ndim > 1)  # fmt: skip


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


def contender(
    rounds: Rounds, plan: Plan, options: Options, features: FeatureMap, begin: int, title: str = ""
) -> Player:
    """A method over the table, with the settings of the plan."""
    task = player.task(rounds, features, Seeds(plan.seed), plan.step or 0.2, plan.cohort,
                       plan.label_delay, plan.wire, begin)  # fmt: skip
    method = start(options, task, Surroundings(plan.check))
    return Player(title, method, features, rounds, options)


def line_up(
    rounds: Rounds, plan: Plan, compare: bool, linear_step: float, begin: int = 0
) -> list[Contender]:
    """The plan's methods, then the reference and the controls that it does not have."""
    names = {options.name for options in plan.methods}
    beside = (onlinefed.Options(), local.Options(), centralised.Options()) if compare else ()
    every = [*plan.methods, *(options for options in beside if options.name not in names)]
    waves = draw(plan, rounds.recipe)
    found: list[Contender] = [
        contender(rounds, plan, options, waves, begin, title)
        for title, options in zip(titles(every, plan.step or 0.2), every, strict=True)
    ]
    if not compare:
        return found
    line, online = Linear(rounds.recipe.taps), onlinefed.Options(step=linear_step)
    linear = contender(rounds, plan, online, line, begin, LINEAR)
    return [*found, linear, Persistence(rounds.clients)]


def tuned(
    rounds: Rounds, plan: Plan, span: Span, counting: Counting, dims: tuple[int, ...] = ()
) -> tuple[Plan, float]:
    """The plan with D (of `dims`), width and step, found on the warm-up where they are not given.

    Candidates compete within the warm-up only. First D, judged by the prequential error; then the
    width, the step, and the step of the linear control, judged in the second half by the
    prequential error and, frozen in the middle, by what they still know.
    """
    root, taps = float(np.sqrt(rounds.recipe.taps)), rounds.recipe.taps
    first = max(0, span.first - TUNING)
    own = Span(first, (first + span.first) // 2, span.first)
    if own.stop - own.frozen <= plan.label_delay + 10:
        return replace(plan, width=plan.width or root, step=plan.step or 0.2), 0.1

    def best(what: str, plans: list[Plan], patience: float, line: Linear | None = None) -> Plan:
        players = [
            contender(rounds, p, p.methods[0], line or draw(p, rounds.recipe), own.first)
            for p in plans
        ]
        with counting(f"tuning {what}") as on_round:
            scores = backtest.run(rounds, players, plan.label_delay, own, on_round)
        errors = [scores.error(j, "prequential") for j in range(len(plans))]
        errors = errors if what == "D" else _late_errors(scores, own)
        known = np.nan_to_num(errors, nan=np.inf)
        return plans[int(np.flatnonzero(known <= patience * known.min())[0])]

    if dims:
        plan = best("D", [replace(plan, dim=d) for d in dims], ENOUGH)
    if plan.width is None:
        widths = [replace(plan, width=round(c * root, 3)) for c in WIDTHS]
        plan = best("the width", widths, 1.0)
    if plan.step is None:
        plan = best("the step", [replace(plan, step=s) for s in STEPS], PATIENCE)
    linear = [replace(plan, step=s, methods=(onlinefed.Options(),)) for s in STEPS]
    return plan, best("the linear control", linear, PATIENCE, Linear(taps)).step or 0.2


def _late_errors(scores: Scores, span: Span) -> list[float]:
    """In the second half, frozen and learning together."""
    late = scores.marks > span.frozen
    return [
        np.sum(score.curve[late]) + np.sum(score.errors.get("frozen", {}).get("global", 0.0))
        for score in scores.scores
    ]


def notes(table: Table, rounds: Rounds, scores: Scores) -> list[str]:
    """What was not used and why, and reasons why the scores mean little; a line each."""
    lines = [f"dropped: {line}" for line in (*table.drops.lines(), *rounds.drops.lines())]
    if rounds.unlabelled:
        lines.append(
            f"predicted, but neither learned nor judged: {rounds.unlabelled} without target"
        )
    names, counts = (*table.numeric, table.columns.target), np.roll(rounds.beyond, -1)
    beyond = [f"{count:,} of {name!r}" for name, count in zip(names, counts, strict=True) if count]
    if beyond:
        lines.append(f"taken as missing, being far outside the usual range: {', '.join(beyond)}")
    if any(truth.count.sum() and not truth.variance > 0 for truth in scores.truths.values()):
        lines.append("the target does not vary where it is judged: no error over its variance")
    if len(scores.clients) == 1:
        lines.append("there is only one client: it has no other client to share with")
    checked = (score for score in scores.scores if score.checked)
    return lines + [f"{score.title}: {in_words(score.checked)}" for score in checked]

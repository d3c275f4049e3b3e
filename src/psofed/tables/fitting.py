"""From a plan and a table to a model with scores on data that it has not seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from psofed.core import features
from psofed.core.features import Cosines, FeatureMap, WithLine
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
from psofed.streams.data.columns import Columns, parse
from psofed.streams.data.recipe import Recipe
from psofed.streams.data.rounds import Rounds
from psofed.streams.data.table import Drops, Table
from psofed.streams.data.textfile import Form
from psofed.tables import backtest, experts, player
from psofed.tables.experts import Mixture
from psofed.tables.model import Model, lagged
from psofed.tables.plan import Plan, Span
from psofed.tables.player import Contender, Own, Player
from psofed.tables.scores import Scores

WIDTHS = (0.5, 0.75, 1.0, 1.5, 2.5)  # times sqrt(L): the distance of two samples grows with it
STEPS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
PATIENCE = 1.05  # the smallest step within 5 % of the best: it forgets least
ENOUGH = 1.03  # the smallest D within 3 % of the best
TUNING = 4000  # rounds of the warm-up, its last ones, in which candidates compete
WORST = 1.0  # of the variance: what leaves more is not saved
SEASONS = (1.0, 7.0, 365.2425)  # days
HELD = 4_000_000  # labels of a season, of all clients, that are kept
Counting = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]


def silent(what: str) -> AbstractContextManager[Callable[[int, int], None]]:
    """No progress."""
    return nullcontext(lambda done, total: None)


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """A finished fit: the plan with its tuned numbers, the scores and the models.

    `predict` uses the model, `save` writes it to a file, and `to_frame` has the scores. It can be
    pickled; the rows of the table do not come along, so that what reads them again (`table.read`)
    works only where it was made.
    """

    plan: Plan
    table: Table
    recipe: Recipe  # how a row becomes the inputs of the model
    scores: Scores
    span: Span
    model: Model  # of the best mix, after the last label
    late: tuple[float, float]  # see `Mixture.late`
    later: Drops  # rows that were read but gave no sample
    notes: list[str]

    @property
    def unit(self) -> float:
        """One scaled unit of the target, in its own units."""
        return float(self.recipe.scale[-1])

    @property
    def error(self) -> float:
        """Of the model, over the variance: on the last part, for the use that was asked for."""
        return self.scores.error(0, "frozen")

    @property
    def refused(self) -> str:
        """Why the model is not worth saving; empty if it is.

        Where labels keep coming, its weights follow a level that has changed, and it has to be
        better than a mean that was known. One that is frozen has to be right without them.
        """
        error, least = self.error, WORST
        if self.plan.use == "live":
            error, least = max(error, self.late[0]), max(least, self.late[1])
        if self.plan.force or error <= least or not np.isfinite(error):
            return ""
        return (f"leaves {self.error:.4g} of the variance on the last part, more than the mean"
                " of the target does")  # fmt: skip

    def predict(self, source: Any, interval: float | None = None) -> Any:
        """The prediction for each row of a frame or file: see `Model.predict`."""
        return self.model.predict(source, interval, self.plan.form)

    def save(self, path: str | Path) -> None:
        """Write the file that `psofed.load_model` and `psofed predict` read."""
        if self.refused:
            raise InputError("model", self.refused, "give force=True to save it all the same")
        self.model.save(path)

    def to_frame(self) -> Any:
        """The scores as a pandas frame, one row per method."""
        rows = self.scores.rows(self.unit)
        return need("pandas", "frame", "frames").DataFrame(rows).set_index("method")

    def __repr__(self) -> str:
        count, target = len(self.scores.clients), self.plan.columns.target
        whose = "1 client" if count == 1 else f"{count} clients"
        return (
            f"<Fit of {target!r}: {self.scores.scores[0].title}, {whose}, {self.table.rows:,} rows,"
            f" frozen error {self.error:.4g} of the variance>"
        )

    def __getstate__(self) -> dict[str, Any]:
        """Without the spool, which is a temporary file of this process."""
        return self.__dict__ | {"table": replace(self.table, spool=None)}  # type: ignore[arg-type]


def fit_table(
    source: Any, *, target: str, time: str | tuple[str, ...], client: str | None = None,
    **options: Any,
) -> Fit:  # fmt: skip
    """Fit a file, a folder or a data frame. Options are the fields of `Columns`, `Form` and `Plan`.

    >>> from psofed.tables import example
    >>> done = fit_table(
    ...     example.PATH, target="pollutant", time="time", client="station", label_delay=6,
    ...     calendar=("hour",), dim=50, width=2.0, step=0.3, compare=False,
    ... )
    >>> done.error < 0.7
    True
    """
    known = {cls: {f.name for f in dataclasses.fields(cls)} for cls in (Columns, Form, Plan)}
    for name in options:
        if not any(name in names for names in known.values()):
            right = nearest(name, sorted(set().union(*known.values())))
            raise InputError(name, "is not a known option", right)
    plain = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    own: dict[Any, dict[str, Any]] = {
        cls: {k: v for k, v in plain.items() if k in names} for cls, names in known.items()
    }
    roles = {"target": target, "time": time, "client": client, **own[Columns]}
    columns = parse({k: _listed(k, v) for k, v in roles.items() if v is not None})
    form = Form(**own[Form])
    table = reading.read(source, columns, form=form)
    return fit(table, Plan(columns, **{"form": form} | own[Plan]))


def _listed(name: str, value: Any) -> Any:
    """A setting as a plan has it: plain numbers, in lists where there may be several."""
    if isinstance(value, Mapping):
        return {key: _listed(f"{name}.", each) for key, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    kinds = {f.name: str(f.type) for f in dataclasses.fields(Columns)}
    several = kinds.get(name, "").startswith("tuple") or name == "lags_of."
    if isinstance(value, tuple | list):
        return [_listed("", each) for each in value]
    return [value] if several else value


@threadpool_limits.wrap(limits=1, user_api="blas")  # type: ignore[untyped-decorator] # small matrices
def fit(table: Table, plan: Plan, counting: Counting = silent) -> Fit:
    """Tune on the warm-up, then learn and judge; the best mix on the part for choosing is saved."""
    losses.check(table, plan.allow_loss)
    span = spans(table, plan)
    rounds = sampled(table, plan, span)
    plan = tuned(rounds, plan, span, counting)
    contenders = line_up(rounds, plan, span.first)
    with counting("learning, rounds") as on_round:
        scores = backtest.run(rounds, contenders, plan.label_delay, span, on_round,
                              len(plan.methods), season(table, plan))  # fmt: skip
    _check_learned(table, scores, span)
    losses.check_share(
        table,
        Drops(table.drops.counts + rounds.drops.counts, table.drops.first | rounds.drops.first),
        plan.allow_loss,
    )
    best = next(c for c in contenders if c.score is scores.scores[0])
    assert isinstance(best, Mixture)
    model = saved(rounds, plan, best, scores, season(table, plan))
    found = Fit(plan, table, rounds.recipe, scores, span, model, best.late(), rounds.drops,
                notes(table, rounds, scores))  # fmt: skip
    if found.error > WORST and not (found.refused or plan.force):
        found.notes.append(
            "WARNING: the level changed: with the weights that are saved, which know the last part,"
            f" the model leaves {found.late[0]:.4g} of its variance"
        )
    return found


def saved(rounds: Rounds, plan: Plan, mix: Mixture, scores: Scores, season: int) -> Model:
    """A mix as one vector for each client; labels that keep coming are inputs of the recipe."""
    w, habits = mix.vectors()
    recipe, cosines = rounds.widened, draw(plan, rounds.recipe)
    if plan.use == "live":
        lags = {max(plan.label_delay, 1): habits[:, 0]}
        lags[season] = lags.get(season, 0.0) + habits[:, 1]
        recipe, cosines, w = lagged(recipe, cosines, w, lags)
    learned = scores.intervals
    assert learned is not None
    names = tuple(scores.clients)
    shared = experts.sound(mix.player.shared)
    shared = shared if shared.ndim == 1 else shared.mean(axis=0)
    # As a file has them, so that what is saved and loaded says the same.
    mean, own, radii = (a.astype(np.float32) for a in (w.mean(axis=0), w, learned.radii))
    return Model(recipe, WithLine(cosines), mean, names, own, mix.score.title, plan.label_delay,
                 radii, shared.copy())  # fmt: skip


def season(table: Table, plan: Plan) -> int:
    """Ticks after which labels are alike: the shortest of day, week and year that is known then."""
    if plan.season is not None:
        return max(plan.season, plan.label_delay, 1)
    days = table.ticks.days
    lengths = [] if np.isnan(days) else [round(length / days) for length in SEASONS]
    fits = [ticks for ticks in lengths if ticks > max(plan.label_delay, 1)]
    return fits[0] if fits and fits[0] * len(table.clients) <= HELD else max(plan.label_delay, 1)


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
    # Weights of frozen models are chosen on a part before the last, as long where there is room.
    choice = max(2 * frozen - total, (first + frozen) // 2, first + plan.label_delay + 1)
    return Span(first, frozen, total, min(choice, frozen))


def sampled(table: Table, plan: Plan, span: Span) -> Rounds:
    """The samples of a table, scaled as its warm-up says; all of it, if every range is given."""
    stop = span.first or table.rounds
    limits, limited = recipes.usual(table, stop), plan.limited
    recipe = recipes.learn(table, stop, limits if limited else None)
    return Rounds(table, recipe, limits=limits, limited=limited)


def draw(plan: Plan, recipe: Recipe) -> Cosines:
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


def line_up(rounds: Rounds, plan: Plan, begin: int = 0) -> list[Contender]:
    """A mix with each method of the plan, the methods and controls, and what needs no byte.

    What comes later in the list plays first: a mix hears the others.
    """
    names = {options.name for options in plan.methods}
    others = (onlinefed.Options(), local.Options(), centralised.Options()) if plan.compare else ()
    every = [*plan.methods, *(options for options in others if options.name not in names)]
    cosines = draw(plan, rounds.recipe)
    players = [
        contender(rounds, plan, options, cosines, begin, title)
        for title, options in zip(titles(every, plan.step or 0.2), every, strict=True)
    ]
    free = experts.free(rounds.clients, cosines, rounds.recipe.taps, plan.use)
    mixes = [
        Mixture(player, free, plan.label_delay, plan.use) for player in players[: len(plan.methods)]
    ]
    return [*mixes, *players, *reversed(free.all)]


def tuned(
    rounds: Rounds, plan: Plan, span: Span, counting: Counting, dims: tuple[int, ...] = ()
) -> Plan:
    """The plan with D (of `dims`), width and step, found on the warm-up where they are not given.

    Candidates compete within the warm-up only, by the clients' own models, as a mix has them. First
    D, judged by the prequential error; then the width and the step, judged in the second half by
    the prequential error and, unless labels keep coming, by what they still know of the first.
    """
    root = float(np.sqrt(rounds.recipe.taps))
    first = max(0, span.first - TUNING)
    own = Span(first, (first + span.first) // 2, span.first)
    if own.stop - own.frozen <= plan.label_delay + 10:
        return replace(plan, width=plan.width or root, step=plan.step or 0.2)

    def best(what: str, plans: list[Plan], patience: float) -> Plan:
        players = [
            contender(rounds, p, p.methods[0], draw(p, rounds.recipe), own.first) for p in plans
        ]
        line = [*map(Own, players), *players]
        with counting(f"tuning {what}") as on_round:
            scores = backtest.run(rounds, line, plan.label_delay, own, on_round)
        errors = [scores.error(j, "prequential") for j in range(len(plans))]
        errors = errors if what == "D" else _late_errors(scores, own, plan.use)[: len(plans)]
        known = np.nan_to_num(errors, nan=np.inf)
        return plans[int(np.flatnonzero(known <= patience * known.min())[0])]

    if dims:
        plan = best("D", [replace(plan, dim=d) for d in dims], ENOUGH)
    if plan.width is None:
        widths = [replace(plan, width=round(c * root, 3)) for c in WIDTHS]
        plan = best("the width", widths, 1.0)
    if plan.step is None:
        plan = best("the step", [replace(plan, step=s) for s in STEPS], PATIENCE)
    return plan


def _late_errors(scores: Scores, span: Span, use: str) -> list[float]:
    """In the second half, learning; and frozen, where models have to do without labels."""
    late = scores.marks > span.frozen
    part = "frozen" if use == "frozen" else "none"
    return [
        np.sum(score.curve[late]) + np.sum(score.errors.get(part, {}).get("global", 0.0))
        for score in scores.scores
    ]


def notes(table: Table, rounds: Rounds, scores: Scores) -> list[str]:
    """What was not used and why, and reasons why the scores mean little; a line each."""
    lines = [f"dropped: {line}" for line in (*table.drops.lines(), *rounds.drops.lines())]
    if rounds.unlabelled:
        lines.append(
            f"predicted, but neither learned nor judged: {rounds.unlabelled} without target"
        )
    lines += [line for line in table.notes if line.startswith("WARNING")] + rounds.notes()
    if any(truth.count.sum() and not truth.variance > 0 for truth in scores.truths.values()):
        lines.append("the target does not vary where it is judged: no error over its variance")
    if len(scores.clients) == 1:
        lines.append("there is only one client: it has no other client to share with")
    checked = (score for score in scores.scores if score.checked)
    return lines + [f"{score.title}: {in_words(score.checked)}" for score in checked]

"""Each method as it is compared: at its best, or as it is.

What was found can be kept as text next to a checkpoint, for a comparison that goes on later.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from psofed.compare import budget, lattice
from psofed.compare.budget import Cost
from psofed.compare.search import (
    AIMS,
    Aim,
    OnPart,
    Pilot,
    Search,
    Who,
    Winner,
    default_target,
)
from psofed.errors import InputError
from psofed.experiment import Experiment, parse
from psofed.extras import versions
from psofed.federation import plugins
from psofed.federation.options import Options
from psofed.simulate.montecarlo import Pool

HOW = ("fair", "plain", "none")
How = Literal["fair", "plain", "none"]
WORTH_DB, WORTH_BYTES = 0.1, 0.9
Reporter = Callable[..., OnPart]  # a name, and whether its parts are runs


def silent(name: str, runs: bool = False) -> OnPart:
    """No progress is shown."""
    return lambda done, total: None


class Trial(NamedTuple):
    """A step, averaged or not, with its error in dB and its bytes to the target in a pilot."""

    step: float | None
    averaged: bool
    error: float
    bytes: float = np.inf


@dataclass(frozen=True)
class Entry:
    """A method of the comparison as it is run."""

    options: Options
    cost: Cost
    step: float | None  # None if it has none
    trials: tuple[Trial, ...] = ()  # of the last pilot
    aims: tuple[Aim, ...] = AIMS  # the tables in which it stands
    gifted: bool = False  # whether it has a gift: coded values, another basis, another learner
    edges: tuple[str, ...] = ()  # options at the end of what was tried


class Tuned(NamedTuple):
    """All entries, the target in dB, and who was left out, and why."""

    entries: list[Entry]
    target: float | None
    left_out: list[tuple[str, str]]


def tune(
    experiment: Experiment,
    allowed: float,
    how: How,
    target: float | None,
    workers: Pool,
    report: Reporter,
) -> Tuned:
    """Every method of the experiment as it is compared, within the budget.

    "fair" is at its best for each aim, with gifts, "plain" without them; "none" has its knob at the
    budget, and the step that it has. `report` is given the name of a part of the search and
    returns what to call as it goes on.
    """
    if how != "none":
        _check_steps(experiment)
    fitting, left_out, on_part = {}, [], report("fitting to the budget")
    for i, (title, options) in enumerate(zip(experiment.titles, experiment.methods, strict=True)):
        base = options if how == "none" else lattice.bare(options)
        settings, why = lattice.settings(experiment, base, allowed, how != "none")
        if settings:
            fitting[title] = settings
        else:
            left_out.append((title, why))
        on_part(i + 1, len(experiment.methods))
    if how == "none":
        made = [
            Entry(o, budget.cost(experiment, o), (o.step or experiment.step) if o.steps else None)
            for [o] in fitting.values()
        ]
    else:
        pilot = Pilot(experiment, allowed, workers)
        contestants: dict[Who, Any] = {(t, aim): s for t, s in fitting.items() for aim in AIMS}
        target = pilot.target = _target(pilot, contestants, report) if target is None else target
        winners = Search(pilot, report, "tuning").best(contestants)
        better = _gifted(experiment, pilot, winners, report) if how == "fair" else {}
        made = [*_entries(experiment, winners), *_entries(experiment, better, gifted=True)]
        beaten = [title for title in fitting if all(title != who for who, _ in winners)]
        left_out += [(title, "sends more than the budget") for title in beaten]
    _check_enough(made, left_out, allowed)
    return Tuned(distinct(made), target, left_out)


def _check_enough(
    entries: Sequence[Entry], left_out: Sequence[tuple[str, str]], allowed: float
) -> None:
    """Refuse a budget at which there is nothing to compare."""
    if left_out and all(entry.options.role != "method" for entry in entries):
        why = ", ".join(f"{title} {reason}" for title, reason in left_out)
        found = f"is {allowed:g}, which no method fits: {why}"
        raise InputError("budget", found, "give a larger share, or more rounds")


def _check_steps(experiment: Experiment) -> None:
    """Refuse a search of steps where a promise of privacy holds for small ones only."""
    if experiment.privacy is not None and experiment.privacy.hides_samples:
        found = "has epsilon, which holds for small steps only, and tuning tries larger ones"
        right = "leave [privacy] out, use tuning none, or sweep the step"
        raise InputError("privacy", found, right)


def _target(pilot: Pilot, contestants: Mapping[Who, Sequence[Options]], report: Reporter) -> float:
    """1 dB above the reference at its best."""
    first = {w: s for w, s in contestants.items() if s[0].role == "reference" and w[1] == "error"}
    [best, *_] = Search(pilot, report, "tuning the reference").best(first).values()
    return default_target(best.score.error)


def _gifted(
    experiment: Experiment, pilot: Pilot, winners: Mapping[Who, Winner], report: Reporter
) -> dict[Who, Winner]:
    """The methods that are better with a gift than without, or affordable only with it."""
    on_part, found = report("fitting gifts to the budget"), dict[Who, Sequence[Options]]()
    bases: dict[Who, Options] = {}
    for i, (title, options) in enumerate(zip(experiment.titles, experiment.methods, strict=True)):
        for aim in AIMS:
            who = title, aim
            best = winners[who].score.options if who in winners else options
            settings = lattice.gifted(experiment, lattice.bare(best), pilot.budget)
            if settings:
                found[who], bases[who] = settings, best
        on_part(i + 1, len(experiment.methods))
    better = Search(pilot, report, "tuning with gifts", gifted=True).best(found, bases)
    return {who: winner for who, winner in better.items() if _helped(who, winner, winners)}


def _helped(who: Who, winner: Winner, winners: Mapping[Who, Winner]) -> bool:
    """Whether a gift is worth a row: 0.1 dB, or a tenth of the bytes."""
    if who not in winners:
        return True
    given, plain = winner.score, winners[who].score
    if who[1] == "error":
        return given.error < plain.error - WORTH_DB
    return given.bytes < plain.bytes * WORTH_BYTES


def _entries(
    experiment: Experiment, winners: Mapping[Who, Winner], gifted: bool = False
) -> Iterator[Entry]:
    for (_, aim), (score, trials) in winners.items():
        options, sent = _named(score.options), budget.cost(experiment, score.options)
        tried = (Trial(s.options.step, s.options.average, s.error, s.bytes) for s in trials)
        yield Entry(
            options, sent._replace(share=score.share), options.step, tuple(tried), (aim,), gifted,
            lattice.edges(experiment, options),
        )  # fmt: skip


def _named(options: Options) -> Options:
    """A method that has a label, with what was found for it."""
    if not options.label:
        return options
    return replace(options, label=f"{options.label}: {replace(options, label='').title()}")


def distinct(entries: Sequence[Entry]) -> list[Entry]:
    """Methods that a search has made equal, once, in all the tables of both."""
    kept: dict[Options, Entry] = {}
    for entry in entries:
        other = kept.setdefault(entry.options, entry)
        aims = tuple(aim for aim in AIMS if aim in (*other.aims, *entry.aims))
        kept[entry.options] = replace(other, aims=aims, gifted=other.gifted and entry.gifted)
    return list(kept.values())


def to_text(experiment: Experiment, asked: dict[str, Any], found: Tuned) -> str:
    """The search for this experiment; nothing where methods come from outside."""
    if not all(plugins.is_ours(type(entry.options)) for entry in found.entries):
        return ""
    tuned = replace(experiment, methods=tuple(entry.options for entry in found.entries))
    names = ("cost", "step", "trials", "aims", "gifted", "edges")
    entries = [{name: getattr(entry, name) for name in names} for entry in found.entries]
    kept = {
        **_question(experiment, asked), "methods": tuned.to_table()["methods"], "entries": entries,
        "target": found.target, "left_out": found.left_out,
    }  # fmt: skip
    return json.dumps(kept)


def from_text(text: str, experiment: Experiment, asked: dict[str, Any]) -> Tuned | None:
    """The search that `text` holds, if it answers this question."""
    try:
        kept = json.loads(text)
        question = json.loads(json.dumps(_question(experiment, asked)))
        if {key: kept.get(key) for key in question} != question:
            return None
        methods = parse(question["experiment"] | {"methods": kept["methods"]}).methods
        entries = [_entry(o, e) for o, e in zip(methods, kept["entries"], strict=True)]
        return Tuned(entries, kept["target"], [(title, why) for title, why in kept["left_out"]])
    except (ValueError, KeyError, TypeError):  # a damaged file is ignored
        return None


def _question(experiment: Experiment, asked: dict[str, Any]) -> dict[str, Any]:
    """What decides a search: not the number of runs, which may grow."""
    table = replace(experiment, runs=1).to_table()
    return {"experiment": table, "asked": asked, "versions": versions()}


def _entry(options: Any, table: dict[str, Any]) -> Entry:
    trials = tuple(Trial(*trial) for trial in table["trials"])
    aims, edges = tuple(table["aims"]), tuple(table["edges"])
    return Entry(options, Cost(*table["cost"]), table["step"], trials, aims, table["gifted"], edges)

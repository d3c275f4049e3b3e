"""From advice to the file that `psofed run`, `psofed serve` and `psofed client` take."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from psofed.data import recipe as recipes
from psofed.data.rounds import Rounds
from psofed.experiment import Experiment, Features
from psofed.fit.federation import Span
from psofed.fit.plan import Plan
from psofed.methods import onlinefed
from psofed.sample_checks import range as ranges
from psofed.streams import table as streams

Array = NDArray[Any]
RUNS = 10  # of `psofed run`: seeds of features, masks and cohorts on the same data
HEAD = """\
# Written by `psofed advise`. One file for
#   psofed run FILE                                      simulate it on the table
#   psofed serve FILE --state server                     the server of the devices
#   psofed client FILE --id NAME --state NAME --broker mqtt://HOST --stream -
# Devices read rows as they come and need neither the table nor `stream.file`.

"""


def experiment(rounds: Rounds, plan: Plan, span: Span, source: str | Path | None) -> Experiment:
    """The plan as an experiment on the table, in which round n is the fit's: tick n.

    The plan's method comes first; full sharing follows for comparison.
    """
    recipe, names = recipes.of(rounds.table, rounds.encoder), rounds.table.clients
    stream = streams.Options(
        recipe.columns, recipe.scaling, tuple(names),
        "" if source is None else str(Path(source).resolve()), plan.label_delay, span.first,
        span.frozen, recipe.categories, recipe.tick, recipe.start, recipe.calendar,
        recipe.time_format, plan.form,
    )  # fmt: skip
    full, check, limits = onlinefed.Options(), plan.check, rounds.encoder.limits
    if limits is not None and isinstance(check, ranges.Options):  # in the units of the models
        low, high = rounds.encoder.target(limits[:, -1]).tolist()
        check = replace(check, low=low if isfinite(low) else None,
                        high=high if isfinite(high) else None)  # fmt: skip
    others = () if any(o.name == full.name for o in plan.methods) else (full,)
    return Experiment(
        clients=len(names), rounds=span.frozen, runs=RUNS, seed=plan.seed,
        cohort=min(plan.cohort, len(names)), step=plan.step or 0.2, stream=stream,
        features=Features(dim=plan.dim, width=plan.width or 1.0), check=check,
        methods=(*plan.methods, *others),
    )  # fmt: skip


def to_table(made: Experiment, wire: str) -> dict[str, Any]:
    """The experiment, and how it is deployed."""
    deploy = {"run": "p", "clock": "live", "wire": wire, "method": 0}
    return made.to_table() | {"deploy": deploy}


def to_toml(made: Experiment, wire: str) -> str:
    """The file."""
    import tomli_w

    return HEAD + tomli_w.dumps(to_table(made, wire))

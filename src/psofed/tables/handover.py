"""From advice to the file that `psofed run`, `psofed serve` and `psofed client` take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.methods import onlinefed
from psofed.rows import recipe as recipes
from psofed.rows.rounds import Rounds
from psofed.streams import table as streams
from psofed.tables.federate import Span
from psofed.tables.plan import Plan

Array = NDArray[Any]
RUNS = 10  # of `psofed run`: seeds of features, masks and cohorts on the same data
HEAD = """\
# Written by `psofed advise`. One file for
#   psofed run FILE                                      simulate it on the table
#   psofed serve FILE --state server                     the server of the devices
#   psofed client FILE --id NAME --state NAME --broker mqtt://HOST --stream -
# Devices read rows as they come and need neither the table nor `stream.file`.

"""


def experiment(
    rounds: Rounds, plan: Plan, span: Span, source: str | Path | None
) -> tuple[Experiment, list[str]]:
    """The plan as an experiment on the table, and the clients that have nothing to learn from.

    Full sharing stands beside the plan's method, which comes first.
    """
    counts = labelled(rounds, span)
    names = rounds.table.clients
    if not counts.any():
        found = "has no label between warm-up and last part"
        raise InputError("", found, "bring more rows", rounds.table.latest)
    silent = [name for name, count in zip(names, counts, strict=True) if not count]
    recipe = recipes.of(rounds.table, rounds.encoder)
    stream = streams.Options(
        recipe.columns, recipe.scaling, tuple(n for n in names if n not in silent),
        "" if source is None else str(Path(source).resolve()), plan.label_delay, span.first,
        span.frozen, recipe.categories, recipe.tick, recipe.start, recipe.calendar,
    )  # fmt: skip
    full = onlinefed.Options()
    others = () if any(o.name == full.name for o in plan.methods) else (full,)
    made = Experiment(
        clients=stream.count, rounds=int(counts.max()), runs=RUNS, seed=plan.seed,
        cohort=min(plan.cohort, stream.count), step=plan.step or 0.2, stream=stream,
        features=Features(dim=plan.dim, width=plan.width or 1.0), methods=(*plan.methods, *others),
    )  # fmt: skip
    return made, silent


def labelled(rounds: Rounds, span: Span) -> Array:
    """How many labels each client has between the warm-up and the last part."""
    counts = np.zeros(rounds.clients, int)
    for block in rounds.blocks(span.frozen):
        n = block.first + np.arange(len(block.y))
        known = block.has & ~np.isnan(block.y) & (n >= span.first)[:, None]
        counts += known.sum(axis=0)
    return counts


def to_toml(made: Experiment, wire: str) -> str:
    """The file: the experiment, and how it is deployed."""
    import tomli_w

    deploy = {"run": "p", "clock": "live", "wire": wire, "method": 0}
    return HEAD + tomli_w.dumps(made.to_table() | {"deploy": deploy})

"""What a search has found, as text beside a checkpoint, for a comparison that goes on later."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from psofed import plugins
from psofed.compare.budget import Cost
from psofed.compare.tuning import Entry, Trial, Tuned
from psofed.experiment import Experiment, parse
from psofed.provenance import versions


def text(experiment: Experiment, asked: dict[str, Any], found: Tuned) -> str:
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


def read(text: str, experiment: Experiment, asked: dict[str, Any]) -> Tuned | None:
    """The search that `text` holds, if it answers this question."""
    try:
        kept = json.loads(text)
        question = json.loads(json.dumps(_question(experiment, asked)))
        if {key: kept.get(key) for key in question} != question:
            return None
        methods = parse(question["experiment"] | {"methods": kept["methods"]}).methods
        entries = [_entry(o, e) for o, e in zip(methods, kept["entries"], strict=True)]
        return Tuned(entries, kept["target"], [(title, why) for title, why in kept["left_out"]])
    except (ValueError, KeyError, TypeError):  # a file that is not whole is no answer
        return None


def _question(experiment: Experiment, asked: dict[str, Any]) -> dict[str, Any]:
    """What decides a search: not the number of runs, which may grow."""
    table = replace(experiment, runs=1).to_table()
    return {"experiment": table, "asked": asked, "versions": versions()}


def _entry(options: Any, table: dict[str, Any]) -> Entry:
    trials = tuple(Trial(*trial) for trial in table["trials"])
    aims, edges = tuple(table["aims"]), tuple(table["edges"])
    return Entry(options, Cost(*table["cost"]), table["step"], trials, aims, table["gifted"], edges)

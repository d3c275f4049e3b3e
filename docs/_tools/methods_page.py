"""The page that lists methods and policies: written from the code, so that it agrees with it.

python docs/_tools/methods_page.py methods.md

The module of a method or policy says where it comes from in four paragraphs of its docstring, in
this order, after the first line: "Source: ...", "Faithful: ..." (what is as published), "Ours: ..."
(what is not), "Unverified: ..." (what could not be checked). What else it has to say comes after.
"""

from __future__ import annotations

import dataclasses
import sys
from inspect import getdoc
from pathlib import Path
from typing import Any

import leaves_table

from psofed.experiment import Experiment
from psofed.federation import schema
from psofed.methods import onlinefed
from psofed.simulate.any_method import RunSamples, play
from psofed.simulate.draws import draw

HEAD = """# Methods

Written from the code by `python docs/_tools/methods_page.py methods.md`. Symbols are the
paper's: w the server's model, w_k a client's, S_n the cohort, D features, M entries that travel, E
local steps; U_k is what the upload of client k alone would change. Other ways to select clients are
[at the end](#client-selection).

Bytes per round are those of encoded messages in the paper's setting (D = 200,
|S_n| = 4, float32 values) with the options as shown, the mean of {rounds} rounds: up from all
clients, down to each, and down once where all get the same (multicast). On a graph of 100 nodes
without a server, "up" counts every broadcast once, and "down" the bytes that are added if each
neighbour gets its own copy. `psofed compare` sets the knob of a method to fit a budget. What
uploads tell the server about samples is [a table of its
own](#what-leaves-a-client).

Each entry says where its method comes from, what here is as published, what is ours, and what could
not be verified: original papers were not at hand for every detail.
"""
POLICIES = """## Client selection

Without a policy S_n is uniform and a_k = 1/|S_n|. A policy decides who is asked, who uploads and
with which weights: w_{{n+1}} = w_n + sum_k a_k U_k. It can be used with all methods except those
that select clients themselves ({own}), as a table within that of the method:

```toml
[[methods]]
name = "onlinefed"

[methods.policy]
name = "{first}"
```

Bytes are those of Online-Fed with the policy among 100 clients; questions, reports and replies are
part of them. Policies are simulated; a deployed server refuses them. Differences in dB are those of
the mean error of rounds 1,000 to 1,500 in the paper's setting, run by run: the mean of 10 runs, and
its standard error in brackets.
"""
ROUNDS = 120
POINTS = ("Source", "Faithful", "Ours", "Unverified")


def page() -> str:
    """The whole page."""
    names = schema.names("psofed.methods")
    parts = [HEAD.format(rounds=ROUNDS), _overview(names)]
    parts += [_section(schema.load("psofed.methods", name), f"## {name}") for name in names]
    return "\n".join([*parts, *_policies(names), leaves_table.section()])


def _overview(names: list[str]) -> str:
    lines = ["| method | `name` | knob | up | down | multicast down |", "|---|---|---|---|---|---|"]
    for name in names:
        options = schema.load("psofed.methods", name).Options()
        up, down, multicast = (_short(value) for value in traffic(options))
        knob = f"`{options.knob.field}`" if options.knob else "-"
        title = f"[{options.title()}](#{name})"
        lines.append(f"| {title} | `{name}` | {knob} | {up} | {down} | {multicast} |")
    return "\n".join(lines) + "\n"


def _policies(methods: list[str]) -> list[str]:
    own = [m for m in methods if schema.load("psofed.methods", m).Options.selects]
    names = schema.names("psofed.policies")
    modules = [schema.load("psofed.policies", name) for name in names]
    lines = ["| policy | `name` | up | down | multicast down |", "|---|---|---|---|---|"]
    for name, module in zip(names, modules, strict=True):
        options = onlinefed.Options(policy=module.Options())
        up, down, multicast = (_short(value) for value in traffic(options, clients=100))
        title = f"[{module.Options().describe()}](#{name})"
        lines.append(f"| {title} | `{name}` | {up} | {down} | {multicast} |")
    head = POLICIES.format(own=", ".join(own), first=names[0])
    sections = [_section(m, f"### {name}") for name, m in zip(names, modules, strict=True)]
    return [head, "\n".join(lines) + "\n", *sections]


def _short(value: float) -> str:
    return f"{value:.4g}" if value < 10_000 else f"{value:.0f}"


def traffic(options: Any, clients: int = 8) -> tuple[float, float, float]:
    """Bytes per round: up, down, multicast down; from real messages."""
    # In double precision, so that event triggers are the same on every machine.
    experiment = Experiment(
        clients=clients, rounds=ROUNDS, runs=1, dtype="float64", methods=(options,)
    )
    task = experiment.task(0)
    [method] = experiment.start(task)
    draws = draw(experiment, task, everybody=True)
    total = [0, 0, 0]
    for moment in play(method, RunSamples(draws)):
        total = [a + b for a, b in zip(total, moment.traffic, strict=True)]
    scale = 100 / clients if options.everybody else 1.0  # where all of the 100 send
    up, down, multicast = (scale * value / ROUNDS for value in total)
    return up, down, multicast


def points(module: Any) -> tuple[dict[str, str], list[str]]:
    """What a module says about its origin, by label, and the other paragraphs of its docstring."""
    found, rest = {}, []
    for paragraph in (module.__doc__ or "").strip().split("\n\n"):
        label, _, text = paragraph.partition(": ")
        if label in POINTS:
            found[label] = text
        else:
            rest.append(paragraph)
    return found, rest


def _section(module: Any, heading: str) -> str:
    origin, (first, *rest) = points(module)
    said = [f"- **{label}:** " + text.replace("\n", "\n  ") for label, text in origin.items()]
    handlers = module.Method if hasattr(module, "Method") else module.Policy
    rule = (getdoc(handlers) or "").strip()
    rows = [
        f"| `{field.name}` | {_default(field)} |"
        for field in dataclasses.fields(module.Options)
        if field.name not in ("label", "policy", "features", "learner")
    ]
    table = "\n".join(["| option | default |", "|---|---|", *rows])
    about = [first, "\n".join(said), *rest]
    text = [heading, *about, f"```\n{rule}\n```", getdoc(module.Options) or "", table]
    return "\n\n".join(filter(None, text)) + "\n"


def _default(field: Any) -> str:
    shared = {None: "not set", "": "not set"}
    if field.name == "step":
        return "the experiment's"
    value = field.default
    if isinstance(value, tuple):
        return f"`{list(value)}`"
    return shared.get(value, f"`{str(value).lower() if isinstance(value, bool) else value}`")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")

"""The page that lists the keys of experiment files: written from the dataclasses that read them.

The meaning of a key is the comment beside its field. "Allowed" is the advice in the reader's error
message for values that are too small, too large or of the wrong kind.

python docs/_tools/fields_page.py fields.md
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.federation import schema, texts
from psofed.federation.feature_table import BASIS
from psofed.federation.membership import Change
from psofed.federation.options import Common
from psofed.fleet.protocol.deployment import Deploy
from psofed.methods.onlinefed import Options as OnlineFed
from psofed.settings import TABLES
from psofed.stages.privacy import Privacy
from psofed.tables.plan import Plan

HEAD = """# Keys of the TOML files

Written from the code by `python docs/_tools/fields_page.py fields.md`. "Allowed" is the advice
that the reader gives when a value is wrong. An unknown key is an error that names the nearest known
one. A key that is left out has its default.
"""
EXPERIMENT = """## An experiment

For `psofed run`, `compare`, `study` and `deploy`; `psofed init` writes one with comments.
"""
LEARNER = """### `[learner]`

What clients learn, and how; not given: `lms`. [extend.md](extend.md) is about them and
about your own. `name` is one of these, or a file of yours:
"""
ATTACK = """### `[attack]`

What malicious clients do; not given: there are none. [trust.md](trust.md) is about attacks and
defences. `name` is one of these, or a file of yours:
"""
DEFENCE = """### `[defence]`

What the server does about malicious clients; not given: nothing. `name` is one of these, or a file
of yours:
"""
CHECK = """### `[check]`

What clients do not learn from; not given: they learn from every sample in a simulation, and as
`outliers` says from those that a device measures. [trust.md](trust.md) is about it. `name` is
one of these, or a file of yours:
"""
FLEET = """### `[[fleet]]`

Clients that join, leave and return; not given: the first ones stay.
[experiments.md](experiments.md) is about it. One table for each change:
"""
PRIVACY = """### `[privacy]`

What the server may learn of a client; not given: all that is sent. [privacy.md](privacy.md) is
about it.
"""
METHODS = """### `[[methods]]`

One table per curve. `name` is a method of [methods.md](methods.md), which lists the further keys of
each method. Tables after it are its own: `[methods.policy]` selects its clients, and
`[methods.features]` and `[methods.learner]` stand for those of the experiment
([extend.md](extend.md)). All methods have:
"""
PLAN = """## A plan for a table

For `psofed fit --plan`; `psofed advise` and `psofed fit` write one. `[[methods]]` is as above, and
so is `[check]`, without a range: that is of the warm-up, or given in `[columns]`.
"""
Columns, Form = (get_type_hints(Plan)[name] for name in ("columns", "form"))
KINDS = {int: "whole number", float: "number", bool: "true or false", str: "text"}
PROBES: dict[Any, tuple[Any, ...]] = {
    int: (-1, 0, 10**30),
    float: (-1.0, 0.0, 1e300, float("nan")),
    tuple[float, float]: ((1.0, -1.0), (-9.0, 9.0)),
    tuple[int, ...]: ((0,),),
    tuple[str, ...]: (("no such thing",),),
}


def page() -> str:
    """The whole page."""
    parts = [
        HEAD,
        EXPERIMENT,
        fields(Experiment, Experiment, TABLES),
    ]
    parts += ["### `[stream]`\n\n`name` is one of these:\n"]
    for name in schema.names("psofed.streams"):
        module = schema.load("psofed.streams", name)
        about = (module.__doc__ or "").partition("\n\n")[0]
        parts += [
            f"#### {name}\n\n{about}\n",
            fields(module.Options, _stream(module.Options), ("form",)),
        ]
    parts += ["### `[features]`\n", fields(Features, _features)]
    parts += [LEARNER]
    for name in schema.names("psofed.learners"):
        module = schema.load("psofed.learners", name)
        about = (module.__doc__ or "").partition("\n\n")[0]
        parts += [f"#### {name}\n\n{about}\n", fields(module.Options, _learner(module.Options))]
    for table, words in (("attack", ATTACK), ("defence", DEFENCE)):
        parts += [words]
        for name in schema.names(f"psofed.{table}s"):
            module = schema.load(f"psofed.{table}s", name)
            about = (module.__doc__ or "").partition("\n\n")[0]
            parts += [
                f"#### {name}\n\n{about}\n",
                fields(module.Options, _in(table, module.Options)),
            ]
    parts += [CHECK]
    for name in schema.names("psofed.sample_checks"):
        module = schema.load("psofed.sample_checks", name)
        about = (module.__doc__ or "").partition("\n\n")[0]
        parts += [f"#### {name}\n\n{about}\n", fields(module.Options, _check(module.Options))]
    parts += [PRIVACY, fields(Privacy, _privacy)]
    parts += [FLEET, fields(Change, _change)]
    parts += [METHODS, fields(Common, _with_method, ("policy", "features", "learner"))]
    parts += [
        "### `[deploy]`\n\nFor `psofed deploy serve` and `psofed deploy client`.\n",
        fields(Deploy, Deploy),
    ]
    parts += [PLAN, fields(Plan, _plan, ("columns", "methods", "form", "check"))]
    parts += ["### `[columns]`\n", fields(Columns, _columns)]
    parts += ["### `[form]`\n\nHow the file is written, where that is not to be found out.\n"]
    parts += [fields(Form, Form)]
    return "\n".join(parts)


def _stream(options: Any) -> Callable[..., Any]:
    """What makes a stream of one of its keys; an own function needs some others, too."""

    def build(**values: Any) -> Any:
        known: dict[str, Any] = {"f": "x1", "taps": 1} if options.name == "function" else {}
        changes = {"at", "period"} & values.keys() and known
        return options(**known | ({"change": "x1"} if changes else {}) | values)

    return build


def _features(**values: Any) -> Features:
    """Features of one key; those about a basis need one."""
    basis = {"basis": "whitened"} if values.keys() & set(BASIS[1:]) else {}
    return Features(**basis | values)


def _in(table: str, options: Any) -> Callable[..., Any]:
    """An experiment with this attack or defence, in a cohort that every defence accepts."""

    def make(**values: Any) -> Experiment:
        more: Any = {table: options(**values)}
        return Experiment(clients=40, cohort=9, methods=(OnlineFed(),), **more)

    return make


def _learner(options: Any) -> Callable[..., Any]:
    """What makes an experiment with one key of a learner."""
    return lambda **values: Experiment(learner=options(**values))


def _check(options: Any) -> Callable[..., Any]:
    """What makes an experiment with one key of a sample check."""
    return lambda **values: Experiment(check=options(**values))


def _privacy(**values: Any) -> Experiment:
    """An experiment with one key of [privacy]; self-masks need masks."""
    masks = {"masks": True} if "self_masks" in values else {}
    return Experiment(privacy=Privacy(**masks | values), methods=(OnlineFed(),))


def _change(**values: Any) -> Experiment:
    """An experiment with one change of its fleet."""
    return Experiment(fleet=(Change(**{"round": 10} | values),))


def _with_method(**values: Any) -> Experiment:
    from psofed.methods.psofed import Options

    return Experiment(methods=(Options(**values),))


def _columns(**values: Any) -> Any:
    return Columns(**{"target": "y", "time": ("t",)} | values)


def _plan(**values: Any) -> Plan:
    return Plan(columns=_columns(), **values)


def fields(cls: Any, build: Callable[..., Any], tables: tuple[str, ...] = ()) -> str:
    """The keys of one table; `build` refuses what is not allowed. `tables` have their own."""
    hints, notes = get_type_hints(cls), comments(cls)
    lines = ["| key | type | default | meaning | allowed |", "|---|---|---|---|---|"]
    for field in dataclasses.fields(cls):
        if field.name in tables:
            continue
        hint = _plain(hints[field.name])
        cells = [f"`{field.name}`", kind(hint), _default(field), notes.get(field.name, "")]
        cells.append(allowed(build, field.name, hint))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else "It has no keys.\n"


def _plain(hint: Any) -> Any:
    """The type without "or not set", and without what no file can hold: a function."""
    if get_origin(hint) not in (UnionType, Union):
        return hint
    rest = [a for a in get_args(hint) if a is not NoneType and get_origin(a) is not Callable]
    return rest[0] if len(rest) == 1 else hint


def kind(hint: Any) -> str:
    """A type in words.

    >>> kind(tuple[float, float]), kind(tuple[str, ...]), kind(Literal["a", "b"])
    ('two numbers', 'list of texts', '`"a"`, `"b"`')
    >>> kind(tuple[float, float] | str | Callable[[int], int])
    'two numbers or text'
    """
    inside = get_args(hint)
    if get_origin(hint) in (UnionType, Union):
        return " or ".join(kind(a) for a in inside if get_origin(a) is not Callable)
    if get_origin(hint) is Literal:
        return ", ".join(f'`"{choice}"`' for choice in inside)
    if get_origin(hint) is tuple:
        word = KINDS[inside[0]] + "s"
        return f"list of {word}" if inside[1] is Ellipsis else f"two {word}"
    return KINDS.get(hint, "table")


def _default(field: Any) -> str:
    value = field.default
    if value is dataclasses.MISSING:
        return "empty" if field.default_factory is not dataclasses.MISSING else "needed"
    if value is None or value in ("", ()):
        return "not set"
    shown = list(value) if isinstance(value, tuple) else value
    shown = str(shown).lower() if isinstance(shown, bool) else shown
    return f'`"{shown}"`' if isinstance(value, str) else f"`{shown}`"


def comments(cls: Any) -> dict[str, str]:
    """The comment beside each field, including those of base classes."""
    classes: list[Any] = [c for c in reversed(cls.__mro__) if dataclasses.is_dataclass(c)]
    notes = (
        texts.comments(each.__module__.removeprefix("psofed."), each.__name__) for each in classes
    )
    return {key: note.text for found in notes for key, note in found.items()}


def allowed(build: Callable[..., Any], name: str, hint: Any) -> str:
    """The reader's advice for values at and beyond the limits."""
    answers = []
    for probe in PROBES.get(hint, ()):
        try:
            build(**{name: probe})
        except InputError as error:
            if error.right not in answers:
                answers.append(error.right)
        except TypeError:  # it needs more keys than this one
            return ""
    return "; ".join(answer.removeprefix("use ") for answer in answers)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")

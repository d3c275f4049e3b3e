"""Settings of an experiment by name, as a sweep and its command give them: `step`, `shared`,
`features.width`, `methods.shared`. A name that could mean two things is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from inspect import isbuiltin, isfunction
from itertools import product
from typing import Any

import numpy as np

from psofed.errors import InputError, nearest
from psofed.experiment import Experiment
from psofed.federation import texts
from psofed.federation.options import Options
from psofed.federation.schema import Named
from psofed.settings import no_targets
from psofed.streams.contract import measured

TABLES = ("features", "stream", "attack", "defence", "privacy", "methods")
# Not swept, with the reason and what to do instead.
FIXED = {
    "seed": ("would give each point other draws", "keep it: all points share their draws"),
    "runs": ("is the same for all points", "set it once, for the experiment"),
    "rounds": ("is a point on every curve already", "set the last one, for the experiment"),
    "evaluate_every": ("is the same for all points", "set it once, for the experiment"),
    "label": ("is made from what differs", "leave it out"),
    "name": ("can mean a method, a stream or the features", "say features.name, or give methods"),
    "fleet": ("is a list of tables", "give it once, for the experiment"),
    "policy": ("is a table", "give several methods, each with its policy"),
}
LISTS = {key: FIXED[key] for key in ("label", "name", "fleet", "policy")}  # of many values


SYMBOLS = {
    "methods.shared": "M", "methods.shift": "shift tau", "methods.local_steps": "local steps E",
    "step": "step mu", "methods.step": "step mu", "features.dim": "D", "clients": "clients K",
    "features.width": "kernel width", "cohort": "clients in a round", "rounds": "rounds N",
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where a setting stands: "experiment" or one of its tables, and the field there."""

    part: str
    field: str

    @property
    def key(self) -> str:
        """Its whole name."""
        return self.field if self.part == "experiment" else f"{self.part}.{self.field}"

    @property
    def column(self) -> str:
        """Its name in a table of results, where options stand by their names."""
        return self.field if self.own else self.key

    @property
    def symbol(self) -> str:
        """What readers of the paper call it."""
        return SYMBOLS.get(self.key, self.key)

    @property
    def own(self) -> bool:
        """Whether it differs from method to method, so that all its values share one run."""
        return self.part == "methods" or self.key == "step"

    def of(self, options: Options) -> bool:
        """Whether it changes this method. One with its own step keeps it."""
        if self.field == "step":
            return options.steps and (self.part == "methods" or options.step is None)
        return self.field in _names(options)


@dataclass(frozen=True)
class Axis:
    """A setting and the values that it takes."""

    place: Place
    values: tuple[Any, ...]

    def shown(self, value: Any) -> str:
        """A value as titles have it: functions and tables by name, and number if needed."""
        word = _word(value)
        alike = [other for other in self.values if _word(other) == word]
        return word if len(alike) == 1 else f"{word} {alike.index(value) + 1}"


def _word(value: Any) -> str:
    if isinstance(value, Named):
        return value.name
    return value.__name__.strip("<>") if isfunction(value) or isbuiltin(value) else str(value)


def axes(experiment: Experiment, settings: Mapping[str, Any]) -> list[Axis]:
    """The settings with their places, or an InputError that names what is wrong."""
    if not settings:
        raise InputError("settings", "are missing", "give one, such as shared=[1, 5, 40]")
    found = [Axis(place(experiment, key), _values(key, v)) for key, v in settings.items()]
    keys = [axis.place.key for axis in found]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(key, "is given twice, under two names", "give it once")
    if {"step", "methods.step"} <= set(keys):
        raise InputError("step", "is given twice, also as methods.step", "give it once")
    for axis in found:
        if axis.place.own and not any(axis.place.of(o) for o in experiment.methods):
            # Options that no method has are refused by `place`; this is a step.
            names = ", ".join(experiment.titles)
            text = f"changes nothing: all methods have their own step, or none: {names}"
            raise InputError(axis.place.key, text, "use methods.step, or another setting")
    return found


def place(experiment: Experiment, key: str, fixed: Mapping[str, tuple[str, str]] = FIXED) -> Place:
    """Where the setting of this name stands."""
    known = _known(experiment)
    part, dot, field = key.rpartition(".")
    readings = [p for p in known if p.key == key] if dot or key in _plain(experiment) else []
    readings = readings or [p for p in known if not dot and p.field == key]
    if field in fixed and part in ("", "methods"):
        found, right = fixed[field]
        raise InputError(key, found, right)
    if len(readings) > 1:
        both = " or ".join(p.key for p in readings)
        raise InputError(key, "can mean several settings", f"say which: {both}")
    if not readings:
        if part == "methods":
            names = ", ".join(experiment.titles)
            options = [p.field for p in known if p.part == "methods" and p.field not in FIXED]
            found = f"is an option of none of these methods: {names}"
            raise InputError(key, found, nearest(field, options))
        if part in ("attack", "defence", "privacy") and getattr(experiment, part) is None:
            name = "" if part == "privacy" else "a name, and "
            right = f"write a table [{part}] with {name}the other options that it needs"
            raise InputError(key, f"is of an experiment with a table [{part}]", right)
        advised = [p.key for p in known if p.field not in FIXED or p.key == "features.name"]
        raise InputError(key, "is not a setting of this experiment", nearest(key, advised))
    return readings[0]


def _plain(experiment: Experiment) -> list[str]:
    """The keys at the top of an experiment file."""
    return [f.name for f in fields(experiment) if f.name not in TABLES]


def _known(experiment: Experiment) -> list[Place]:
    found = [Place("experiment", name) for name in _plain(experiment)]
    for part in TABLES[:-1]:
        found += [Place(part, name) for name in _names(getattr(experiment, part))]
    own = dict.fromkeys(name for options in experiment.methods for name in _names(options))
    return found + [Place("methods", name) for name in own]


def _names(table: Any) -> list[str]:
    return [field.name for field in fields(table)] if is_dataclass(table) else []


def _values(key: str, values: Any) -> tuple[Any, ...]:
    """One value or several, as plain Python has them."""
    many = isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping)
    some = values if many else [values]
    plain = tuple(v.item() if isinstance(v, np.generic) else v for v in some)
    if not plain:
        raise InputError(key, "has no values", "give at least one")
    for i, value in enumerate(plain):
        if value in plain[:i]:
            raise InputError(key, f"has {value!r} twice", "give each value once")
    return plain


def experiments(
    experiment: Experiment, found: list[Axis]
) -> Iterator[tuple[dict[str, Any], Experiment]]:
    """One experiment for each combination of what all methods share, with all variants of each.

    Its settings are those by which it differs from the others.
    """
    shared = [axis for axis in found if not axis.place.own]
    methods = tuple(options for _, options in variants(experiment, found))
    for values in product(*(axis.values for axis in shared)):
        settings = {axis.place: v for axis, v in zip(shared, values, strict=True)}
        try:
            made = _with(experiment, settings, methods=methods)
            yield {place.key: v for place, v in settings.items()}, made
        except InputError as error:
            raise InputError(_named(error.field, found), error.found, error.right) from None


def _with(experiment: Experiment, settings: Mapping[Place, Any], **changes: Any) -> Experiment:
    """The experiment with these settings and changes, all at once."""
    for place, value in settings.items():
        if place.part == "methods":
            new = {place.field: value}
            methods = (replace(m, **new) if place.of(m) else m for m in experiment.methods)
            changes["methods"] = tuple(methods)
        elif place.part == "experiment":
            changes[place.field] = value
        else:
            table = changes.get(place.part, getattr(experiment, place.part))
            changes[place.part] = replace(table, **{place.field: value})
    return replace(experiment, **changes)


def variants(experiment: Experiment, found: list[Axis]) -> list[tuple[int, Options]]:
    """Every method with each combination of the settings that it has, and whose variant it is.

    Methods that become equal by that are there once.
    """
    made: list[tuple[int, Options]] = []
    for i, options in enumerate(experiment.methods):
        here = [axis for axis in found if axis.place.own and axis.place.of(options)]
        for values in product(*(axis.values for axis in here)):
            changes = {axis.place.field: v for axis, v in zip(here, values, strict=True)}
            if options.label and changes:  # one label would stand for all
                said = ", ".join(f"{field} {value}" for field, value in changes.items())
                changes["label"] = f"{options.label}, {said}"
            variant = replace(options, **changes)
            if all(variant != other for _, other in made):
                made.append((i, variant))
    return made


def _named(field: str, found: list[Axis]) -> str:
    """The field of an error as the user named it: `methods[3].shared` is `methods.shared`."""
    name = re.sub(r"\[\d+\]", "", field)
    keys = [axis.place.key for axis in found]
    if name == "methods.step" and "step" in keys:
        return "step"
    return name if name in keys else next((k for k in keys if k.endswith(f".{name}")), name)


def changed(experiment: Experiment, given: Iterable[texts.Assignment]) -> Experiment:
    """The experiment with settings of these names, each with one value."""
    for setting in given:
        try:
            found, value = place(experiment, setting.key, LISTS), texts.value(setting.text)
            if found.key == "targets" and measured(experiment.stream):
                raise no_targets(str(value))
            value = tuple(value) if isinstance(value, list) else value
            every = experiment.evaluate_every
            if found.key == "rounds" and isinstance(value, int) and (every or 0) > value:
                every = None
            experiment = _with(experiment, {found: value}, evaluate_every=every)
        except InputError as error:
            raise setting.blame(error) from None
    return experiment

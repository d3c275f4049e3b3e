"""The titles of methods that stand side by side: what differs is said, and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from psofed.core import foreign
from psofed.methods.contract import Options
from psofed.schema import Named


def titles(methods: Sequence[Options], step: float) -> list[str]:
    """One title for each method, longer only where the short one stands for several.

    `step` is that of the methods without their own. Equal methods keep equal titles.

    >>> from psofed.methods import psofed
    >>> titles([psofed.Options(shared=5, step=mu) for mu in (None, 0.5)], step=0.75)
    ['PSO-Fed M=5 uncoordinated, step 0.75', 'PSO-Fed M=5 uncoordinated, step 0.5']
    """
    short = [options.title() for options in methods]
    made = [short.count(title) > 1 and not o.label for title, o in zip(short, methods, strict=True)]
    known = [settings(options, step) for options in methods]
    found = []
    for j, title in enumerate(short):
        alike = [known[i] for i, other in enumerate(short) if made[i] and other == title]
        found.append(title + "".join(_apart(known[j], alike)) if made[j] else title)
    return found


def settings(options: Options, step: float) -> dict[str, Any]:
    """What a method is set to, flat: all options but its label, those of a policy within.

    The step is the one that it learns with; it is left out where there is nothing to step.

    >>> from psofed.methods import fedavg
    >>> settings(fedavg.Options(), step=0.75)
    {'step': 0.75, 'average': False, 'local_steps': 5}
    """
    found = dict(_flat(options))
    found["step"] = options.step if options.step is not None else step
    if not options.steps:
        del found["step"]
    return {key: value for key, value in found.items() if value is not None}


def _flat(options: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if dataclasses.is_dataclass(value):
            if isinstance(value, Named):
                yield prefix + field.name, value.name
            yield from _flat(value, f"{prefix}{field.name}.")
        elif field.name != "label":
            yield prefix + field.name, foreign.title(value) if callable(value) else value


def _apart(mine: dict[str, Any], all_alike: list[dict[str, Any]]) -> Iterator[str]:
    """The settings of one that are not those of all."""
    for key in dict.fromkeys(key for each in all_alike for key in each):
        values = [each.get(key) for each in all_alike]
        if any(value != values[0] for value in values):
            yield f", {key.replace('_', ' ')} {_show(mine.get(key))}"


def _show(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)

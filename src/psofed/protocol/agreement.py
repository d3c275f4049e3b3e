"""Rule 3: what both ends must agree on, in a form that stays the same from version to version.

It is the tables of the experiment file with all options that version 0.1 had, whatever their
values. An option that came later is in it only where it differs from the value with which it came,
which is the one that changes nothing. So a new option leaves the digests of all files as they were,
and a default that is changed in the code changes those of the files that rely on it, as it must.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psofed import plugins
from psofed.experiment import Experiment

Came = Mapping[str, Mapping[str, Any]]  # by table, or by table and name: option, and its value

# Fields of an experiment on which no number depends that the two ends exchange.
IRRELEVANT = (
    "rounds", "runs", "evaluate_every", "test_samples", "targets",
    "check",  # a matter of each client
    "fleet",  # who comes and goes in a simulation; a server tells its clients
)  # fmt: skip

# Options since the digests were frozen, with the values with which they came. These never change,
# also if the defaults in the code do: see CONTRIBUTING.md.
LATER: Came = {}

# Options that came before, so that all digests have them, but not those of the oldest records.
EARLY: Came = {
    "method.cmfl": {"decay": "none"},
    "method.fedscr": {"rule": "mean", "scale": 0.3},
    "method.memofed": {"adapt": False},
    "method.raw": {"solver": "lms", "ridge": 0.01},
}


def agreed(
    experiment: Experiment, which: int, live: bool, came: tuple[Came, ...] = (LATER,)
) -> dict[str, Any]:
    """What must be the same at both ends, from the experiment and the method that is deployed."""
    with plugins.naming(lambda plugin: plugin.digest, lenient=True):
        table = experiment.to_table()
    method = table.pop("methods")[which]
    method.pop("label", None)
    for key in IRRELEVANT:
        table.pop(key, None)
    if live:
        table.pop("defence", None)  # a matter of the server; in lockstep, of the twin too
    table["stream"].pop("file", None)  # the path of a table may differ
    found = {"method": method, **table}
    for options in came:
        _leave_out(options, "experiment", found)
    return found


def _leave_out(came: Came, where: str, table: dict[str, Any]) -> None:
    """Take out what has the value with which it came; a value that is not set is not that one."""
    named = came.get(f"{where}.{table.get('name')}", {})
    for key, value in {**came.get(where, {}), **named}.items():
        if table.get(key) == value:
            table.pop(key, None)
        else:
            table.setdefault(key, None)
    for key, inside in table.items():
        if isinstance(inside, dict):
            _leave_out(came, key, inside)


def flat(table: Any, name: str = "") -> dict[str, Any]:
    """The settings in nested tables by their full names, but for those that do not matter.

    >>> flat({"rounds": 9, "methods": [{"shared": 5}]})
    {'methods[0].shared': 5}
    """
    found: dict[str, Any] = {}
    for key, value in table.items():
        if not name and key in IRRELEVANT:
            continue
        if isinstance(value, dict):
            found |= flat(value, f"{name}{key}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for i, one in enumerate(value):
                found |= flat(one, f"{name}{key}[{i}].")
        else:
            found[name + key] = value
    return found

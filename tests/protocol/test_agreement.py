"""Rule 3: what the two ends must agree on is all that changes a number."""

import dataclasses
import types
from dataclasses import astuple
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from helpers.loopback import plan
from psofed.errors import InputError
from psofed.experiment import Experiment, parse
from psofed.federation import schema
from psofed.federation.feature_table import Features
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.deployment import IRRELEVANT, Deploy, agreed

PACKAGES = {"method": "methods", "stream": "streams", "learner": "learners", "attack": "attacks", "defence": "defences"}  # fmt: skip
TABLE = {
    "clients": ["p", "q"], "columns": {"target": "y", "time": ["t"], "inputs": ["a"], "client": "who"},
    "scaling": {"a": [0.5, 2.0], "y": [10.0, 3.0]}, "file": "t.csv", "frozen": 90,
}  # fmt: skip
NEEDED = {"stream.function": {"f": "helpers.systems:line", "taps": 4}, "stream.table": TABLE}
ADDRESSES = [
    "experiment", "features", "features.whitened",
    *(f"{key}.{name}" for key, package in PACKAGES.items()
      for name in schema.names(f"psofed.{package}")),
]  # fmt: skip


def file(address, **changes):
    """A small experiment with one table that has these keys; and that table's class."""
    key, _, name = address.partition(".")
    few = {"clients": 2, "cohort": 2} if name == "table" else {}
    few |= {"cohort": 8} if key == "defence" else {}
    method = {"name": "onlinefed"}
    if key == "experiment":
        return few | {"methods": [method]} | changes
    if key == "features":
        return {"methods": [method], key: ({"basis": name} if name else {}) | changes}
    table = {"name": name, **NEEDED.get(address, {}), **changes}
    if key == "method":
        return {"methods": [table]}
    return few | {key: table, "methods": [{"name": "fedavg"}]}


def options(address):
    """The class whose fields are the keys of a table."""
    key, _, name = address.partition(".")
    if key in ("experiment", "features"):
        return {"experiment": Experiment, "features": Features}[key]
    return schema.load(f"psofed.{PACKAGES[key]}", name).Options


def agreement(table):
    return agreed(parse(table), 0, live=False)


def others(hint, value):
    """Values of the same type to try instead."""
    if get_origin(hint) in (types.UnionType, Union):
        hint = next(arg for arg in get_args(hint) if arg is not types.NoneType)
    if get_origin(hint) is Literal:
        return [each for each in get_args(hint) if each != value]
    if hint is bool:
        return [not value]
    if hint is int:
        given = value if type(value) is int else 1
        return [given + 1, 2 * given, given - 1, given + 5, 1, 2]
    if hint is float:
        given = value if type(value) in (int, float) else 0.5
        return [0.5 * given, given + 0.25, given - 0.01, 0.9, 2.0]
    if (hint is Any or get_origin(hint) is tuple) and isinstance(value, tuple) and value:
        return [[0.5 * value[0], *value[1:]], [value[0] + 0.1, *value[1:]]]
    return []


def changed(address):
    """Every field of a table's class that can be changed alone, with a file in which it is."""
    cls = options(address)
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        for value in others(hints[field.name], field.default):
            table = file(address, **{field.name: value})
            if value == field.default or table == file(address):
                continue
            try:
                parse(table)
            except InputError:
                continue
            yield field.name, table
            break


# Tables, texts, and what makes sense only with something else.
NOT_ALONE = {
    *(
        "label",
        "policy",
        "features",
        "learner",
        "stream",
        "attack",
        "defence",
        "check",
        "methods",
        "mix",
    ),
    *("fleet", "name", "drawn", "basis", "f", "inputs", "law", "change", "at", "period", "decay"),
    *("columns", "scaling", "clients", "file", "categories", "time_format", "form", "tick_unit"),
    "rows",
    *("privacy", "size", "whiten", "epsilon", "spread", "correlation", "average", "wire", "idle"),
    "widths",
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_each_option_changes_the_agreement_unless_no_number_depends_on_it(address):
    before, tried = agreement(file(address)), set()
    for name, table in changed(address):
        free = IRRELEVANT if address == "experiment" else ("stay",)  # of who goes away
        assert (agreement(table) == before) == (name in free), name
        tried.add(name)
    fields = {field.name for field in dataclasses.fields(options(address))}
    assert fields - tried <= NOT_ALONE


@pytest.mark.parametrize(
    ("address", "changes", "matters"),
    [
        ("method.psofed", {"label": "mine"}, False),
        ("method.psofed", {"features": {"dim": 100}}, True),
        ("method.psofed", {"features": {"widths": [1.0, 2.0]}}, True),
        ("method.psofed", {"learner": {"name": "nlms"}}, True),
        ("method.cmfl", {"rule": "literal", "decay": "sqrt"}, True),
        ("method.structured", {"form": "lowrank", "rows": 10}, True),
        ("stream.function", {"f": "psofed.streams.paper:f"}, True),
        ("stream.function", {"law": "laplace"}, True),
        ("stream.function", {"change": "psofed.streams.paper:f", "at": 30}, True),
        ("stream.table", {"file": "elsewhere.csv"}, False),
        ("stream.table", {"clients": ["q", "p"]}, True),
        ("stream.table", {"scaling": {"a": [0.5, 2.0], "y": [10.0, 3.5]}}, True),
        ("stream.table", {"columns": TABLE["columns"] | {"lags": [1]}}, True),
        ("experiment", {"check": {"name": "outliers"}}, False),
        ("experiment", {"fleet": [{"round": 3, "add": [100]}, {"round": 4, "remove": [0]}]}, False),
        ("experiment", {"attack": {"name": "scale"}}, True),
        ("experiment", {"defence": {"name": "clip"}}, True),
    ],
)
def test_tables_and_texts_change_the_agreement_where_they_matter(address, changes, matters):
    assert (agreement(file(address, **changes)) != agreement(file(address))) == matters


def test_how_long_clients_stay_matters_where_they_go_away():
    files = [file("stream.paper", away=0.2, stay=stay) for stay in (50.0, 60.0)]
    assert agreement(files[0]) != agreement(files[1])


def test_the_digest_depends_on_the_deployment_and_on_the_version_of_the_protocol(monkeypatch):
    others = (plan(Deploy(run="q")), plan(Deploy(wire="float32")), plan(Deploy(clock="live")))
    more = plan(features=Features(dim=10, width=1.0)), plan(features=Features("exponential", 10))
    digests = [plan().digest, *(each.digest for each in others + more)]
    assert len(set(digests)) == len(digests)
    own = Deploy("p", "live", "float64", 7.0, 0, 1, 2.0, 3.0, 4.0, "t.csv", "json", 5, 6, 7, "m", 8.0,
                 9.0, 10.0, 0.5, True)  # fmt: skip
    assert all(a != b for a, b in zip(astuple(own)[3:], astuple(Deploy())[3:], strict=True))
    assert plan(own).digest == plan(Deploy(clock="live", wire="float64")).digest
    before = wire.digest(plan().agreement)
    assert before == plan().digest
    assert plan().about("server")["digest"] == f"{before:08x}"
    monkeypatch.setattr(wire, "VERSION", wire.VERSION + 1)
    assert wire.digest(plan().agreement) != before

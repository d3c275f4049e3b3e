"""Rule 3: what the two ends must agree on is all that changes a number."""

from dataclasses import astuple, fields

import pytest

from helpers.battery import METHODS
from helpers.loopback import plan
from psofed.experiment import Experiment, parse
from psofed.federation.feature_table import Features
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.deployment import Deploy, agreed

TABLE = {
    "name": "table", "clients": ["p", "q"], "scaling": {"a": [0.5, 2.0], "y": [10.0, 3.0]},
    "columns": {"target": "y", "time": ["t"], "inputs": ["a"], "client": "who"},
    "file": "t.csv", "frozen": 90,
}  # fmt: skip
SMALL = {"clients": 9, "cohort": 8, "methods": [{"name": "fedavg"}]}
OTHER = {  # of each field that is a number or a word, another value
    "clients": 20, "rounds": 7, "runs": 3, "seed": 1, "cohort": 7, "absent": 0.1, "step": 0.5,
    "dtype": "float64", "evaluate_every": 2, "test_samples": 50, "targets": "noisy",
    "judge": "personal", "world": 3,
}  # fmt: skip
TABLES = {  # of each field that is a table, some of its keys
    "stream": {"name": "paper", "inputs": "iid"}, "features": {"dim": 100},
    "learner": {"name": "nlms"}, "attack": {"name": "scale"}, "defence": {"name": "clip"},
    "check": {"name": "outliers"}, "mix": {"season": 3}, "privacy": {"epsilon": 4.0},
    "fleet": [{"round": 3, "add": [100]}], "methods": [{"name": "onlinefed"}],
}  # fmt: skip
FREE = {
    "rounds", "runs", "evaluate_every", "test_samples", "targets", "judge", "check", "mix", "fleet",
}  # fmt: skip


def agreement(**changes):
    return agreed(parse(SMALL | changes), 0, live=False)


def test_each_field_changes_the_agreement_unless_no_number_that_is_exchanged_depends_on_it():
    assert (OTHER | TABLES).keys() == {each.name for each in fields(Experiment)}
    fleet = {"clients": 100}  # so that there is somebody else to add
    same = {name for name, value in (OTHER | TABLES).items()
            if agreement(**fleet | {name: value}) == agreement(**fleet)}  # fmt: skip
    assert same == FREE


def test_no_two_settings_of_any_method_agree():
    told = [agreed(Experiment(methods=(options,), features=Features(dim=10)), 0, live=False)
            for options in METHODS if options.features is None]  # fmt: skip
    assert all(one not in told[:i] for i, one in enumerate(told))


@pytest.mark.parametrize(
    ("changes", "matters"),
    [
        ({"file": "elsewhere.csv"}, False),
        ({"clients": ["q", "p"]}, True),
        ({"scaling": {"a": [0.5, 2.0], "y": [10.0, 3.5]}}, True),
        ({"columns": TABLE["columns"] | {"lags": [1]}}, True),
        ({"frozen": 91}, True),
    ],
)
def test_the_table_of_a_stream_changes_the_agreement_and_its_path_does_not(changes, matters):
    here, there = (agreement(clients=2, cohort=2, stream=TABLE | c) for c in ({}, changes))
    assert (here != there) == matters


def test_what_a_method_is_called_does_not_matter_and_its_own_tables_do():
    plain, mine, own = (
        agreement(methods=[{"name": "psofed"} | more])
        for more in ({}, {"label": "mine"}, {"features": {"widths": [1.0, 2.0]}})
    )
    assert plain == mine != own


def test_the_digest_depends_on_the_deployment_and_on_the_version_of_the_protocol(monkeypatch):
    others = (plan(Deploy(run="q")), plan(Deploy(wire="float32")), plan(Deploy(clock="live")))
    more = plan(features=Features(dim=10, width=1.0)), plan(features=Features("exponential", 10))
    digests = [plan().digest, *(each.digest for each in others + more)]
    assert len(set(digests)) == len(digests)
    own = Deploy("p", "live", "float64", 7.0, 0, 1, 2.0, 3.0, 4.0, "t.csv", "json", 5, 6, 7, "m", 8.0,
                 9.0, 10.0, 0.5, True, ("a",), "restart")  # fmt: skip
    assert all(a != b for a, b in zip(astuple(own)[3:], astuple(Deploy())[3:], strict=True))
    assert plan(own).digest == plan(Deploy(clock="live", wire="float64")).digest
    before = wire.digest(plan().agreement)
    assert before == plan().digest
    assert plan().about("server")["digest"] == f"{before:08x}"
    monkeypatch.setattr(wire, "VERSION", wire.VERSION + 1)
    assert wire.digest(plan().agreement) != before

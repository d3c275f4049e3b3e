"""The contract battery: what every method must do, whatever it is."""

from collections import Counter

import numpy as np
import pytest

from helpers.battery import METHODS, every_method, prepare, small
from helpers.dense import dense
from psofed.cli.laws import of_methods
from psofed.cli.laws.drivers import stepwise, world
from psofed.cli.laws.rules import why_not
from psofed.fleet.protocol.server import Server
from psofed.fleet.protocol.wire import RefusedError
from psofed.methods import psofed


@every_method
def test_every_method_obeys_every_rule(options):
    broken = []
    for rule in of_methods.RULES:
        try:
            if not why_not(rule, options):
                rule(options)
        except Exception as error:
            error.add_note(f"{rule.__name__}, {options.name}")
            broken.append(error)
    if broken:
        raise ExceptionGroup("rules that do not hold", broken)


def test_the_dense_reference_gives_the_same_models():
    tried = 0
    for options in METHODS:
        if not options.gapless and (found := dense(world(options, "steady"))) is not None:
            assert np.abs(found - stepwise(world(options, "steady"))).max() <= 1e-12
            tried += 1
    assert tried == 5


# How many of the methods, in the settings of the battery, a rule says nothing about.
SKIPPED = {
    "several_runs_are_each_alone": 16,
    "common_downloads_are_equal": 51,
    "folds_are_linear": 29,
}


def test_the_rules_that_are_skipped_are_as_many_as_they_were():
    skips = Counter(rule.__name__ for rule in of_methods.RULES for o in METHODS if why_not(rule, o))
    assert skips == SKIPPED


@pytest.mark.parametrize(
    ("k", "n", "answer"),
    [(0, 1, b"\0" * 24), (9, 0, b"\0" * 24), (None, 0, b"\0" * 23), (None, 0, b"\xff" * 24)],
    ids=["another round", "not invited", "wrong length", "not a number"],
)
def test_a_refused_answer_changes_nothing(k, n, answer):
    method, _ = prepare(small(psofed.Options(shared=3)))
    server = Server(method)
    k = server.cohort[0] if k is None else k
    with pytest.raises(RefusedError):
        server.collect(k, n, answer)
    server.commit()
    assert not server.state["w"].any()


def test_the_same_answer_twice_counts_once_and_a_different_one_is_refused():
    method, _ = prepare(small(psofed.Options(shared=3)))
    server = Server(method)
    k = server.cohort[0]
    ones = method.encode(np.ones(3), up=True)
    server.collect(k, 0, ones)
    server.collect(k, 0, ones)
    with pytest.raises(RefusedError, match="twice"):
        server.collect(k, 0, method.encode(np.zeros(3), up=True))
    server.commit()
    assert server.state["w"].sum() == 3

"""The contract battery: what every method must do, whatever it is."""

import numpy as np
import pytest

from helpers.battery import every_method, prepare, small
from psofed.checks import of_methods
from psofed.checks.rules import obey
from psofed.methods import psofed
from psofed.protocol.server import RefusedError, Server


@every_method
@pytest.mark.parametrize("rule", of_methods.RULES, ids=lambda rule: rule.__name__)
def test_every_method_obeys_every_rule(options, rule):
    obey(rule, options)


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

"""Errors that clients tell: few bytes, counted, believed by nobody alone."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.loopback import disk, plan
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.confidence import Report, Running, summary
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy
from psofed.fleet.protocol.member import Member

LIVE = Deploy(clock="live")
errors = st.floats(1e-6, 1e6)


@given(st.lists(errors, min_size=2, max_size=30), st.floats(0, 1e38), st.integers(1, 2**32 - 1))
def test_one_client_that_lies_moves_the_summary_within_the_honest_ones(honest, lie, labels):
    told = [Report(error, 10, 0) for error in honest]
    found = summary([*told, Report(lie, labels, 0)])
    inside = [report.decibels for report in told]
    assert min(inside) - 0.01 <= found.db <= max(inside) + 0.01
    assert found.spread <= max(inside) - min(inside) + 0.01
    assert found.clients == len(honest) + 1


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=50))
def test_the_running_mean_is_the_mean_of_the_squares(values):
    running = Running()
    for value in values:
        running.learn(value)
    assert running.square == pytest.approx(np.mean(np.square(values)), rel=1e-9, abs=1e-12)
    running.learn(math.inf)
    assert math.isfinite(running.square)


def test_a_client_that_tells_its_errors_adds_twelve_bytes_that_are_counted():
    member = Member(plan(LIVE), 0, disk())
    x, rng = np.ones((40, 4)), np.random.default_rng(0)
    member.client.learn(x, rng.standard_normal(40))
    assert len(member.hello()) == 9
    member.tells_errors = True
    alone = member.hello()
    member.tells = True
    both = member.hello()
    assert (len(alone), len(both)) == (21, 29)
    server = Coordinator(member.plan, disk())
    assert server.take(0, alone) == server.take(0, both) == "hello"
    running = member.confidence.running
    assert server.errors[0] == Report(np.float32(running.square), 40, 0)
    assert 0 < running.square < 10
    assert server.coverage[0][0] == 40
    assert server.commit().up == 21 + 29
    assert server.traffic[0] == 50


def test_a_client_tells_how_many_samples_it_refused():
    member = Member(plan(LIVE), 0, disk())
    y = np.random.default_rng(0).standard_normal(200)
    y[150] = -999.0
    member.client.learn(np.random.default_rng(1).standard_normal((200, 4)), y)
    member.tells_errors = True
    server = Coordinator(member.plan, disk())
    server.take(0, member.hello())
    assert server.errors[0].refused == 1


@pytest.mark.parametrize("told", [(math.nan, 5, 0), (math.inf, 5, 0), (-1.0, 5, 0), (1.0, 0, 0)])
def test_what_cannot_be_is_not_believed(told):
    server = Coordinator(plan(LIVE), disk())
    frame = wire.Frame(wire.HELLO, server.plan.digest, 0, body=wire.errors(*told))
    assert server.take(2, wire.encode(frame)) == "hello"
    assert server.errors == {}
    assert summary([]) is None

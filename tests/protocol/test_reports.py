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
    told = [Report(10, 9, error, 10, 0) for error in honest]
    found = summary([*told, Report(labels, 0, lie, labels, 0)])
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


def test_a_client_that_tells_adds_twenty_bytes_that_are_counted():
    member = Member(plan(LIVE), 0, disk())
    y = np.random.default_rng(0).standard_normal(200)
    y[150] = -999.0
    member.client.learn(np.random.default_rng(1).standard_normal((200, 4)), y)
    assert len(member.hello()) == 9
    member.tells = True
    told = member.hello()
    assert len(told) == wire.TELLING == 29
    server = Coordinator(member.plan, disk())
    assert server.take(0, told) == "hello"
    running = member.confidence.running
    inside = member.confidence.told[1]
    assert server.reports[0] == Report(200, inside, np.float32(running.square), 200, refused=1)
    assert 100 <= inside <= 200
    assert server.commit().up == server.traffic[0] == 29


@pytest.mark.parametrize("told", [(5, 4, math.nan, 5, 0), (5, 4, math.inf, 5, 0),
    (5, 4, -1.0, 5, 0), (5, 4, 1.0, 0, 0), (3, 4, 1.0, 5, 0), (0, 0, 1.0, 5, 0)])  # fmt: skip
def test_what_cannot_be_is_not_believed(told):
    server = Coordinator(plan(LIVE), disk())
    for body in (wire.telling(*told), b"123", bytes(19)):
        frame = wire.Frame(wire.HELLO, server.plan.digest, 0, body=body)
        assert server.take(2, wire.encode(frame)) == "hello"
    frame = wire.Frame(wire.HELLO, server.plan.digest, 0, body=bytes(21))
    assert server.take(2, wire.encode(frame)) == "size"
    assert server.reports == {}
    assert summary([]) is None

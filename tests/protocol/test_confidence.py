"""A deployed client answers with an interval learned from its labels, and can tell its errors."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.loopback import disk, plan
from psofed.core.conformal import LEVELS
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.confidence import WAITING, Confidence, Report, summary
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy
from psofed.fleet.protocol.member import Member
from psofed.methods import centralised, onlinefed, psofed

LIVE = Deploy(clock="live")


def member(options=None, files=None):
    methods = (options or psofed.Options(2),)
    given = plan(LIVE, clients=3, rounds=50, methods=methods, dtype="float32")
    return Member(given, 0, files or disk())


def samples(count, seed=0):
    g = np.random.default_rng(seed)
    x = g.uniform(-1, 1, (count, 4)).astype(np.float32)
    return x, (x.sum(axis=1) + g.normal(size=count)).astype(np.float32)


@pytest.mark.parametrize("options", [psofed.Options(2), onlinefed.Options()], ids=lambda o: o.name)
def test_nine_of_ten_labels_are_inside_the_interval_of_nine_tenths(options):
    found, inside = member(options), []
    x, y = samples(3000)
    for i in range(len(y)):
        ends = found.answer(x[i]).interval(0.9)
        inside += [] if ends is None else [ends[0] <= y[i] <= ends[1]]
        found.client.learn(x[i : i + 1], y[i : i + 1])
    assert np.mean(inside) == pytest.approx(0.9, abs=0.01)
    assert found.confidence.coverage(0.9) == pytest.approx(np.mean(inside), abs=0.005)


def test_no_interval_is_given_before_there_are_enough_labels():
    found = member()
    x, y = samples(20)
    assert found.answer(x[0]).interval(0.5) is None
    found.client.learn(x[:9], y[:9])
    assert found.answer(x[0]).interval(0.9) is None
    found.client.learn(x[9:10], y[9:10])
    assert found.answer(x[0]).interval(0.9) is not None
    assert found.answer(x[0]).interval(0.99) is None


def test_a_late_label_is_compared_with_the_answer_then_and_questions_without_one_fill_no_memory():
    confidence, x = Confidence(), np.ones(2)
    confidence.answer(x, 5.0)
    for _ in range(2):  # the model has changed since; the second is of no question
        confidence.learn(x, guess=0.0, y=5.0)
        assert confidence.inside == [1] * len(LEVELS)
    for i in range(WAITING + 100):
        confidence.answer(np.array([float(i)]), 0.0)
    assert len(confidence._asked) == WAITING


def test_radii_survive_a_restart():
    folder, x = disk(), samples(1)[0][0]
    before = member(files=folder)
    before.client.learn(*samples(200))
    before.save()
    again = member(files=folder)
    assert again.answer(x) == before.answer(x)
    assert again.confidence.coverage(0.9) == before.confidence.coverage(0.9)


def test_clients_without_a_model_learn_no_radii():
    client = member(centralised.Options()).client
    client.learn(*samples(5))
    assert not client.confidence.labels
    assert not [name for name in client.to_arrays() if name.startswith("radius.")]


@given(
    st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=30),
    st.floats(0, 1e38),
    st.integers(1, 2**32 - 1),
)
def test_one_client_that_lies_moves_the_summary_within_the_honest_ones(honest, lie, labels):
    told = [Report(10, 9, error, 10, 0) for error in honest]
    found = summary([*told, Report(labels, 0, lie, labels, 0)])
    inside = [report.decibels for report in told]
    assert min(inside) - 0.01 <= found.db <= max(inside) + 0.01
    assert found.spread <= max(inside) - min(inside) + 0.01
    assert found.clients == len(honest) + 1


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=50))
def test_the_running_mean_is_the_mean_of_the_squares(values):
    found, x = Confidence(), np.ones(2)
    for value in values:
        found.learn(x, 0.0, value)
    assert found.square == pytest.approx(np.mean(np.square(values)), rel=1e-9, abs=1e-12)
    found.learn(x, 0.0, math.inf)
    assert math.isfinite(found.square)


def test_a_client_that_tells_adds_twenty_bytes_that_are_counted():
    device = member()
    y = np.random.default_rng(0).standard_normal(200)
    y[150] = -999.0
    device.client.learn(np.random.default_rng(1).standard_normal((200, 4)), y)
    assert len(device.hello()) == 9
    device.plan = replace(device.plan, deploy=replace(LIVE, report=True))
    told = device.hello()
    assert len(told) == 29
    server = Coordinator(device.plan, disk())
    assert server.take(0, told) == "hello"
    sent = Report.of(device.confidence, 1)
    inside = sent.inside
    assert server.reports[0] == sent._replace(square=np.float32(sent.square))
    assert 100 <= inside <= 200
    assert server.commit().up == server.server.now.traffic[0] == 29


@pytest.mark.parametrize("told", [(5, 4, math.nan, 5, 0), (5, 4, math.inf, 5, 0),
    (5, 4, -1.0, 5, 0), (5, 4, 1.0, 0, 0), (3, 4, 1.0, 5, 0), (0, 0, 1.0, 5, 0)])  # fmt: skip
def test_what_cannot_be_is_not_believed(told):
    server = Coordinator(plan(LIVE), disk())
    for body in (Report(*told).to_bytes(), b"123", bytes(19), bytes(21)):
        frame = wire.Frame(wire.HELLO, server.plan.digest, 0, body=body)
        assert server.take(2, wire.encode(frame)) == "hello"
    frame = wire.Frame(wire.HELLO, server.plan.digest, 0, body=bytes(27))
    assert server.take(2, wire.encode(frame)) == "size"
    assert server.reports == {}
    assert summary([]) is None

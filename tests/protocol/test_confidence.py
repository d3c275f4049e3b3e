"""A deployed client answers with an interval that it learned from its own labels."""

import numpy as np
import pytest

from helpers.network import Chance, VirtualDisk
from psofed.core.conformal import LEVELS
from psofed.experiment import Experiment, Features
from psofed.fleet.protocol.confidence import WAITING, Confidence
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.member import Member
from psofed.methods import centralised, onlinefed, psofed


def plan(options=None, clock="live"):
    methods = (options or psofed.Options(2),)
    small = Experiment(
        clients=3, cohort=2, rounds=50, features=Features(dim=10), methods=methods, dtype="float32"
    )
    return Deployment(small, Deploy(clock=clock))


def samples(count, seed=0):
    g = np.random.default_rng(seed)
    x = g.uniform(-1, 1, (count, 4)).astype(np.float32)
    return x, (x.sum(axis=1) + g.normal(size=count)).astype(np.float32)


def disk():
    return VirtualDisk("state", Chance(0, 0))


@pytest.mark.parametrize("options", [psofed.Options(2), onlinefed.Options()], ids=lambda o: o.name)
def test_nine_of_ten_labels_are_inside_the_interval_of_nine_tenths(options):
    member = Member(plan(options), 0, disk())
    x, y = samples(3000)
    inside = []
    for i in range(len(y)):
        ends = member.answer(x[i]).interval(0.9)
        inside += [] if ends is None else [ends[0] <= y[i] <= ends[1]]
        member.client.learn(x[i : i + 1], y[i : i + 1])
    assert np.mean(inside) == pytest.approx(0.9, abs=0.01)
    assert member.confidence.coverage(0.9) == pytest.approx(np.mean(inside), abs=0.005)


def test_no_interval_is_given_before_there_are_enough_labels():
    member = Member(plan(), 0, disk())
    x, y = samples(20)
    assert member.answer(x[0]).interval(0.5) is None
    member.client.learn(x[:9], y[:9])
    assert member.answer(x[0]).interval(0.9) is None
    member.client.learn(x[9:10], y[9:10])
    assert member.answer(x[0]).interval(0.9) is not None
    assert member.answer(x[0]).interval(0.99) is None


def test_a_late_label_is_compared_with_the_answer_that_was_given():
    confidence = Confidence()
    x = np.ones(2)
    confidence.answer(x, 5.0)
    confidence.learn(x, guess=0.0, y=5.0)  # the model has changed since
    assert confidence.inside == [1] * len(LEVELS)
    confidence.learn(x, guess=0.0, y=5.0)  # a sample that nobody has asked for
    assert confidence.inside == [1] * len(LEVELS)


def test_questions_without_labels_do_not_fill_the_memory():
    confidence = Confidence()
    for i in range(WAITING + 100):
        confidence.answer(np.array([float(i)]), 0.0)
    assert len(confidence._asked) == WAITING


def test_radii_survive_a_restart():
    folder = disk()
    member = Member(plan(), 0, folder)
    member.client.learn(*samples(200))
    member.save()
    again = Member(plan(), 0, folder)
    x = samples(1)[0][0]
    assert again.answer(x) == member.answer(x)
    assert again.confidence.coverage(0.9) == member.confidence.coverage(0.9)


def test_clients_without_a_model_learn_no_radii():
    client = Member(plan(centralised.Options()), 0, disk()).client
    client.learn(*samples(5))
    assert not client.confidence.labels
    assert not [name for name in client.to_arrays() if name.startswith("radius.")]

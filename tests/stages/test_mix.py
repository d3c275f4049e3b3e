"""Clients that answer with a mix: the same rule in simulations, tables and deployed clients."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.loopback import disk, plan
from psofed import experiment as experiments
from psofed.core import alone, mixing
from psofed.errors import InputError
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy
from psofed.fleet.protocol.member import Member
from psofed.methods import local, psofed
from psofed.simulate import montecarlo
from psofed.stages.checks import none
from psofed.stages.mix import EXPERTS, MixOptions
from psofed.streams import paper

LIVE = Deploy(clock="live")
OPTIONS = MixOptions(season=5, trust=(0.3, 0.1, 0.2, 0.2, 0.1, 0.1))


def member(mix=OPTIONS, files=None, options=None):
    methods = (options or psofed.Options(2),)
    given = plan(LIVE, clients=3, rounds=50, methods=methods, mix=mix, check=none.Options())
    return Member(given, 0, files or disk())


def samples(count, seed=0):
    g = np.random.default_rng(seed)
    x = g.uniform(-1, 1, (count, 4))
    return x, x @ [1.0, -2.0, 0.5, 0.0] + np.sin(np.arange(count) * 2 * np.pi / 5)


def by_hand(method, x, y):
    """Answers of one client that learns alone, with the functions of whole tables."""
    z = method.task.features(x)
    learned, w = np.zeros(len(y)), np.zeros(z.shape[1])
    for n in range(len(y)):
        learned[n] = w @ z[n]
        w += method.step * (y[n] - learned[n]) * z[n]
    models = alone.Alone(1, method.task.dim, 4)
    u = alone.inputs(z, x, method.task.dim)
    both = models.follow(0, u, u, y)
    last = np.concatenate([[0.0], y[:-1]])
    season = np.where(np.arange(len(y)) < 5, last, np.roll(y, 5))
    guesses = np.column_stack([learned, 0 * learned, both, last, season])
    mixer = mixing.Mixer(1, np.array(OPTIONS.trust))
    return mixer.follow(guesses[:, None], y[:, None])[:, 0]


def test_a_client_answers_as_the_back_test_of_a_table_does():
    found = member()
    x, y = samples(200)
    answers = []
    for n in range(len(y)):
        answers.append(found.answer(x[n]).y)
        found.client.learn(x[n : n + 1], y[n : n + 1])
    wanted = by_hand(found.client.method, x, y)
    assert np.allclose(answers, wanted, rtol=1e-9, atol=1e-12)
    assert np.square(answers - y)[50:].mean() < 0.5 * np.square(wanted[0] - y)[50:].mean()


def test_a_late_label_is_learned_with_what_the_experts_said_when_they_were_asked():
    early, late = member(), member()
    x, y = samples(40)
    for one in (early, late):
        one.client.learn(x[:30], y[:30])
    said = late.client.mix.answer(
        late.client.state, x[30:31], late.client.method.task.features(x[30:31])
    )
    late.answer(x[30])
    late.client.learn(x[31:], y[31:])
    before = late.client.state["mix memory"].copy()
    late.client.learn(x[30:31], y[30:31])
    mixing.learn(
        before,
        late.client.mix.trust,
        said[1],
        np.vecdot(mixing.weights(before, late.client.mix.trust), said[1]),
        y[30:31],
    )
    assert np.array_equal(late.client.state["mix memory"], before)
    assert np.isnan(late.client.state["mix asked"]).all()


def test_an_operator_may_see_whom_a_client_trusts_for_six_bytes():
    found = member()
    found.client.learn(*samples(200))
    assert len(found.hello()) == 9
    found.plan = replace(found.plan, deploy=replace(LIVE, report=True))
    told = found.hello()
    assert len(told) == 9 + 20 + len(EXPERTS) == wire.REPORT
    plain = replace(member(None).plan, deploy=found.plan.deploy)
    server = Coordinator(plain, disk())
    assert server.take(0, told) == "hello"
    assert server.commit().up == len(told)
    memory = found.client.state["mix memory"][0]
    weights = mixing.weights(memory, np.array(OPTIONS.trust))
    best = int(weights.argmax())
    assert server.reports[0].trusted.startswith(f"{EXPERTS[best]} {weights[best]:.0%}"[:-1])
    assert np.allclose(np.frombuffer(server.reports[0].trust, np.uint8), 255 * weights, atol=0.5)


def test_mistakes_in_the_table_of_a_file_are_named():
    for table, found in (
        ({"season": 0}, "mix.season"),
        ({"trust": [1.0]}, "mix.trust"),
        ({"trust": [-1.0, 1, 1, 1, 1, 1]}, "mix.trust"),
        ({"sesaon": 3}, "mix.sesaon"),
    ):
        with pytest.raises(InputError, match=found):
            experiments.parse({"mix": table})


def test_personal_errors_of_a_simulation_are_those_of_the_mixes():
    """Clients that differ in their level: a mix learns it, LMS on few cosines hardly does."""
    settings = {"clients": 4, "rounds": 60, "runs": 1, "test_samples": 40, "judge": "personal"}
    some = (psofed.Options(2, step=0.2), local.Options(step=0.2))
    stream = paper.Options(spread=2.0)
    plain, mixed = (
        experiments.Experiment(**settings, methods=some, stream=stream, mix=mix)
        for mix in (None, MixOptions(season=7))
    )
    before, after = (montecarlo.run(each) for each in (plain, mixed))
    assert (after.mse[:, -1] < before.mse[:, -1]).all()
    assert np.array_equal(after.global_mse, before.global_mse)
    assert np.array_equal(after.cumulative, before.cumulative)

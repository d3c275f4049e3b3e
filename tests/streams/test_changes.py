"""Streams whose f changes, and clients that never take part."""

from dataclasses import replace

import numpy as np
import pytest

from psofed.experiment import Experiment, Features
from psofed.methods import centralised, fedavg, local, onlinefed, paofed, psofed
from psofed.rivals import pdlms
from psofed.simulate import any_method, family
from psofed.simulate.draws import draw, draw_test
from psofed.simulate.onerun import one_run
from psofed.streams import change, drift, paper
from psofed.streams.contract import blend, varies


def small(stream, *methods, **changes):
    settings = {"clients": 6, "cohort": 2, "rounds": 60, "runs": 1, "dtype": "float64"}
    features = Features(dim=10, width=1.5)
    more = {"features": features, "methods": methods or (onlinefed.Options(),), "stream": stream}
    return Experiment(**settings | more | changes)


def test_an_abrupt_change_leaves_the_inputs_and_what_was_before_as_they_were():
    seeds = small(paper.Options()).task(0).seeds
    ids = np.arange(6)
    plain = paper.Options().samples(seeds, ids, 0, 60, np.float64)
    changed = change.Options(at=25).samples(seeds, ids, 0, 60, np.float64)
    assert np.array_equal(plain.x, changed.x)
    assert np.array_equal(plain.y[:, :25], changed.y[:, :25])
    assert np.array_equal(changed.clean[:, 25:], paper.f(plain.x[:, 25:, ::-1]))


def test_a_drift_goes_there_and_back():
    a = drift.Options(period=100).blend(np.array([0, 25, 50, 75, 100]))
    assert np.allclose(a, [0, 0.5, 1, 0.5, 0])


@pytest.mark.parametrize("count", [8, 400])
@pytest.mark.parametrize("a", [0.0, 0.3, 1.0])
def test_the_test_error_is_that_of_f_as_it_is_by_then(count, a):
    experiment = small(drift.Options(), test_samples=count)
    task = experiment.task(0)
    sample = experiment.stream.snapshot(task.seeds, "test", 6, count)
    w = np.random.default_rng(0).standard_normal((3, 10))
    y = (1 - a) * paper.f(sample.x) + a * paper.f(sample.x[:, ::-1])
    expected = np.mean((y - w @ task.features(sample.x).T) ** 2, axis=1)
    assert np.allclose(draw_test(experiment, task).mse(w, a), expected, rtol=1e-7)


@pytest.mark.parametrize("stream", [change.Options(at=20), drift.Options(period=80)])
@pytest.mark.parametrize("every", [1, 7])
def test_kernel_and_lockstep_judge_a_changing_f_alike(stream, every):
    options = psofed.Options(shared=1), psofed.Options(shared=4), onlinefed.Options()
    experiment = small(stream, *options, evaluate_every=every)
    task, marks = experiment.task(0), experiment.evaluated
    draws, test = draw(experiment, task, everybody=True), draw_test(experiment, task)
    shares = blend(stream, marks)
    fast = family.run(draws, experiment.start(task), marks, test, shares).mse
    for j, method in enumerate(experiment.start(task)):
        play = any_method.play(method, any_method.RunSamples(draws))
        models = np.array([moment.server["w"].copy() for moment in play])
        slow = [test.mse(models[n], a) for n, a in zip(marks, shares, strict=True)]
        assert np.allclose(fast[j], slow, rtol=1e-9)


def test_after_a_change_learning_starts_again_and_gets_as_low():
    methods = onlinefed.Options(), fedavg.Options(local_steps=2)
    steady = Experiment(clients=20, rounds=1600, runs=1, methods=methods, evaluate_every=20)
    moved = replace(steady, stream=change.Options(at=800))
    a, b = (one_run(e, 0).mse for e in (steady, moved))
    at = list(moved.evaluated).index(800)
    assert np.allclose(a[:, :at], b[:, :at], rtol=1e-6)
    assert (b[:, at] > 3 * b[:, at - 1]).all()
    assert (b[:, -1] < 1.5 * b[:, at - 1]).all()


def test_only_streams_that_change_say_so():
    assert [varies(s) for s in (paper.Options(), change.Options(), drift.Options())] == [0, 1, 1]
    assert not blend(paper.Options(), np.arange(5)).any()


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_absent_clients_are_never_asked_and_the_others_all_are(share):
    experiment = small(paper.Options(), clients=20, rounds=400, absent=share)
    cohorts = experiment.task(0).cohorts
    many = cohorts.cohort(np.arange(400))
    assert len(np.unique(many)) == len(cohorts.present()) == 20 - round(20 * share)
    assert set(np.unique(many)) == set(cohorts.present())
    assert all(np.array_equal(cohorts.cohort(n), many[n]) for n in range(0, 400, 37))


def test_methods_that_choose_for_themselves_do_not_hear_absent_clients_either():
    chosen = (
        centralised.Options(), pdlms.Options(shared=2, degree=2),
        paofed.Options(shared=2, availability=0.9),
    )  # fmt: skip
    experiment = small(paper.Options(), *chosen, absent=0.5)
    task = experiment.task(0)
    present = set(task.cohorts.present().tolist())
    for method in experiment.start(task):
        server = method.server()
        asked = {int(k) for n in range(40) for k in method.cohort(n, server)}
        assert asked == present


def test_the_test_set_covers_absent_clients_too():
    everybody, some = small(paper.Options()), small(paper.Options(), absent=0.5)
    a, b = (draw_test(e, e.task(0)) for e in (everybody, some))
    assert np.array_equal(a.target, b.target)


def test_nobody_absent_is_written_as_nothing():
    assert "absent" not in small(paper.Options()).to_toml()
    assert "absent = 0.5" in small(paper.Options(), local.Options(), absent=0.5).to_toml()

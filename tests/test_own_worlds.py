"""Methods with features and a learner of their own, beside others in one experiment."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.battery import network
from helpers.mistakes import refused
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.federation.learners import linear, nlms
from psofed.methods import fedavg, memofed, onlinefed, psofed
from psofed.simulate import montecarlo, onerun

SMALL = Features(dim=12)
PLAIN = (fedavg.Options(local_steps=3), psofed.Options(shared=4), memofed.Options(size=6))
OWN = (
    psofed.Options(shared=4, features=SMALL),
    fedavg.Options(local_steps=3, learner=nlms.Options(), step=0.3),
    onlinefed.Options(learner=linear.Options()),
    psofed.Options(shared=3, features=SMALL, learner=nlms.Options(0.1)),
)


def experiment(*methods, **changes):
    settings = {"clients": 9, "rounds": 20, "runs": 3, "cohort": 3, "test_samples": 60}
    return Experiment(features=Features(dim=16), methods=methods, **settings | changes)


@pytest.mark.parametrize("options", OWN, ids=lambda o: o.title())
def test_a_method_with_its_own_is_the_same_method_in_an_experiment_with_these(options):
    mixed = experiment(*PLAIN, options)
    plain = replace(options, features=None, learner=None)
    changes = {"learner": options.learner} if options.learner is not None else {}
    features = Features() if changes and not options.learner.featured else Features(dim=16)
    there = replace(mixed, features=options.features or features, methods=(plain,), **changes)
    runs = (onerun.some_runs(each, [0, 2]) for each in (mixed, there))
    for found, known in zip(*runs, strict=True):
        assert np.array_equal(found.mse[-1], known.mse[0])
        assert np.array_equal(found.traffic[:, -1], known.traffic[:, 0])


def test_methods_beside_one_with_its_own_are_what_they_were():
    alone, mixed = experiment(*PLAIN), experiment(OWN[0], *PLAIN, *OWN[1:])
    before, after = (onerun.some_runs(each, range(4)) for each in (alone, mixed))
    for one, other in zip(before, after, strict=True):
        assert np.array_equal(one.mse, other.mse[1:4])
        assert np.array_equal(one.traffic, other.traffic[:, 1:4])
        assert np.array_equal(one.floors, other.floors)
    assert len(after[3].floors) == 2


def test_titles_say_what_a_method_has_of_its_own():
    same = replace(PLAIN[1], features=Features(dim=16))
    wide = replace(same, features=Features(dim=16, width=3.0))
    mixed = experiment(*OWN[:2], same, wide, PLAIN[1])
    assert mixed.titles == [
        "PSO-Fed M=4 uncoordinated, cosine 12",
        "FedAvg E=3, nlms",
        "PSO-Fed M=4 uncoordinated, cosine 16, features.width 2",
        "PSO-Fed M=4 uncoordinated, cosine 16, features.width 3",
        "PSO-Fed M=4 uncoordinated",
    ]
    parts = mixed.parts()
    assert [places for places, _ in parts] == [[0], [1], [2, 4], [3]]
    assert [title for _, part in parts for title in part.titles] == [
        mixed.titles[j] for j in (0, 1, 2, 4, 3)
    ]


def test_curves_have_a_row_for_each_method_in_order():
    mixed = experiment(*OWN, *PLAIN, runs=2)
    curves = montecarlo.run(mixed, jobs=1)
    runs = onerun.some_runs(mixed, [0, 1])
    assert np.allclose(curves.mse, (runs[0].mse + runs[1].mse) / 2, rtol=1e-12)
    assert curves.uplink[:2].sum(axis=1).tolist() == [20 * 3 * 16, 6 * 3 * 64]


test_mistakes_are_told_of_the_method = refused({
    "methods[0].shared is 13": psofed.Options(shared=13, features=SMALL),
    "methods[0].features is 'cosine'": psofed.Options(features="cosine"),
    "methods[0].learner is 'nlms'": psofed.Options(learner="nlms"),
    "methods[0].learner.epsilon is 0.0": psofed.Options(4, learner=nlms.Options(0.0)),
    "methods[0].name is ...linear": memofed.Options(learner=network.Options()),
    "methods[0].features is ...inputs as they are": psofed.Options(2, features=SMALL, learner=linear.Options()),
}, experiment)  # fmt: skip


def test_one_task_cannot_start_methods_of_several_worlds():
    mixed = experiment(*PLAIN, OWN[0])
    with pytest.raises(InputError, match=r"Experiment\.alone"):
        mixed.start(mixed.task(0))

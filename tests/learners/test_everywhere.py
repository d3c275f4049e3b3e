"""Learners in every executor: simulated, as messages, deployed on both clocks, judged and compared."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import drivers
from helpers.battery import METHODS, network, small, stepwise
from helpers.drivers import deployment, expected_live, live
from helpers.virtual_disk import Chance, VirtualDisk
from psofed.cli.laws.drivers import STREAMS, compiled
from psofed.compare import budget
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.federation.learners import linear, nlms
from psofed.fleet import samples
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.member import Member
from psofed.fleet.protocol.store import StateFolder
from psofed.methods import fedavg, onlinefed, psofed
from psofed.simulate import montecarlo
from psofed.simulate.draws import draw_test
from psofed.tables import export, plan
from psofed.theory import prediction

NETWORK = network.Options(hidden=2)  # D = 13


def world(options, learner, stream="steady", **changes):
    """An experiment of one method, with windows that need not be even: D is no round number."""
    if "allow_uneven" in vars(options):
        options = replace(options, allow_uneven=True)
    base = {"stream": STREAMS[stream], "rounds": drivers.ROUNDS, "step": 0.3}
    if not learner.featured:
        base["features"] = Features()
    return small(options, learner=learner, **base | changes)


def first_of_each():
    """One form of each method that learns a network, the first that fits its size."""
    found = {}
    for options in METHODS:
        if options.name not in found and options.learns(NETWORK):
            try:
                world(options, NETWORK)
            except InputError as error:
                if not error.field.startswith("methods"):
                    raise
                continue  # its M or its parts do not fit D
            found[options.name] = options
    return list(found.values())


EACH = first_of_each()
FEW = {"clients": 4, "cohort": 2, "runs": 2, "test_samples": 50}


def apart(found, expected):
    return 0.0 if found is None else float(np.abs(found - expected).max())


def test_all_methods_but_those_that_need_a_linear_model_are_here():
    names = {options.name for options in METHODS}
    linear = {"fedpoe", "memofed", "pdrls", "pofmkl", "psorls"}
    assert names - {options.name for options in EACH} == linear


@pytest.mark.parametrize("options", EACH, ids=lambda o: o.name)
def test_every_driver_gives_the_same_networks_in_every_round(options):
    steady = world(options, NETWORK)
    experiment = steady if options.gapless else world(options, NETWORK, "gaps")
    expected = stepwise(experiment)
    assert np.isfinite(expected).all()
    assert apart(expected[-1], expected[0]) > 1e-3
    for driver in (compiled, drivers.messages, drivers.tables):
        assert apart(driver(experiment), expected) <= 1e-12, driver.__name__
    if options.simulated:
        return
    assert apart(drivers.deployed(steady), stepwise(steady)) <= 1e-12
    if not options.not_live:
        found = live(steady)
        assert apart(found, expected_live(steady)) <= 1e-12
        assert apart(found[-1], found[0]) > 1e-3


def test_floors_are_for_linear_models_only_and_steps_that_are_too_large_are_a_result():
    base = Experiment(methods=(onlinefed.Options(),), rounds=20, **FEW | {"runs": 3})
    for learner, known in ((network.Options(3), 0), (linear.Options(), 2)):
        assert len(montecarlo.run(replace(base, learner=learner), 1).floors) == known
    methods = psofed.Options(shared=5), fedavg.Options()
    wild = replace(base, learner=network.Options(4), methods=methods, rounds=300, step=500.0)
    assert not (montecarlo.run(wild, 1).mse[:, -1] < 10).any()  # enormous, or not a number


def test_a_client_answers_by_its_learner():
    plan = Deployment(world(psofed.Options(3), NETWORK), Deploy(clock="live"))
    member = Member(plan, 0, VirtualDisk("state", Chance(0, 0)))
    client = member.client
    x = np.random.default_rng(0).standard_normal((40, 4))
    client.learn(x, np.sin(x[:, 0]))
    wanted = NETWORK.predict(client.state["w"], client.method.task.features(x))
    np.testing.assert_allclose(client.predict(x), wanted)
    assert member.answer(x[0]).y == pytest.approx(wanted[0])
    assert member.confidence.labels == 40


def test_a_budget_is_of_the_learners_size():
    made = Experiment(learner=network.Options(), methods=(onlinefed.Options(),), rounds=200, **FEW)
    fitted = budget.fit(made, psofed.Options(), 0.2)
    assert fitted.options.shared == 199 // 5
    names = {options.name for options in budget.everything(199, made.learner)}
    assert "memofed" not in names
    assert {"psofed", "fedavg", "asofed", "centralised"} <= names
    # Those with RLS are never compared.
    assert set(budget.unfit(made.learner)) == {"fedpoe", "memofed", "pofmkl"}
    assert budget.unfit(Experiment().learner) == []


def test_the_theory_and_fits_say_that_they_are_of_lms():
    made = Experiment(learner=nlms.Options(), methods=(psofed.Options(),))
    with pytest.raises(InputError, match=r"learner.name is 'nlms', but the theory is that of LMS"):
        prediction.world(made)
    table = {"columns": {}, "learner": {"name": "nlms"}}
    with pytest.raises(InputError, match=r"learner is given, but a fit learns by LMS"):
        plan.parse(table)


def test_a_server_judges_and_a_state_is_not_exported(tmp_path):
    plan = deployment(world(psofed.Options(3), linear.Options(), test_samples=50), "lockstep")
    method = plan.method()
    w = method.server()["w"] + 0.1
    found = 10 ** (samples.test_set(plan)(w) / 10)
    assert found == pytest.approx(draw_test(plan.experiment, method.task).mse(w))
    folder = StateFolder(tmp_path / "server")
    server = Coordinator(plan, folder)
    for _ in range(2):
        server.commit()
    plan.keep(folder)
    folder.close()
    with pytest.raises(InputError, match="has the learner linear, which cannot be exported"):
        export.load(tmp_path / "server")

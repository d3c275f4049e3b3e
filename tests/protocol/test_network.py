"""The deployed ends in a virtual network: lost, late, repeated, reordered messages and crashes."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.loopback import balanced
from helpers.network import Chance, CrashError, Network, VirtualDisk, Weather
from helpers.onlooker import models
from psofed.cli.laws.executors import simulate
from psofed.experiment import Experiment, Features
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.store import Store
from psofed.methods import psofed

ROUNDS = 8


@cache
def plan(seed=0):
    options = psofed.Options(shared=2)
    features = Features(dim=5)
    experiment = Experiment(clients=4, cohort=2, rounds=ROUNDS, seed=seed, dtype="float64",
                            features=features, methods=(options,))  # fmt: skip
    return Deployment(experiment, Deploy(wire="float64"))


def judge(network):
    """Everything that must hold after a run, whatever the weather was."""
    onlooker, trace, server = network.onlooker, network.trace, network.server.server
    assert server.ledger.counts == onlooker.counts()
    balanced(network.server)
    assert trace.sent == trace.delivered + trace.dropped
    assert all(len(bodies) == 1 for bodies in trace.answers.values())
    w, local = models(network.plan, onlooker.heard[:-1], trace.took_part, network.streams)
    assert np.abs(server.state["w"] - w).max() <= 1e-12
    for member in network.members:
        assert np.abs(member.client.state["w"] - local[member.k]).max() <= 1e-12


weathers = st.builds(
    Weather,
    lost=st.floats(0, 0.5),
    repeated=st.floats(0, 0.5),
    slow=st.floats(0, 0.8),
    server_crash=st.floats(0, 0.4),
    client_crash=st.floats(0, 0.4),
    deadline=st.one_of(st.none(), st.integers(1, 40)),
)


@given(weathers, st.integers(0, 10**9))
@settings(max_examples=60)
def test_any_weather_leaves_what_the_onlooker_expects(weather, number):
    network = Network(plan(number % 5), weather, Chance(1, number))
    network.run(ROUNDS)
    judge(network)


@given(weathers, st.integers(0, 10**9))
def test_a_patient_server_ends_with_the_simulations_model_in_any_weather(weather, number):
    patient = Weather(**vars(weather) | {"deadline": None})
    network = Network(plan(number % 5), patient, Chance(2, number))
    network.run(ROUNDS)
    w, local = simulated(number % 5)
    assert np.abs(network.server.server.state["w"] - w).max() <= 1e-12
    for member in network.members:
        member.client.catch_up(ROUNDS)
        assert np.abs(member.client.state["w"] - local[member.k]).max() <= 1e-12


@cache
def simulated(seed):
    return simulate(plan(seed), ROUNDS)


@pytest.mark.parametrize("step", range(8))
@pytest.mark.parametrize("number", range(10))
def test_a_record_is_old_or_new_after_a_crash_at_any_step(step, number):
    disk = VirtualDisk("d", Chance(4, number))
    store = Store(disk, {})
    for value in range(3):
        store.save({"w": np.array([float(value)])})
    disk.steps_left = step
    try:
        store.save({"w": np.array([3.0])})
        done = True
    except CrashError:
        done = False
    disk.crash()
    again = Store(disk, {})
    found = again.load()["w"][0]
    assert found == 3 if done else found in (2, 3)
    again.save({"w": np.array([9.0])})
    assert again.load()["w"][0] == 9

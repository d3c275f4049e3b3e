"""The deployed ends in a virtual network; benchmarks/campaign.py has its runs with deadlines."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.loopback import plan
from helpers.network import Chance, CrashError, Network, VirtualDisk, Weather
from psofed.cli.laws.executors import simulate
from psofed.experiment import Features
from psofed.fleet.protocol.store import Store
from psofed.methods import psofed

ROUNDS = 8


@cache
def small(seed):
    """A plan, and the models of its simulation."""
    options = (psofed.Options(shared=2),)
    given = plan(clients=4, rounds=ROUNDS, seed=seed, features=Features(dim=5), methods=options)
    return given, *simulate(given, ROUNDS)


weathers = st.builds(
    Weather,
    lost=st.floats(0, 0.5),
    repeated=st.floats(0, 0.5),
    slow=st.floats(0, 0.8),
    server_crash=st.floats(0, 0.4),
    client_crash=st.floats(0, 0.4),
)


@given(weathers, st.integers(0, 10**9))
def test_a_patient_server_ends_with_the_simulations_model_in_any_weather(weather, number):
    given, w, local = small(number % 5)
    network = Network(given, weather, Chance(2, number))
    network.run(ROUNDS)
    assert np.abs(network.server.server.state["w"] - w).max() <= 1e-12
    for member in network.members:
        member.client.catch_up(ROUNDS)
        assert np.abs(member.client.state["w"] - local[member.k]).max() <= 1e-12


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

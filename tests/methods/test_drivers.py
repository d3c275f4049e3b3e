"""One battery over all methods and all drivers: whoever drives the rounds, the models are the same.

Among the samples are gaps, silent rounds, a client that joins late and one that stops. Four mistakes
that were once made are planted, and the battery has to notice each.
"""

from dataclasses import replace

import numpy as np
import pytest

from helpers import drivers
from helpers.battery import METHODS, every_method, fits, small
from helpers.drivers import ROUNDS, Team, deployment, expected_live, live, stacked, world
from psofed.errors import InputError
from psofed.experiment import Features
from psofed.fit import fitting
from psofed.methods import contract, fedavg, onlinefed, paofed, periodic, psofed, raw
from psofed.policies import fedcs
from psofed.protocol import in_memory
from psofed.protocol.client import MOST_WAITING, Client
from psofed.protocol.server import RefusedError, Server
from psofed.simulate.draws import draw
from psofed.simulate.evaluate import draw_test

every_stream = pytest.mark.parametrize("stream", drivers.STREAMS)
DEPLOYED = [options for options in METHODS if not options.simulated]
every_deployed = pytest.mark.parametrize("options", DEPLOYED, ids=lambda o: f"{o.name}-{o.title()}")


def apart(found, expected):
    return 0.0 if found is None else float(np.abs(found - expected).max())


@every_method
@every_stream
def test_every_driver_gives_the_same_models_in_every_round(options, stream):
    if stream == "gaps" and options.gapless:
        with pytest.raises(InputError, match="needs a sample of every client in every round"):
            world(options, stream)
        return
    experiment = world(options, stream)
    expected = stacked(experiment)
    assert np.abs(expected).max() > 0
    for driver in (drivers.compiled, drivers.dense, drivers.messages, drivers.tables):
        assert apart(driver(experiment), expected) <= 1e-12, driver.__name__


@every_deployed
@every_stream
def test_frames_records_and_restarts_change_nothing_on_the_lockstep_clock(options, stream):
    experiment = world(options, stream)
    if stream == "gaps" and contract.kind(options).relays:
        with pytest.raises(InputError, match=r'which sends samples.*use clock = "live"'):
            deployment(experiment, "lockstep")
        return
    assert apart(drivers.deployed(experiment), stacked(experiment)) <= 1e-12


@every_deployed
@every_stream
def test_on_a_live_clock_every_method_learns_and_does_what_its_clock_means(options, stream):
    experiment = world(options, stream)
    if options.not_live:
        with pytest.raises(InputError, match=r'cannot run on a live clock.*use clock = "lockstep"'):
            deployment(experiment, "live")
        return
    found = live(experiment)
    assert apart(found, expected_live(experiment)) <= 1e-12
    assert np.abs(found[-1]).max() > 0.01


@every_method
def test_a_policy_that_prefers_nobody_is_the_cohort_over_many_rounds(options):
    policy = fedcs.Options(share=0.6, deadline=float("inf"))
    if not fits(options, policy):
        return
    uniform = stacked(world(options, "steady", cohort=3))
    assert apart(drivers.chosen(world(options, "steady", cohort=3), policy), uniform) <= 1e-12


@every_deployed
def test_the_gap_that_is_reported_is_since_the_entries_last_moved(options):
    """`touched` has the entries that a fold moves and, once clients have learned, no others."""
    team = Team(deployment(world(replace(options, average=False), "steady"), "lockstep"))
    moved_at, spoken_of, of_these = np.zeros(10, int), 0, 0
    for n in range(ROUNDS):
        before = team.server.server.model.copy()
        closed = team.round()
        moved = team.server.server.model != before
        touched = team.server.fresh == n + 1
        assert (touched | ~moved).all()
        if n >= 16:
            spoken_of, of_these = spoken_of + touched.sum(), of_these + (touched & moved).sum()
        moved_at[moved] = n + 1
    assert of_these >= 0.97 * spoken_of > 0  # coarse updates of two clients may cancel out
    assert closed.gap == ROUNDS - team.server.fresh.min() <= ROUNDS - moved_at.min()


@pytest.mark.parametrize("options", METHODS, ids=lambda o: f"{o.name}-{o.title()}")
def test_what_cannot_be_deployed_is_refused_with_a_reason(options):
    for clock in ("lockstep", "live"):
        if options.simulated:
            with pytest.raises(InputError, match=f"{options.name}, which cannot be deployed: "):
                deployment(world(options, "steady"), clock)
        elif clock == "lockstep" or not options.not_live:
            deployment(world(options, "steady"), clock)


def test_samples_that_wait_are_bounded_and_those_passed_over_are_counted():
    method, draws = drivers.prepared(world(onlinefed.Options(), "steady"))
    client = Client(method, 0)
    x, y = (np.resize(a[0], (3000, *a.shape[2:])) for a in drivers.at_hand(draws))
    for start in range(0, 3000, 250):
        client.learn(x[start : start + 250], y[start : start + 250])
    assert client.position == 3000 == client.passed + len(client.waiting[1])
    assert len(client.waiting[1]) == MOST_WAITING
    again = Client(method, 0)
    again.restore(client.to_arrays())
    down = method.encode(method.download(method.server(), 0, 0), up=False)
    answer = client.take_part(0, down)
    assert again.take_part(0, down) == answer
    assert again.passed == 3000 - MOST_WAITING
    assert not len(again.waiting[1])
    alone = method.client(0)
    z = method.task.features(x)
    for i in range(3000 - MOST_WAITING, 3000):
        method.learn(alone, x[i], z[i], y[i])
    np.testing.assert_array_equal(client.state["w"], alone["w"])


@pytest.mark.parametrize("shared", [1, 4, 8, 10, 14, 19, 20])
def test_a_live_clock_costs_less_than_a_decibel_whatever_is_shared(shared):
    options = psofed.Options(shared)
    changes = {"clients": 6, "cohort": 3, "rounds": 250, "features": Features(dim=20), "step": 0.5}
    errors = []
    for clock in ("lockstep", "live"):
        experiment = small(options, **changes)
        task = experiment.task(0, wire="float64")
        (method,), draws = experiment.start(task), draw(experiment, task, everybody=True)
        x, y = drivers.at_hand(draws)
        sources = [
            in_memory._Samples(x[k], y[k]) if clock == "lockstep" else None for k in range(6)
        ]
        clients = [Client(method, k, source) for k, source in enumerate(sources)]
        server = Server(method)
        for n in range(250):
            for k, client in enumerate(clients if clock == "live" else ()):
                client.learn(x[k, n : n + 1], y[k, n : n + 1])
            for k, invitation in server.invite().items():
                server.collect(k, n, clients[k].take_part(n, invitation))
            server.commit()
        errors.append(10 * np.log10(draw_test(experiment, task).mse(server.model)))
    assert errors[1] < errors[0] + 1


def test_who_relays_samples_sends_the_newest_and_counts_the_others():
    method, draws = drivers.prepared(world(raw.Options(), "steady"))
    x, y = drivers.at_hand(draws)
    client = Client(method, 0)
    client.learn(x[0, :5], y[0, :5])
    assert (client.position, client.passed, len(client.waiting[1])) == (5, 4, 1)
    sent = method.decode(client.take_part(0, b""), up=True)
    np.testing.assert_array_equal(sent, [*x[0, 4], y[0, 4]])
    assert len(method.decode(client.take_part(1, b""), up=True)) == 0


def test_a_client_that_missed_the_beginning_of_a_block_does_not_upload_an_older_one():
    method, _ = drivers.prepared(world(fedavg.Options(local_steps=4), "steady"))
    client = Client(method, 0)
    down = method.encode(method.download(method.server(), 0, 8), up=False)
    client.take_part(8, down)
    again = Client(method, 0)
    again.restore(client.to_arrays())
    for one in (client, again):
        assert len(one.take_part(11, b"")) > 0
        with pytest.raises(RefusedError, match="round 15 belongs to a block that began without us"):
            one.take_part(15, b"")
        assert one.take_part(16, down) == b""


def test_a_policy_needs_a_sample_of_everybody_in_every_round():
    with pytest.raises(InputError, match="policy needs a sample of every client"):
        world(psofed.Options(3, policy=fedcs.Options()), "gaps")


# Each was once made: the battery above must not let it pass.


def test_the_battery_notices_clients_that_do_not_learn_on_a_live_clock(monkeypatch):
    good = Client.now
    monkeypatch.setattr(Client, "now", lambda self, *a: good(self, *a) if self.source else None)
    experiment = world(onlinefed.Options(), "steady")
    assert not live(experiment).any()
    assert apart(live(experiment), expected_live(experiment)) > 0.01


def test_the_battery_notices_rounds_without_an_answer_that_are_not_folded(monkeypatch):
    good = Server._fold
    monkeypatch.setattr(Server, "_fold", lambda self, up: good(self, up) if up else self.state)
    experiment = world(paofed.Options(shared=5, delay=0.9, longest=6, decay=0.9), "gaps")
    assert apart(drivers.deployed(experiment), stacked(experiment)) > 1e-3
    assert apart(drivers.messages(experiment), stacked(experiment)) > 1e-3


def test_the_battery_notices_averaging_that_a_driver_forgets(monkeypatch):
    monkeypatch.setattr(
        fitting, "start", lambda o, task: contract.start(replace(o, average=False), task)
    )
    experiment = world(psofed.Options(shared=3, average=True), "steady")
    assert apart(drivers.tables(experiment), stacked(experiment)) > 1e-3


def test_the_battery_notices_windows_that_are_guessed(monkeypatch):
    def guessed(self, server, n, uploads):
        return np.concatenate([self.schedule.entries(k, n + 1) for k in uploads] or [[]]).astype(
            int
        )

    monkeypatch.setattr(periodic.Method, "touched", guessed)
    with pytest.raises(AssertionError):
        test_the_gap_that_is_reported_is_since_the_entries_last_moved(
            periodic.Options(shared=2, local_steps=4)
        )

"""Deployments expect malicious clients: which have a defence, what it stops, what a kill costs."""

import numpy as np
import pytest

from helpers.battery import VARIANTS
from helpers.loopback import World, balanced, disk, plan
from psofed.experiment import Features
from psofed.federation import schema
from psofed.federation.contract import exchanged
from psofed.federation.stage import around
from psofed.fleet.protocol import durable, wire
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy
from psofed.fleet.protocol.signs import SIZE
from psofed.fleet.protocol.store import SELDOM, SLOTS
from psofed.methods import centralised, onlinefed
from psofed.methods import psofed as pso
from psofed.rivals import raw
from psofed.stages.defences import clip, none
from psofed.stages.defences.contract import OWN, Defended

LIVE, LIVE64 = Deploy(clock="live"), Deploy(clock="live", wire="float64")


def defence_of(server):
    stages = around(server.server.method)
    return next((stage.defence for stage in stages if isinstance(stage, Defended)), None)


def test_a_live_deployment_has_a_defence_and_a_lockstep_one_does_as_its_file_says():
    assert plan(LIVE).defence == "Defence: clip"
    assert isinstance(defence_of(Coordinator(plan(LIVE), disk())), clip.Defence)
    assert plan().defence == "Defence: none, the file has no table [defence]"
    assert defence_of(Coordinator(plan(), disk())) is None
    assert plan(defence=clip.Options(3.0)).defence == "Defence: clip 3"
    few = plan(LIVE, clients=4, cohort=2).defence
    assert few == "Defence: clip, which cannot tell who is wrong where clients are fewer than five"


def test_a_file_or_a_method_without_a_fold_turns_it_off():
    off = plan(LIVE, defence=none.Options())
    assert off.defence == "Defence: none, as the file says"
    assert defence_of(Coordinator(off, disk())) is None
    for method in (centralised.Options(), raw.Options(solver="ridge")):
        whole = plan(LIVE, methods=(method,))
        name = f"the server of {method.name} has no fold that one could change"
        assert name in whole.defence
        assert defence_of(Coordinator(whole, disk())) is None


def test_a_live_server_may_change_its_defence_without_its_clients():
    assert plan(LIVE).digest == plan(LIVE, defence=none.Options()).digest
    assert plan().digest != plan(defence=clip.Options()).digest, "its simulation has one, too"


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_every_method_that_goes_live_goes_live_with_it(name):
    options = schema.load("psofed.methods", name).Options()
    if options.simulated or options.not_live:
        pytest.skip("it does not go live")
    world = World(LIVE, methods=(options,), features=Features(dim=40))
    for n in range(6):
        world.learn(n, 8)
        world.rounds()
    counts = world.balanced()
    assert counts["asked"] == counts["accepted"]
    assert counts["asked"] >= 12 or name == "memofed", "which waits for more samples"
    assert np.isfinite(world.model).all()


def upload(server, k, values):
    body = np.asarray(values, "<f8").tobytes() + bytes(SIZE * server.plan.signed)
    frame = wire.Frame(wire.UPLOAD, server.plan.digest, server.n, wire="float64", body=body)
    return server.take(k, wire.encode(frame))


@pytest.mark.parametrize("clock", ["lockstep", "live"])
@pytest.mark.parametrize("options", [pso.Options(shared=3), onlinefed.Options()])
def test_no_answers_together_end_a_server(clock, options):
    most = 1.7e308
    given = plan(Deploy(wire="float64", clock=clock, bound=most), cohort=5, methods=(options,))
    entries, folder = exchanged(given.method(), up=True).shape[-1], disk()
    server, left_out = Coordinator(given, folder), 0
    for n in range(6):
        for k in list(server.missing):
            values = np.full(entries, most * (-1) ** n if k != 2 else 0.25)
            assert upload(server, k, values) == "accepted"
        closed = server.commit()
        assert closed.accepted + len(closed.left_out) == 5
        assert 2 not in closed.left_out, "the largest are left out, not the others"
        assert np.isfinite(server.server.model).all()
        left_out += len(closed.left_out)
        server = Coordinator(given, folder)
    ledger = server.server.ledger
    assert (left_out > 0) == (clock == "lockstep"), "live, the defence lets nothing of it pass"
    assert ledger.reasons.get("together", 0) == ledger.refused.sum() == left_out
    counts = balanced(server)
    assert counts["asked"] == counts["received"] == 30
    assert not counts["repeated"]


def arrays_of(server):
    state = server.server.state.items()
    return {name: a.copy() for name, a in state if name.startswith(OWN)}


def committed(server, rounds, rng):
    for _ in range(rounds):
        for k in list(server.missing):
            assert upload(server, k, rng.standard_normal(3)) == "accepted"
        server.commit()


def test_a_kill_costs_a_small_federation_nothing():
    given, folder, rng = plan(LIVE64), disk(), np.random.default_rng(0)
    server = Coordinator(given, folder)
    committed(server, 70, rng)
    again = Coordinator(given, folder)
    for name, array in arrays_of(server).items():
        np.testing.assert_array_equal(again.server.state[name], array)
    assert not any(slot in folder.files for slot in SELDOM)


def test_a_kill_costs_a_large_one_a_few_rounds_of_a_slow_memory_and_nothing_else():
    many = {"clients": 1000, "cohort": 4, "features": Features(dim=100)}
    given, folder, rng = plan(LIVE64, **many), disk(), np.random.default_rng(0)
    server = Coordinator(given, folder)
    committed(server, durable.OFTEN, rng)
    then = arrays_of(server)[f"{OWN}memory"]
    committed(server, 5, rng)
    assert max(len(folder.files[slot]) for slot in SLOTS) < 150_000 < then.nbytes
    again = Coordinator(given, folder)
    for name, array in arrays_of(server).items():
        wanted = then if name == f"{OWN}memory" else array
        np.testing.assert_array_equal(again.server.state[name], wanted)
    assert then.any()


def test_another_defence_begins_anew():
    folder, rng = disk(), np.random.default_rng(0)
    committed(Coordinator(plan(LIVE64), folder), 10, rng)
    other = plan(LIVE64, cohort=2, defence=none.Options())
    assert Coordinator(other, folder).n == 10
    back = Coordinator(plan(LIVE64), folder)
    assert back.n == 10
    assert not back.server.state[f"{OWN}vote"].any(), "what it knew is gone with the record"
    assert np.isfinite(back.server.model).all()

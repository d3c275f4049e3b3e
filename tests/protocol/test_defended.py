"""Deployments expect malicious clients: which have a defence, what it stops, what a kill costs."""

import importlib

import numpy as np
import pytest

from helpers.battery import VARIANTS
from helpers.loopback import disk, plan, play
from psofed.attacks import constant
from psofed.curves import to_db
from psofed.defences import clip, median, none
from psofed.defences.contract import Ward
from psofed.deploy.samples import replay
from psofed.errors import InputError
from psofed.experiment import Features
from psofed.methods import centralised, fedavg, onlinefed, raw
from psofed.methods import psofed as pso
from psofed.protocol import coordinator as coordinators
from psofed.protocol import wire
from psofed.protocol.client import Member
from psofed.protocol.coordinator import Coordinator
from psofed.protocol.deployment import Deploy
from psofed.protocol.store import SELDOM, SLOTS

LIVE = Deploy(clock="live")
TEN = {"clients": 10, "cohort": 4, "features": Features(dim=50), "dtype": "float32"}
HUGE = constant.Options(value=9e8, share=0.1)


def test_a_live_deployment_has_a_defence_and_a_lockstep_one_does_as_its_file_says():
    assert plan(LIVE).defence == "Defence: clip"
    assert isinstance(Coordinator(plan(LIVE), disk()).server.guard.defence, clip.Defence)
    assert plan().defence == "Defence: none, the file has no table [defence]"
    assert Coordinator(plan(), disk()).server.guard is None
    assert plan(defence=clip.Options(3.0)).defence == "Defence: clip 3"


def test_a_file_or_a_method_without_a_fold_turns_it_off():
    off = plan(LIVE, defence=none.Options())
    assert off.defence == "Defence: none, as the file says"
    assert Coordinator(off, disk()).server.guard is None
    whole = plan(LIVE, methods=(centralised.Options(),))
    assert "the server of centralised has no fold that one could change" in whole.defence
    assert Coordinator(whole, disk()).server.guard is None


def test_a_live_server_may_change_its_defence_without_its_clients():
    assert plan(LIVE).digest == plan(LIVE, defence=none.Options()).digest
    assert plan().digest != plan(defence=clip.Options()).digest, "its simulation has one, too"


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_every_method_that_goes_live_goes_live_with_it(name):
    options = importlib.import_module(f"psofed.methods.{name}").Options()
    if options.simulated or options.not_live:
        pytest.skip("it does not")
    given = plan(LIVE, methods=(options,), features=Features(dim=40))
    server, members = Coordinator(given, disk()), [Member(given, k, disk()) for k in range(5)]
    sources = [replay(given.experiment, k) for k in range(5)]
    for n in range(6):
        for member, source in zip(members, sources, strict=True):
            member.client.learn(*source(8 * n, 8 * n + 8))
        play(server, members)
    counts = server.server.ledger.counts
    assert counts["asked"] == counts["accepted"]
    assert counts["asked"] >= 12 or name == "memofed", "which waits for more samples"
    assert np.isfinite(server.server.model).all()


def test_a_check_of_samples_does_not_change_what_the_defence_sees():
    assert plan(LIVE).method().entrywise
    assert plan().method().entrywise
    assert not plan(LIVE, methods=(raw.Options(),)).method().entrywise


def served(rounds, **changes):
    """A live run in memory, a sample for each client before each round: its server, its error."""
    given = plan(LIVE, **TEN, **changes)
    server = Coordinator(given, disk())
    members = [Member(given, k, disk()) for k in range(10)]
    sources = [replay(given.experiment, k) for k in range(10)]
    for n in range(rounds):
        for member, source in zip(members, sources, strict=True):
            member.client.learn(*source(n, n + 1))
        for k, frame in server.frames().items():
            answer, _ = members[k].take(frame)
            if answer is not None:
                server.take(k, answer)
        server.commit()
    task = given.method().task
    test = given.experiment.draw_test(task.seeds)
    return server, float(
        to_db(np.mean((task.features(test.x) @ server.server.model - test.y) ** 2))
    )


def test_one_of_ten_that_sends_9e8_is_found_and_does_no_harm():
    clean = served(300, defence=none.Options())[1]
    server, error = served(300, attack=HUGE)
    assert error < clean + 0.5
    (attacker,) = server.plan.method().task.attack.insiders.ids.tolist()
    opinion = server.server.guard.opinion()
    assert np.flatnonzero(opinion.quarantined).tolist() == [attacker]
    assert opinion.reason[attacker] == "its changes are at least 50 times the usual size"
    assert not any(reason for k, reason in enumerate(opinion.reason) if k != attacker)
    assert served(40, attack=HUGE, defence=none.Options())[1] > clean + 100


def test_nobody_gets_in_before_it_is_known_what_is_usual():
    defence = clip.Defence(clip.Options(), Ward(10, 10, 4, 4))
    state, k, entries = defence.start(), np.arange(4), np.broadcast_to(np.arange(4), (4, 4))
    silent = np.zeros((4, 4))
    alone = silent.copy()
    alone[2] = 9e8
    for n in range(100):
        assert not defence.defended(state, n, k, alone, entries).any()
    some = alone.copy()
    some[:2] = 0.1
    left = defence.defended(state, 100, k, some, entries)
    np.testing.assert_array_equal(left[:2], some[:2])
    assert np.abs(left[2]).max() <= 0.6 + 1e-12
    rng = np.random.default_rng(0)
    for n in range(101, 150):  # most have nothing new: those who have are heard all the same
        mostly = silent.copy()
        mostly[n % 2] = 0.1 * rng.standard_normal(4)
        left = defence.defended(state, n, k, mostly, entries)
        np.testing.assert_array_equal(left, mostly)


def upload(server, k, values):
    body = np.asarray(values, "<f8").tobytes()
    frame = wire.Frame(wire.UPLOAD, server.plan.digest, server.n, wire="float64", body=body)
    return server.take(k, wire.encode(frame))


@pytest.mark.parametrize("clock", ["lockstep", "live"])
@pytest.mark.parametrize("options", [pso.Options(shared=3), onlinefed.Options()])
def test_no_answers_together_end_a_server(clock, options):
    most = 1.7e308
    given = plan(Deploy(wire="float64", clock=clock, bound=most), cohort=5, methods=(options,))
    entries, folder = len(given.method().upload(given.method().client(0), 0, 0)), disk()
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
    assert left_out > 0
    assert ledger.reasons["together"] == ledger.refused.sum() == left_out
    counts = ledger.counts
    assert counts["asked"] == counts["accepted"] + counts["refused"] + counts["lost"] == 30
    assert counts["received"] == counts["accepted"] + counts["rejected"] == 30


def arrays_of(server):
    return {name: a.copy() for name, a in server.server.guard.state.items()}


def committed(server, rounds, rng):
    for _ in range(rounds):
        for k in list(server.missing):
            assert upload(server, k, rng.standard_normal(3)) == "accepted"
        server.commit()


def test_a_kill_costs_a_small_federation_nothing():
    given, folder, rng = (
        plan(Deploy(clock="live", wire="float64")),
        disk(),
        np.random.default_rng(0),
    )
    server = Coordinator(given, folder)
    committed(server, 70, rng)
    again = Coordinator(given, folder)
    for name, array in arrays_of(server).items():
        np.testing.assert_array_equal(again.server.guard.state[name], array)
    assert not any(slot in folder.files for slot in SELDOM)


def test_a_kill_costs_a_large_one_a_few_rounds_of_a_slow_memory_and_nothing_else():
    many = {"clients": 1000, "cohort": 4, "features": Features(dim=100)}
    given, folder, rng = (
        plan(Deploy(clock="live", wire="float64"), **many), disk(), np.random.default_rng(0),
    )  # fmt: skip
    server = Coordinator(given, folder)
    committed(server, coordinators.OFTEN, rng)
    then = arrays_of(server)["memory"]
    committed(server, 5, rng)
    assert max(len(folder.files[slot]) for slot in SLOTS) < 150_000 < then.nbytes
    again = Coordinator(given, folder)
    for name, array in arrays_of(server).items():
        wanted = then if name == "memory" else array
        np.testing.assert_array_equal(again.server.guard.state[name], wanted)
    assert then.any()


def test_another_defence_begins_anew():
    folder, rng = disk(), np.random.default_rng(0)
    wire64 = Deploy(clock="live", wire="float64")
    committed(Coordinator(plan(wire64), folder), 10, rng)
    other = plan(wire64, cohort=2, defence=none.Options())
    assert Coordinator(other, folder).n == 10
    back = Coordinator(plan(wire64), folder)
    assert back.n == 10
    assert not back.server.guard.state["contacts"].any(), "what it knew is gone with the record"
    assert np.isfinite(back.server.model).all()


def test_defences_that_do_not_fit_are_refused_as_before():
    with pytest.raises(InputError, match="whose members do not all send the same entries"):
        plan(LIVE, cohort=5, defence=median.Options())
    assert plan(LIVE, methods=(fedavg.Options(),)).defence == "Defence: clip"

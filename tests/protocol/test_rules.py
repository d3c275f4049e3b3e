"""Server and client as they are deployed, without a network: the rules of the protocol."""

import numpy as np
import pytest

from helpers.loopback import K, World, altered, disk, plan
from psofed.errors import InputError
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.client import Client
from psofed.fleet.protocol.deployment import Deploy
from psofed.fleet.protocol.member import Member
from psofed.fleet.protocol.server import Server
from psofed.methods import memofed, onlinefed, paofed, periodic, psofed
from psofed.rivals import raw
from psofed.rivals.policies import fedcs
from psofed.simulate import family
from psofed.simulate.draws import draw


@pytest.fixture
def world():
    return World()


def test_the_bytes_sent_are_those_the_simulator_counts_and_the_heads(world):
    closed, experiment = world.rounds(30), world.plan.experiment
    task = experiment.task(0, "float64")
    draws = draw(experiment, task, everybody=True)
    up, down, _ = family.traffic(draws, experiment.start(task), np.array([0, 30]))[:, 0].sum(axis=1)
    assert up == sum(each.up - 2 * wire.head(wire.UPLOAD) for each in closed)
    assert down == sum(each.down - 2 * wire.head(wire.INVITE) for each in closed)


def test_an_unknown_client_is_refused_by_the_server_and_told_so(world):
    with pytest.raises(InputError, match="--id is -1; use 0 to 4"):
        Member(world.plan, -1, disk())
    server, stranger = world.server, world.member(5)
    assert server.take(5, stranger.hello()) == "stranger"
    assert stranger.take(server.hello(5)) == (None, "welcome")
    assert stranger.standing == "not a member"
    data = wire.encode(wire.Frame(wire.UPLOAD, server._digest, 0, 0, "float64", bytes(24)))
    for k in (-1, 5, 10**6):
        assert server.take(k, data) == "stranger"


@pytest.mark.parametrize(("reason", "change"), [
    ("size", lambda f: f[:-1]),
    ("size", lambda f: f + b"\0"),
    ("size", lambda f: f[:5]),
    ("size", lambda f: b""),
    ("size", lambda f: f[:-8]),
    ("size", lambda f: bytes(10**6)),
    ("version", lambda f: bytes([f[0] ^ 0x30]) + f[1:]),
    ("kind", lambda f: altered(f, kind=wire.INVITE, body=bytes(21))),
    ("kind", lambda f: bytes([f[0] | 0x0C]) + f[1:]),
    ("type", lambda f: altered(f, wire="float32")),
    ("digest", lambda f: altered(f, digest=1)),
    ("early", lambda f: altered(f, n=1)),
    ("finite", lambda f: f[:-8] + np.float64(np.nan).tobytes()),
    ("finite", lambda f: f[:-8] + np.float64(-np.inf).tobytes()),
    ("bound", lambda f: f[:-8] + np.float64(1.7e308).tobytes()),
])  # fmt: skip
def test_a_refused_message_changes_nothing_and_the_round_goes_on(world, reason, change):
    server, (k, _, good) = world.server, world.first()
    before = server.server.state["w"].tobytes()
    assert server.take(k, change(good)) == reason
    assert server.server.state["w"].tobytes() == before
    assert server.missing == sorted(server.missing)
    assert k in server.missing
    assert server.take(k, good) == "accepted"
    assert server.take(k, good) == "repeated"
    assert server.take(k, good[:-8] + bytes(8)) == "conflict"
    server.commit()
    counts = world.balanced()
    assert (counts["asked"], counts["received"]) == (2, 4)


def test_a_round_nobody_answers_leaves_the_model_and_counts_them_all_lost(world):
    server = world.server
    for _ in range(3):
        server.commit()
    assert not server.server.state["w"].any()
    assert server.server.ledger.counts["lost"] == 6
    assert server.commit().gap == 4


def test_order_of_arrival_does_not_matter():
    given = plan(cohort=5)
    rows = np.random.default_rng(0).normal(size=(5, 3))
    found = set()
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1], [3, 4, 0, 1, 2]):
        server = Server(given.method())
        for k in order:
            server.collect(k, 0, server.method.encode(rows[k], up=True))
        server.commit()
        found.add(server.state["w"].tobytes())
    assert len(found) == 1


@pytest.mark.parametrize(("options", "wait"), [
    (psofed.Options(shared=3), False), (psofed.Options(shared=5), True),
    (psofed.Options(shared=3, idle=False), True), (periodic.Options(shared=3), False),
    (paofed.Options(shared=3), False), (paofed.Options(shared=3, window="same"), True),
    (onlinefed.Options(), True),
])  # fmt: skip
def test_samples_wait_where_a_download_overwrites_what_was_learned(options, wait):
    assert Client(plan(methods=(options,)).method(), 0).waits == wait


def test_a_file_with_many_methods_must_say_which():
    two = (psofed.Options(shared=3), psofed.Options(shared=2))
    with pytest.raises(InputError, match=r"methods has 2 tables.*method = 0 to 1"):
        plan(methods=two)
    assert plan(Deploy(method=1), methods=two).method().shared == 2
    with pytest.raises(InputError, match=r"deploy.method is 2"):
        plan(Deploy(method=2), methods=two)


@pytest.mark.parametrize("run", ["", "a/b", "a+b", "é", "x" * 41])
def test_a_run_name_must_fit_a_topic(run):
    with pytest.raises(InputError, match="run is"):
        Deploy(run=run)


def test_memofed_bears_lost_answers_and_restarts():
    world = World(methods=(memofed.Options(budget=None, size=8, silent=2),), rounds=60)
    for n in range(60):
        world.start()
        for k, frame in world.server.frames().items():
            answer, what = world.member(k).take(frame)
            assert what == "answered"
            if (n + k) % 3:
                assert world.server.take(k, answer) == "accepted"
        world.server.commit()
    state = world.server.server.state
    for k in range(K):
        r = world.member(k).client.state
        last = "old_r" if r["contacts"][0] > state["contacts"][k] else "r"
        assert np.array_equal(r[last][0], state["r"][k])
    assert np.isfinite(world.members[0].client.predict(np.ones(4)))


def test_a_client_without_a_model_says_so_and_policies_are_refused_at_both_ends():
    given = plan(Deploy(clock="live"), methods=(raw.Options(),))
    with pytest.raises(ValueError, match="have no model"):
        Member(given, 0, disk()).client.predict(np.ones(4))
    with pytest.raises(InputError, match="policy is fedcs"):
        plan(methods=(psofed.Options(shared=3, policy=fedcs.Options()),))

"""Server and client as they are deployed, without a network: the rules of the protocol."""

import numpy as np
import pytest

from helpers.battery import METHODS
from helpers.loopback import K, disk, plan, play
from psofed.deploy.samples import replay
from psofed.errors import InputError
from psofed.methods import memofed, psofed, raw
from psofed.policies import fedcs
from psofed.protocol import in_memory, wire
from psofed.protocol.client import Member
from psofed.protocol.coordinator import Coordinator
from psofed.protocol.deployment import Deploy
from psofed.protocol.server import Server
from psofed.protocol.store import StateFolder
from psofed.simulate import family
from psofed.simulate.draws import draw
from psofed.verify.twin import simulate


@pytest.fixture
def world(tmp_path):
    """A coordinator and its members; `start` (again) any of them by name."""

    class World:
        def __init__(self):
            self.plan, self.folders = plan(), {}
            self.server = None

        def start(self, k=None, given=None):
            given = given or self.plan
            if k in self.folders:
                self.folders.pop(k).close()
            self.folders[k] = StateFolder(tmp_path / str(k))
            if k is None:
                self.server = Coordinator(given, self.folders[k])
                return self.server
            return Member(given, k, self.folders[k], replay(given.experiment, k))

    made = World()
    yield made
    for folder in made.folders.values():
        folder.close()


def test_a_lockstep_deployment_equals_the_engine(world):
    server, members = world.start(), [world.start(k) for k in range(K)]
    for n in range(30):
        closed = play(server, members)
        assert (closed.n, closed.accepted, closed.missing) == (n, 2, ())
        assert closed.up == 2 * wire.size(wire.UPLOAD, 3 * 8) == 66
        assert closed.down == 2 * wire.size(wire.INVITE, 3 * 8) == 72
        if n % 7 == 1:
            w, _ = simulate(world.plan, n + 1)
            assert np.abs(server.server.state["w"] - w).max() <= 1e-12
    _, local = simulate(world.plan, 30)
    for member in members:
        member.client.catch_up(30)
        assert np.abs(member.client.state["w"] - local[member.k]).max() <= 1e-12


def test_the_bytes_sent_are_those_the_simulator_counts_and_the_heads(world):
    server, members = world.start(), [world.start(k) for k in range(K)]
    closed = [play(server, members) for _ in range(30)]
    experiment = world.plan.experiment
    task = experiment.task(0, "float64")
    draws = draw(experiment, task, everybody=True)
    up, down, _ = family.traffic(draws, experiment.start(task), np.array([0, 30]))[:, 0].sum(axis=1)
    assert up == sum(each.up - 2 * wire.head(wire.UPLOAD) for each in closed)
    assert down == sum(each.down - 2 * wire.head(wire.INVITE) for each in closed)


def test_everybody_restarting_in_every_round_changes_nothing(world):
    w, _ = simulate(world.plan, 15)
    for _ in range(15):
        server, members = world.start(), [world.start(k) for k in range(K)]
        half = next(iter(server.frames().items()))
        members[half[0]].take(half[1])  # answered, but the answer is lost with the server
        play(world.start(), [world.start(k) for k in range(K)])
    assert np.abs(world.server.server.state["w"] - w).max() <= 1e-12
    assert world.server.incarnation == 30


def test_a_client_that_is_asked_again_after_a_restart_sends_the_same_bytes(world):
    server = world.start()
    k, frame = next(iter(server.frames().items()))
    first, what = world.start(k).take(frame)
    again, said = world.start(k).take(frame)
    assert (what, said) == ("answered", "repeated")
    assert first == again


def test_clients_refuse_a_server_that_was_replaced(world):
    old = next(iter(world.start().frames().items()))
    new = next(iter(world.start().frames().items()))
    member = world.start(old[0])
    assert member.take(new[1])[1] == "answered"
    answer, why = member.take(old[1])
    assert answer is None
    assert "server start 1 was replaced by 2" in why
    member = world.start(old[0])
    assert member.take(old[1])[0] is None, "it remembers after a restart"


def test_a_second_server_on_the_same_folder_does_not_start(world, tmp_path):
    world.start()
    with pytest.raises(InputError, match="in use"):
        StateFolder(tmp_path / "None")


def test_another_experiment_is_refused_at_both_ends(world):
    server = world.start()
    k, frame = next(iter(server.frames().items()))
    other = world.start(k, plan(seed=3))
    answer, why = other.take(frame)
    assert answer is None
    assert "another experiment" in why
    assert server.take(k, other.hello()) == "digest"
    assert server.server.ledger.reasons["digest"] == 1


def test_an_unknown_client_is_refused_by_the_server_and_told_so(world):
    with pytest.raises(InputError, match="--id is -1; use 0 to 4"):
        world.start(-1)
    server, stranger = world.start(), world.start(5)
    assert server.take(5, stranger.hello()) == "stranger"
    assert stranger.take(server.hello(5)) == (None, "welcome")
    assert stranger.standing == "no member"
    data = wire.encode(wire.Frame(wire.UPLOAD, server._digest, 0, 0, "float64", bytes(24)))
    for k in (-1, 5, 10**6):
        assert server.take(k, data) == "stranger"


def changed(frame, **changes):
    return wire.encode(wire.Frame(**vars(wire.decode(frame, 1000)) | changes))


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("size", lambda f: f[:-1]),
        ("size", lambda f: f + b"\0"),
        ("size", lambda f: f[:5]),
        ("size", lambda f: b""),
        ("size", lambda f: f[:-8]),
        ("size", lambda f: bytes(10**6)),
        ("version", lambda f: bytes([f[0] ^ 0x30]) + f[1:]),
        ("kind", lambda f: changed(f, kind=wire.INVITE, body=bytes(21))),
        ("kind", lambda f: bytes([f[0] | 0x0C]) + f[1:]),
        ("type", lambda f: changed(f, wire="float32")),
        ("digest", lambda f: changed(f, digest=1)),
        ("early", lambda f: changed(f, n=1)),
        ("finite", lambda f: f[:-8] + np.float64(np.nan).tobytes()),
        ("finite", lambda f: f[:-8] + np.float64(-np.inf).tobytes()),
        ("bound", lambda f: f[:-8] + np.float64(1.7e308).tobytes()),
    ],
)
def test_a_refused_message_changes_nothing_and_the_round_goes_on(world, reason, change):
    server = world.start()
    k, frame = next(iter(server.frames().items()))
    good, _ = world.start(k).take(frame)
    before = server.server.state["w"].tobytes()
    assert server.take(k, change(good)) == reason
    assert server.server.state["w"].tobytes() == before
    assert server.missing == sorted(server.missing)
    assert k in server.missing
    assert server.take(k, good) == "accepted"
    assert server.take(k, good) == "repeated"
    ledger = server.server.ledger
    server.commit()
    counts = ledger.counts
    assert counts["asked"] == counts["accepted"] + counts["refused"] + counts["lost"] == 2
    assert counts["received"] == counts["accepted"] + counts["repeated"] + counts["rejected"] == 3


def test_a_late_answer_moves_from_lost_to_refused(world):
    server = world.start()
    (a, frame), (b, _) = server.frames().items()
    late, _ = world.start(a).take(frame)
    assert server.commit().missing == (a, b)
    assert server.server.ledger.counts["lost"] == 2
    for _ in range(2):
        assert server.take(a, late) == "late"
    counts = server.server.ledger.counts
    assert (counts["lost"], counts["refused"], counts["rejected"]) == (1, 1, 2)


def test_the_divisor_is_the_number_that_answered(world):
    server = world.start()
    k, frame = next(iter(server.frames().items()))
    answer, _ = world.start(k).take(frame)
    server.take(k, answer)
    server.commit()
    values = np.frombuffer(answer[9:], "<f8")
    entries = server.server.method.schedule.entries(k, 1)
    assert np.array_equal(server.server.state["w"][entries], values)


def test_different_bytes_for_the_same_round_are_flagged(world):
    server = world.start()
    k, frame = next(iter(server.frames().items()))
    answer, _ = world.start(k).take(frame)
    server.take(k, answer)
    assert server.take(k, changed(answer, body=bytes(24))) == "conflict"
    assert server.server.ledger.flagged[k] == 1


def test_a_round_nobody_answers_leaves_the_model_and_counts_them_all_lost(world):
    server = world.start()
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


def test_a_live_client_learns_at_once_and_takes_part_with_what_it_has(tmp_path):
    given = plan(Deploy(clock="live", wire="float64"))
    member = Member(given, 0, StateFolder(tmp_path / "c"))
    x, y = replay(given.experiment, 0)(0, 100)
    member.client.learn(x, y)
    assert member.client.position == 100
    before = member.client.predict(x[:3])
    server = Coordinator(given, StateFolder(tmp_path / "s"))
    while 0 not in server.missing:
        server.commit()
    answer, what = member.take(server.frames()[0])
    assert what == "answered"
    assert server.take(0, answer) == "accepted"
    assert not np.array_equal(member.client.predict(x[:3]), before)
    assert member.client.position == 100
    member.store.disk.close()
    again = Member(given, 0, StateFolder(tmp_path / "c"))
    assert again.client.position == 100


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


@pytest.mark.parametrize("options", METHODS, ids=lambda o: f"{o.name}-{o.title()}")
def test_every_method_is_refused_at_the_start_or_runs_as_its_messages_do(options):
    if options.name in ("asofed", "local", "pdlms", "pdrls"):
        with pytest.raises(InputError, match=f"method is {options.name}, which cannot be deployed"):
            plan(methods=(options,))
        return
    given = plan(methods=(options,))
    server = Coordinator(given, disk())
    streams = [replay(given.experiment, k) for k in range(K)]
    members = [Member(given, k, disk(), streams[k]) for k in range(K)]
    for _ in range(12):
        play(server, members)
    x, y = (np.stack(each) for each in zip(*(stream(0, 12) for stream in streams), strict=True))
    expected = in_memory.run(plan(methods=(options,)).method(), x, y).models[-1]
    assert np.abs(server.server.model - expected).max() <= 1e-12
    assert expected.shape == (10,)


def test_memofed_bears_lost_answers_and_restarts(tmp_path):
    options = memofed.Options(budget=None, size=8, silent=2)
    given = plan(methods=(options,), rounds=60)
    disks = [disk() for _ in range(K + 1)]
    for n in range(60):
        server = Coordinator(given, disks[K])
        for k, frame in server.frames().items():
            member = Member(given, k, disks[k], replay(given.experiment, k))
            answer, what = member.take(frame)
            assert what == "answered"
            if (n + k) % 3:
                assert server.take(k, answer) == "accepted"
        server.commit()
    state, r = server.server.state, [Member(given, k, disks[k]).client.state for k in range(K)]
    for k in range(K):
        last = "old_r" if r[k]["contacts"] > state["contacts"][k] else "r"
        assert np.array_equal(r[k][last], state["r"][k])
    assert np.isfinite(Member(given, 0, disks[0]).client.predict(np.ones(4)))


def test_a_client_without_a_model_says_so_and_policies_are_refused_at_both_ends():
    given = plan(Deploy(clock="live"), methods=(raw.Options(),))
    with pytest.raises(ValueError, match="have no model"):
        Member(given, 0, disk()).client.predict(np.ones(4))
    with pytest.raises(InputError, match="policy is fedcs"):
        plan(methods=(psofed.Options(shared=3, policy=fedcs.Options()),))

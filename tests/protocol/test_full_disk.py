"""Rules 5 and 6 on a disk that is full: nothing is said that could be forgotten, nothing twice."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.full_disk import FullDisk
from helpers.loopback import K, World, plan, play
from psofed.cli.laws.executors import simulate
from psofed.errors import InputError
from psofed.fleet.protocol import store
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.history import LOG, changes
from psofed.fleet.requests import Requests

RECORD, PLAN = 7, 3  # steps that can fail: writes, and before or after a sync or rename


def full(who, **changes):
    """A world in which one has a disk that can be full, and that disk."""
    disk = FullDisk()
    return World(disks={who: disk}, **changes), disk


def unbroken(given):
    """The server of the same plan after eight rounds, none of which met a full disk."""
    world = World(given=given)
    world.rounds(8)
    return world.server


def ready():
    """A server whose round 3 can be committed, and its clients; a snapshot will be due then."""
    world, disk = full(-1)
    world.server.snapshots.every, world.server.snapshots.most = 2, 2
    world.rounds(3)
    world.answer()
    return world.server, world.members, disk


def steps(work):
    """How many steps of the disk can fail in what `work` does."""
    server, _, disk = ready()
    before = disk.steps
    work(server)
    return disk.steps - before


def assert_as_unbroken(server, members):
    while server.n < 8:
        play(server, members)
    wanted = unbroken(server.plan)
    found = server.server.now.to_arrays()
    assert found.keys() == wanted.server.now.to_arrays().keys()
    for name, array in wanted.server.now.to_arrays().items():
        assert np.array_equal(found[name], array), name
    assert np.array_equal(server.traffic, wanted.traffic)


@pytest.mark.parametrize("times", [1, 3])
def test_a_commit_that_the_disk_refuses_is_held_and_folded_once(times):
    for first in range(steps(Coordinator.commit)):
        server, members, disk = ready()
        disk.fail(first, 1 if times == 1 else 10**9)
        for _ in range(times):
            with pytest.raises(OSError, match="No space"):
                server.commit()
            assert server.n == 3
            assert (server.missing, server.frames(), server.frame_for(0)) == ([], {}, None)
            assert server.take(0, members[0].hello()) in ("hello", "ahead")
        disk.mend()
        assert server.commit().n == 3
        assert_as_unbroken(server, members)
        again = Coordinator(server.plan, disk)
        assert (again.n, again.incarnation) == (8, 2)


ACTS = {
    "exclude": lambda server: server.change("exclude", [1, 2]),
    "add": lambda server: server.change("add", [K, K + 1]),
    "restore": lambda server: server.put_back(2, keep=True),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_change_of_the_fleet_that_the_disk_refuses_has_not_happened(act):
    refused = 0
    for first in range(steps(ACTS[act])):
        server, members, disk = ready()
        frames = server.server.invite()
        disk.fail(first)
        try:
            ACTS[act](server)
        except OSError:
            refused += 1
        else:
            continue  # it was only model.npy, which the next commit writes
        disk.mend()
        assert server.server.invite() == frames
        server.commit()
        assert_as_unbroken(server, members)
        again = Coordinator(server.plan, disk)
        assert (again.n, again.log.count) == (8, 0)
        before = again.server.table.changes
        ACTS[act](again) if act != "restore" else again.put_back(again.snapshots.rounds()[-1])
        logged = changes(disk.read(LOG), again.log.count, "state")
        assert len(logged) == (2 if act != "restore" else 1)
        assert again.server.table.changes > before or act == "restore"
    assert refused >= RECORD


def test_no_change_is_made_while_a_round_is_held():
    server, _, disk = ready()
    disk.fail(0)
    with pytest.raises(OSError, match="No space"):
        server.commit()
    with pytest.raises(InputError, match="state cannot be written: round 3 is held; nothing was"):
        server.change("exclude", [1])


def test_an_operator_whose_request_the_disk_refuses_is_told_that_nothing_was_changed(tmp_path):
    server, _, disk = ready()
    (tmp_path / "request.1").write_text('{"act": "exclude", "clients": [1]}')
    disk.fail(0)
    assert Requests(server, tmp_path).look(lambda line: None) is None
    told = json.loads((tmp_path / "reply.1").read_text())["error"]
    assert "state/new: No space left on device" in told[1]
    assert told[2].startswith("nothing was changed")
    assert server.is_member(1)


@pytest.mark.parametrize("first", range(RECORD))
@pytest.mark.parametrize("killed", [False, True])
def test_an_answer_that_is_not_durable_does_not_leave_and_is_the_same_later(first, killed):
    world, disk = full(0, cohort=K)
    world.rounds(3)
    member, frame = world.members[0], world.server.frames()[0]
    disk.fail(first)
    before = member.client.position
    assert member.take(frame) == member.take(frame) == (None, "held")
    assert member.trouble == "state/new: No space left on device"
    assert member.client.position == before + 1, "it learns on"
    assert member.refused == {}
    disk.mend()
    if killed:
        disk.crash()
        member = world.member(0)
    else:
        assert member.save()
        assert member.trouble == ""
    answer, what = member.take(frame)
    assert what in ("answered", "repeated")
    assert world.server.take(0, answer) == "accepted"
    world.rounds(5)
    assert np.array_equal(world.model, unbroken(world.plan).server.model)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), max_size=6), st.integers(0, 9))
def test_the_loops_go_on_by_themselves_and_end_as_the_simulation(faults, where):
    """Any disk is full at any step for any time, and is mended while the loops wait for it."""
    disks = [FullDisk() for _ in range(K + 1)]
    world = World(cohort=3, disks=enumerate(disks, -1))
    with pytest.MonkeyPatch.context() as patch:
        for module in ("server_loop", "client_loop"):
            patch.setattr(f"psofed.fleet.{module}.RETRY", 0.001)
        server = world.loop()

        def tick():  # while the server waits, time passes for the devices, too
            for device in world.devices.values():
                if device.member.trouble:
                    device._save()

        server.on_tick = tick
        for i, (first, count) in enumerate(faults):
            disks[(where + i) % (K + 1)].fail(first, count)
        server.run(12)
    w, local = simulate(world.plan, 12)
    assert np.abs(world.model - w).max() <= 1e-12
    for k, member in world.members.items():
        member.client.catch_up(12)
        assert np.abs(member.client.state["w"] - local[k]).max() <= 1e-12
    counts = world.balanced()
    assert counts["accepted"] == counts["asked"] == 36


def test_a_client_says_once_that_its_disk_is_full_and_when_it_is_not():
    (world, disk), said = full(0, cohort=K), []
    server, device = world.loop(), world.devices[0]
    device.on_news = said.append
    disk.fail(0)
    server._ask()
    server._ask()
    device._save()
    assert said == ["state/new: No space left on device: still learning, but no answer leaves;"
                    " trying again"]  # fmt: skip
    assert server.coordinator.missing == [0]
    disk.mend()
    device._save()
    server._ask()
    assert said[1:] == ["state can be written again"]
    assert server.coordinator.complete


def test_a_client_that_ends_with_a_full_disk_says_what_is_lost():
    world, disk = full(0)
    world.loop()
    device = world.devices[0]
    disk.fail(0)
    device._save()
    device.stop()
    with pytest.raises(InputError, match=r"state cannot be written \(state/new: No space.*lost"):
        device.run()


def test_a_server_that_is_stopped_while_a_round_is_held_ends():
    world, disk = full(-1)
    server = world.loop()
    disk.fail(0)
    server.on_tick = server.stop
    server.run(5)
    assert server.coordinator.n == 0
    assert "No space left" in server.status.disk
    assert "disk" in server.alarms.on
    assert server.status.asked_at is None


@pytest.mark.parametrize("first", range(RECORD + PLAN))
def test_a_start_that_cannot_be_recorded_is_refused(first):
    disk = FullDisk()
    disk.fail(first)
    refused = pytest.raises(InputError, match=r"state/new cannot be written: No space.*; repair")
    with refused, store.starting(disk):
        Coordinator(plan(), disk)
        plan().keep(disk)

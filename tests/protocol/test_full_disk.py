"""Rules 5 and 6 on a disk that is full: nothing is said that could be forgotten, nothing twice."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.full_disk import FullDisk
from helpers.loopback import K, World, plan
from psofed.cli.laws.executors import simulate
from psofed.errors import InputError
from psofed.fleet.protocol import store
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.history import LOG, changes
from psofed.fleet.requests import Requests

STEPS = 10  # of a start that can fail: writes, and before or after a sync or rename


def full(who, **changes):
    """A world in which one has a disk that can be full, and that disk."""
    disk = FullDisk()
    return World(disks={who: disk}, **changes), disk


def ready():
    """A server whose round 3 can be committed, and its disk."""
    world, disk = full(-1)
    world.rounds(3)
    world.answer()
    return world.server, disk


ACTS = {
    "exclude": lambda server: server.change("exclude", [1, 2]),
    "add": lambda server: server.change("add", [K, K + 1]),
    "restore": lambda server: server.put_back(server.snapshots.rounds()[-1]),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_change_of_the_fleet_that_the_disk_refuses_has_not_happened(act):
    for first in range(STEPS):
        server, disk = ready()
        frames = server.server.invite()
        disk.fail(first)
        try:
            ACTS[act](server)
        except OSError:
            disk.repair()
        else:
            break  # of the steps only those of model.npy are left, which the next commit writes
        assert server.server.invite() == frames
        server.commit()
        assert (server.n, server.log.count) == (4, 0)
        ACTS[act](server)
        logged = changes(disk.read(LOG), server.log.count, "state")
        assert len(logged) == (1 if act == "restore" else 2) == disk.read(LOG).count(b"\n")
        assert Coordinator(server.plan, disk).n == server.n
    assert first >= 7


def test_no_change_is_made_while_a_round_is_held():
    server, disk = ready()
    disk.fail(0)
    with pytest.raises(OSError, match="No space"):
        server.commit()
    with pytest.raises(InputError, match="state cannot be written: round 3 is held; nothing was"):
        server.change("exclude", [1])


def test_an_operator_whose_request_the_disk_refuses_is_told_that_nothing_was_changed(tmp_path):
    server, disk = ready()
    (tmp_path / "request.1").write_text('{"act": "exclude", "clients": [1]}')
    disk.fail(0)
    assert Requests(server, tmp_path).look(lambda line: None) is None
    told = json.loads((tmp_path / "reply.1").read_text())["error"]
    assert "state/new: No space left on device" in told[1]
    assert told[2].startswith("nothing was changed")
    assert server.is_member(1)


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
    assert said == ["Warning: state/new: No space left on device: still learning, but no answer"
                    " leaves; trying again"]  # fmt: skip
    assert server.coordinator.missing == [0]
    disk.repair()
    device._save()
    server._ask()
    assert said[1:] == ["state can be written again"]
    assert not server.coordinator.server.missing


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


@pytest.mark.parametrize("first", range(STEPS))
def test_a_start_that_cannot_be_recorded_is_refused(first):
    disk = FullDisk()
    disk.fail(first)
    refused = pytest.raises(InputError, match=r"state/new cannot be written: No space.*; repair")
    with refused, store.starting(disk):
        Coordinator(plan(), disk)
        plan().keep(disk)

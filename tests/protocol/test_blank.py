"""A client that has lost its state: a newcomer again, loudly; and nobody else becomes one."""

import numpy as np
import pytest

from helpers.loopback import K, World, disk, plan
from psofed.errors import InputError
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.deployment import Deploy
from psofed.fleet.protocol.member import Member
from psofed.fleet.protocol.store import StateFolder

LIVE = Deploy(clock="live", wire="float64")


def played(**changes):
    """A fleet that has learned for a while, and what each client said at first."""
    world = World(**{"deploy": LIVE, "cohort": K} | changes)
    first = {k: member.hello() for k, member in world.members.items()}
    for n in range(8):
        world.learn(n, 8) if world.plan.deploy.live else None
        world.rounds()
    return world, first


def test_who_has_lost_its_state_gets_the_whole_model_and_is_named(tmp_path):
    world, _ = played()
    loop, said = world.loop(), []
    loop.on_news = said.append
    for k in (1, 3):
        world.disks[k] = disk()
        loop.coordinator.take(k, world.member(k).hello())
        loop.coordinator.take(k, world.member(k).hello())
    loop._handle(None)
    assert said[0] == "Warning: without state: clients 1, 3"
    assert "Alarm (blank): clients 1, 3 came without the state" in said[1]
    model, frames = world.model.copy(), world.server.frames()
    kinds = {k: wire.decode(frame, 1000).kind for k, frame in frames.items()}
    assert kinds == dict.fromkeys(range(K), wire.INVITE) | {1: wire.BEGIN, 3: wire.BEGIN}
    world.answer()
    world.server.commit()
    np.testing.assert_array_equal(world.members[1].client.state["w"][0], model)
    assert wire.decode(world.server.frames()[1], 1000).kind == wire.INVITE
    assert world.server.blanks.total() == 2


@pytest.mark.parametrize("when", range(3))
def test_an_old_hello_makes_nobody_forget_anything(when):
    """Replayed to all before a round is asked, while it is asked, and after it was answered."""
    (calm, _), (world, first) = played(), played()
    for n in range(8, 12):
        calm.learn(n, 8)
        calm.rounds()
        world.learn(n, 8)
        server = world.server
        if when != 2:
            if when == 1:
                server.frames()
            assert {server.take(k, old) for k, old in first.items()} == {"hello"}
        for k, frame in server.frames().items():
            answer, what = world.members[k].take(frame)
            if when != 2:
                assert what == "probed"
                assert server.take(k, answer) == "hello"
                answer, what = world.members[k].take(server.frame_for(k))
            assert (what, server.take(k, answer)) == ("answered", "accepted")
            if when == 2:
                server.take(k, first[k])
                assert world.members[k].take(frame)[1] == "repeated"
                server.take(k, world.members[k].hello())
        server.commit()
    for k, member in world.members.items():
        for name, array in calm.members[k].client.state.items():
            np.testing.assert_array_equal(member.client.state[name], array)
    np.testing.assert_array_equal(world.model, calm.model)
    assert not world.server.blanks.total()
    assert min(world.server.doubles.values()) > 1, "two seem to have one number: an alarm"


def test_in_lockstep_a_lost_state_is_told_and_the_twin_is_left_alone():
    world, _ = played(deploy=Deploy(wire="float64"))
    world.disks[0] = disk()
    world.server.take(0, world.member(0).hello())
    assert world.server.blanks == {0: 1}
    assert wire.decode(world.server.frames()[0], 1000).kind == wire.INVITE


def test_a_folder_without_a_whole_record_is_put_aside_if_its_owner_wants_that(tmp_path):
    for save in (True, True, False):
        folder = StateFolder(tmp_path)
        member = Member(plan(LIVE), 0, folder)
        member.client.learn(np.ones((1, 4)), np.ones(1))
        assert not save or member.save()
        folder.close()
    for name in ("record.0", "record.1"):
        (tmp_path / name).write_bytes(b"psofed 1 nonsense")
    folder = StateFolder(tmp_path)
    with pytest.raises(InputError, match=r"0 is damaged.*1 is.*on_damage=restart") as refused:
        Member(plan(LIVE), 0, folder)
    assert refused.value.code == 3
    member = Member(plan(Deploy(clock="live", on_damage="restart")), 0, folder)
    assert "starting over, they are kept as damaged.record" in member.store.notes[0]
    assert (tmp_path / "damaged.record.1").read_bytes() == b"psofed 1 nonsense"
    assert member.client.last_round == -1
    assert member.save()
    folder.close()


@pytest.mark.parametrize("late", [False, True])
def test_who_is_asked_before_the_server_knows_that_its_state_is_lost_says_so_in_its_answer(late):
    """Wiped while the server is off: an ordinary invitation is the first that it hears."""
    world, _ = played()
    model = world.model.copy()
    world.start()
    world.disks[1] = disk()
    frames = world.server.frames()
    assert wire.decode(frames[1], 1000).kind == wire.INVITE
    answer, _ = world.member(1).take(frames[1])
    if late:
        world.server.commit()
    assert world.server.take(1, answer) == "hello"
    assert world.server.take(1, world.members[1].take(frames[1])[0]) == "hello", "it is repeated"
    assert world.server.blanks == {1: 1}
    begin = world.server.frames()[1]
    assert wire.decode(begin, 1000).kind == wire.BEGIN
    answer, what = world.members[1].take(begin)
    assert (what, world.members[1].take(begin)) == ("answered", (answer, "repeated"))
    np.testing.assert_array_equal(world.members[1].client.state["w"][0], model)
    world.rounds(3)
    assert (world.server.blanks.total(), world.server.doubles.total()) == (1, 0)


def test_the_first_answer_of_all_that_comes_twice_or_late_is_of_nobody_who_has_lost_a_state():
    world = World(deploy=LIVE, cohort=K)
    frames = world.server.frames()
    first = {k: world.members[k].take(frame)[0] for k, frame in frames.items()}
    for said in ("accepted", "repeated"):
        assert {world.server.take(k, answer) for k, answer in first.items()} == {said}
    for _ in range(2):
        world.server.commit()
        assert {world.server.take(k, answer) for k, answer in first.items()} == {"late"}
        world.answer()
    assert not world.server.blanks

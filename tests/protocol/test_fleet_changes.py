"""A fleet that changes: who joins, leaves and returns, as server and clients handle it."""

from functools import partial

import numpy as np
import pytest

from helpers.loopback import World as Fleet
from psofed.errors import InputError
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.members import EXCLUDED, MemberTable
from psofed.methods import memofed, psofed

LAST = "code last"
World = partial(Fleet, rounds=300)


def test_the_rows_of_those_who_were_removed_are_used_again():
    world = World()
    for k in range(5, 60):
        world.server.change("add", [k])
        world.member(k)
        world.rounds(2)
        world.server.change("remove", [k - 5])
    assert len(world.table) <= 8
    assert world.table.next == 60
    assert len(world.server.server.ledger.accepted) == len(world.table)
    world.balanced()


def test_a_method_that_counts_rounds_refuses_changes():
    world = World(methods=(memofed.Options(),))
    with pytest.raises(InputError, match="cannot change with memofed"):
        world.server.change("add", [5])


def test_what_was_tried_in_a_round_that_is_void_is_not_held_against_anybody():
    world = World()
    world.server.snapshots.every = 4
    world.rounds(5)
    for k in world.members:
        early = wire.Frame(wire.UPLOAD, world.server._digest, 99, wire="float64", body=bytes(24))
        assert world.server.take(k, wire.encode(early)) == "early"
    world.server.put_back(4)
    world.server.commit()
    counts = world.server.server.ledger.counts
    assert (counts["refused"], counts["lost"]) == (0, 2)


def test_of_a_client_that_was_removed_nothing_is_remembered():
    world = World()
    late = wire.Frame(wire.UPLOAD, world.server._digest, 0, wire="float64", body=bytes(24))
    world.rounds(1)
    assert world.server.take(0, wire.encode(late)) == "late"  # it has never said hello
    assert world.server.take(1, world.members[1].hello()) == "hello"
    world.server.change("remove", [0, 1])
    world.rounds(1)
    world.server.change("add", [5, 6])
    tables = [table for table in vars(world.server).values() if isinstance(table, dict)]
    assert not any(k in table for table in tables for k in (0, 1))


def test_an_operation_that_cannot_be_done_as_a_whole_has_changed_nothing():
    world = World()
    world.server.snapshots.every = 4
    world.rounds(9)
    files = world.disks[-1]
    files.write("snapshot.12", files.read("snapshot.8"))  # of a newer server than this one
    before, frames = world.server.server.now.to_arrays(), world.server.frames()
    with pytest.raises(InputError, match="restore is 12, but that round was not reached"):
        world.server.put_back(12)
    after = world.server.server.now.to_arrays()
    assert before.keys() == after.keys()
    assert all((before[name] == after[name]).all() for name in before)
    assert world.server.frames() == frames
    world.rounds(3)


def test_a_question_that_a_removed_client_slept_through_is_not_counted_for_who_gets_its_row():
    world = World()
    world.rounds(3)
    gone = world.server.missing[0]
    world.server.sleep([gone])
    world.server.change("remove", [gone])
    world.server.change("add", [5])
    world.member(5)
    world.answer()
    closed, server = world.server.commit(), world.server.server
    assert closed.missing == (gone,)
    assert server.ledger.lost[server.table.row(5)] == 0
    assert server.ledger.counts["lost"] == 1
    world.server.change("add", [6])  # now its row is free
    assert len(server.table) == 6
    assert gone not in server.table


def test_who_was_excluded_in_a_block_that_is_still_open_is_readmitted_after_it():
    table = MemberTable(2)
    table.leave(0, EXCLUDED, 5)
    with pytest.raises(InputError, match="0 was excluded in rounds that are still open; try again"):
        table.readmit(0, since=8, block=4)
    assert table.readmit(0, since=8, block=8) == 0


def test_the_only_client_that_is_awake_can_be_excluded():
    world = World()
    world.rounds(3)
    world.server.sleep([1, 2, 3, 4])
    world.server.change("exclude", [0])
    assert set(world.server.missing) < {1, 2, 3, 4}
    with pytest.raises(InputError, match="client 4 is the last member"):
        world.server.change("exclude", [1, 2, 3, 4])


def same_memories(world):
    """Whether server and clients agree on what travelled last, where members have begun."""
    server = world.server.server
    rows = {k: row for k in world.members if server.table.begun[row := server.table.row(k)]}
    return [
        np.array_equal(server.state[LAST][row], world.members[k].client.state[LAST][0])
        for k, row in rows.items()
    ]


def test_after_an_old_copy_who_has_answered_its_open_round_begins_anew_all_the_same():
    world = World(methods=(psofed.Options(shared=3, wire="4 bit"),))
    world.rounds(10)
    copy = dict(world.disks[-1].files)
    world.rounds(1)
    world.disks[-1].files = copy
    world.start().revive()
    world.start()
    world.rounds(8)
    assert len(same_memories(world)) > 2
    assert all(same_memories(world))


def test_clients_that_send_differences_cannot_keep_them_at_a_restore():
    world = World(methods=(psofed.Options(shared=3, wire="4 bit"),))
    world.rounds(10)
    k, _, answer = world.first()
    world.server.take(k, answer)
    with pytest.raises(InputError, match="--keep-clients is not possible with psofed"):
        world.server.put_back(1, keep=True)
    world.server.put_back(1)
    world.rounds(8)
    assert all(same_memories(world))


def test_when_all_numbers_have_been_used_that_is_what_is_said():
    world = World()
    world.server.change("add", [2**31 - 1])
    with pytest.raises(InputError, match="all numbers have been used"):
        world.server.change("add", [2**31])

"""Rule 7: no invitation fences a client off for ever, and none of an old server is answered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.loopback import K, World, altered
from psofed.fleet.protocol import wire


def test_many_restarts_may_be_missed_and_the_operator_can_pass_a_forged_start():
    world = World(cohort=K)
    world.rounds()
    frame, member = world.server.frames()[0], world.members[0]
    assert member.take(altered(frame, incarnation=1 + wire.MISSED))[1] == "answered"
    answer, why = member.take(frame)
    assert answer is None
    assert f"--set start={wire.MISSED + 2}" in why
    later = world.start(start=wire.MISSED + 2)
    assert later.incarnation == wire.MISSED + 2
    assert member.take(later.frames()[0])[1] == "repeated"
    assert world.start(start=1).incarnation == wire.MISSED + 3


@given(st.integers(0, wire.LAST_INCARNATION), st.integers(0, wire.LAST_INCARNATION))
def test_a_start_is_believed_if_it_is_not_lower_and_not_far_higher(found, seen):
    most = seen + wire.MISSED if seen else wire.LAST_INCARNATION // 2
    if seen <= found <= most:
        wire.check_start(found, seen)
    else:
        with pytest.raises(wire.RefusedError) as refused:
            wire.check_start(found, seen)
        assert refused.value.reason == ("fenced" if found < seen else "jump")


def lost_record(ahead):
    """A server that has lost its newest record, after these clients had answered the next round."""
    world = World(cohort=K)
    world.rounds(6)
    for k in ahead:
        world.members[k].take(world.server.frames()[k])
    del world.disks[-1].files[f"record.{world.server.store.sequence % 2}"]
    world.start()
    return world.loop()


@pytest.mark.parametrize("ahead", [(2,), (1, 3), (0, 1, 2, 3, 4)])
def test_a_server_that_lost_its_newest_record_waits_and_says_what_it_looks_like(ahead):
    loop, said = lost_record(ahead), []

    def news(line):
        said.append(line)
        loop.stop()

    loop.on_news = news
    loop.run(30)
    assert loop.coordinator.n == 5, "it neither ends by itself nor goes on without them"
    assert loop.coordinator.ahead == dict.fromkeys(ahead, 6)
    assert f"later rounds than 5: {len(ahead)} in round 6" in said[0]
    assert ("run `psofed deploy restore STATE` and" in said[0]) == (len(ahead) > 1)
    assert set(loop.coordinator.missing) == set(ahead), "the others have repeated their answers"


def test_a_lost_record_can_be_gone_on_with_as_with_an_old_copy():
    loop = lost_record((0, 1, 2, 3, 4))
    loop.coordinator.revive()  # psofed deploy restore STATE
    loop.run(9)
    assert loop.coordinator.n == 9
    assert loop.coordinator.ahead == {}


def test_a_server_that_lost_its_newest_record_goes_on_with_a_deadline():
    loop, rows = lost_record((2,)), []
    loop.deadline, loop.on_close = 0.05, rows.append
    loop.run(10)
    assert [row.missing for row in rows] == [(2,), (), (), (), ()]


def test_a_claim_is_forgotten_when_the_client_answers_or_the_server_has_caught_up():
    world = World(cohort=K)
    server, members = world.server, world.members
    boast = wire.Frame(wire.HELLO, server.plan.digest, wire.LAST_ROUND)
    assert server.take(0, wire.encode(boast)) == "ahead"
    near = wire.Frame(wire.HELLO, server.plan.digest, 2)
    assert server.take(1, wire.encode(near)) == "ahead"
    assert server.ahead == {0: wire.LAST_ROUND - 1, 1: 1}
    answers = {k: members[k].take(f)[0] for k, f in server.frames().items()}
    server.take(0, answers[0])
    assert server.ahead == {1: 1}
    server.commit()
    assert server.ahead == {}

"""Members that do not answer: others are asked in their places, and nothing is lost in silence."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from helpers.loopback import World as Fleet
from psofed.fleet.protocol.deployment import Deploy
from psofed.methods import fedavg, memofed

K = 8


class World(Fleet):
    """A server on the live clock and clients, on disks in memory."""

    def __init__(self, **options):
        settings = {"clients": K, "cohort": 3, "dtype": "float32"} | options
        super().__init__(Deploy(clock="live"), **settings)

    def round(self):
        self.answer(*self.server.missing)
        return self.server.commit()

    @property
    def counts(self):
        return self.server.server.ledger.counts


def test_another_member_takes_the_place_of_one_that_is_asleep_and_the_rest_get_the_same_bytes():
    world = World()
    world.round()
    before = world.server.frames()
    gone, *rest = before
    world.answer(rest[0])
    (new,) = world.server.sleep([gone])
    after = world.server.frames()
    assert sorted(after) == sorted([rest[1], new])
    assert after[rest[1]] == before[rest[1]]
    closed = world.round()
    assert (closed.asked, closed.accepted, closed.missing) == (4, 3, (gone,))
    assert (world.counts["asked"], world.counts["lost"]) == (7, 1)
    world.balanced()
    for _ in range(20):
        assert gone not in world.cohort
        assert len(world.cohort) == 3
        world.round()


def test_an_answer_after_its_client_was_put_to_sleep_is_late_and_counts_as_refused():
    world = World()
    gone = world.cohort[0]
    answer = world.members[gone].take(world.server.frames()[gone])[0]
    world.server.sleep([gone])
    assert world.server.take(gone, answer) == "late"
    world.round()
    assert (world.counts["refused"], world.counts["lost"]) == (1, 0)
    world.balanced()


def test_when_nobody_is_awake_all_are_asked_as_before():
    world = World()
    drawn = world.cohort
    world.server.sleep(range(K))
    assert world.cohort == drawn
    assert world.server.server.missing
    world.round()
    world.balanced()
    assert len(world.cohort) == 3


def test_sleep_is_no_part_of_the_record():
    world = World()
    world.server.sleep([world.cohort[0]])
    world.round()
    assert not any(name.startswith("fleet") for name in world.server.store.load())
    assert world.disks[-1].read("fleet.jsonl") is None
    again = world.start()
    assert again.server.presence.asleep(again.n) == []


def test_who_is_excluded_in_its_sleep_is_awake_when_it_is_readmitted():
    world = World()
    world.server.sleep([2])
    world.server.change("exclude", [2])
    world.round()
    world.server.change("readmit", [2])
    assert any(2 in world.cohort for _ in range(20) if world.round())


def test_within_a_block_nobody_can_take_a_place_and_after_it_others_do():
    world = World(methods=(fedavg.Options(local_steps=3),))
    world.round()
    gone, *rest = world.cohort
    assert world.server.sleep([gone]) == []
    assert world.cohort == rest
    world.server.wake(gone)
    world.round()
    assert world.cohort == rest
    world.round()
    assert len(world.cohort) == 3
    world.balanced()


def test_a_method_whose_members_cannot_change_has_others_in_the_places_of_sleepers_too():
    world = World(methods=(memofed.Options(size=5, least=1),), cohort=K - 2)
    for member in world.members.values():
        member.client.learn(np.ones((3, 4), np.float32), np.ones(3, np.float32))
    world.round()
    gone, *rest = world.cohort
    world.server.sleep([gone])
    assert set(rest) < set(world.cohort)
    for _ in range(5):
        world.round()
    world.balanced()


def test_where_the_file_says_who_is_there_nobody_takes_a_place():
    world = World(absent=0.25)
    before = world.cohort
    assert world.server.sleep(before[:1]) == []
    assert world.cohort == before[1:]


ACTS = "sleep", "wake", "answer", "late", "close", "exclude"


@given(st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, K - 1)), max_size=40))
def test_whatever_happens_every_question_is_accounted_for(acts):
    world, old = World(), {}
    out = set()
    for act, k in acts:
        kept = set(world.server.server.answers)
        if act == "sleep":
            world.server.sleep([k] if k in world.server.missing else [])
        elif act == "wake":
            world.server.wake(k)
        elif act == "answer" and k in world.server.missing:
            old[k] = world.members[k].take(world.server.frames()[k])[0]
            assert world.server.take(k, old[k]) == "accepted"
        elif act == "late" and k in old and k not in out:
            world.server.take(k, old[k])
        elif act == "close":
            world.server.commit()
            world.balanced()
        elif act == "exclude" and len(out) < 3 and k not in out:
            world.server.change("exclude", [k])
            out.add(k)
        if act != "close":
            assert kept <= set(world.server.server.answers)
        asleep = set(world.server.server.presence.asleep(world.server.n))
        awake = set(range(K)) - asleep - out
        assert not asleep & set(world.cohort) or not awake
    world.server.commit()
    world.balanced()

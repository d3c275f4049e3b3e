"""What a client writes: seldom, little, and after any kill the same to the last bit."""

from time import monotonic

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.loopback import Line, World, altered, disk, plan
from helpers.virtual_disk import Chance, CrashError, VirtualDisk
from psofed.experiment import Features
from psofed.fleet.client_loop import Device
from psofed.fleet.protocol import signs
from psofed.fleet.protocol.deployment import Deploy
from psofed.fleet.protocol.member import Member
from psofed.fleet.samples import Sample, replay
from psofed.methods import psofed
from psofed.stages.mix import MixOptions
from psofed.stages.privacy import Privacy

LIVE = plan(Deploy(clock="live"), mix=MixOptions(season=3), dtype="float32")
X, Y = replay(LIVE.experiment, 0)(0, 400)


def learned(member, start, stop):
    member.client.learn(X[start:stop], Y[start:stop])


def assert_same(one, other):
    a, b = one.client.state, other.client.state
    assert a.keys() == b.keys()
    for name, array in a.items():
        np.testing.assert_array_equal(array, b[name], err_msg=name)


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 20)), min_size=1, max_size=6),
       st.integers(0, 2**20))  # fmt: skip
def test_a_client_with_a_mix_goes_on_after_any_kill_as_one_that_was_never_killed(lives, seed):
    """Killed while it writes, at any step; what was not recorded is learned again."""
    files = VirtualDisk("memory", Chance(seed, 0))
    member, done = Member(LIVE, 0, files), 0
    for count, steps in lives:
        learned(member, done, min(done + count, 400))
        done = min(done + count, 400)
        files.steps_left = steps
        try:
            member.save()
            assert not member.trouble
        except CrashError:
            pass
        files.crash()
        member = Member(LIVE, 0, files)
        assert all("was not written to its end" in note for note in member.store.notes)
        done = member.client.position
        whole = Member(LIVE, 0, disk())
        learned(whole, 0, done)
        assert_same(member, whole)


def test_the_moments_are_written_seldom_and_both_generations_of_the_record_find_theirs():
    files = disk()
    member = Member(LIVE, 0, files)
    writes = []
    for n in range(60):
        learned(member, n, n + 1)
        before = files.files.get("moments.0"), files.files.get("moments.1")
        member.save()
        writes.append(before != (files.files.get("moments.0"), files.files.get("moments.1")))
        for slot in ("record.0", "record.1"):
            if slot in files.files and n % 11 == 0:
                one = VirtualDisk("memory", Chance(0, 0))
                one.put({k: v for k, v in files.files.items() if k != slot})
                if one.files.keys() & {"record.0", "record.1"}:
                    other = Member(LIVE, 0, one)
                    whole = Member(LIVE, 0, disk())
                    learned(whole, 0, other.client.position)
                    assert_same(other, whole)
    assert 0 < sum(writes) <= 8


def test_a_record_of_before_and_lost_moments_are_gone_on_from_and_the_loss_is_said():
    files = disk()
    member = Member(LIVE, 0, files)
    learned(member, 0, 40)
    whole = member.client.to_arrays() | {"incarnation": np.array(0, np.int64)}
    member.store.save(whole)
    again = Member(LIVE, 0, files)
    assert_same(again, member)
    assert again.save()
    assert_same(Member(LIVE, 0, files), member)
    for slot in ("moments.0", "moments.1"):
        files.files.pop(slot, None)
    poor = Member(LIVE, 0, files)
    assert "the moments of the mix are lost" in poor.store.notes[0]
    learned(poor, 40, 60)
    assert np.isfinite(poor.answer(X[0]).y)


def test_who_begins_anew_and_who_refuses_a_round_keep_the_samples_that_they_have_learned():
    given = plan(mix=MixOptions())
    world = World(given=given)
    world.rounds(6)
    world.server.change("exclude", [0])
    world.server.change("readmit", [0])
    world.rounds(6)
    for k, member in world.members.items():
        assert_same(Member(given, k, world.disks[k], replay(given.experiment, k)), member)


def test_an_answer_says_in_two_bytes_how_many_samples_are_new_and_none_is_forgotten():
    world, told = World(deploy=Deploy(clock="live"), clients=2), 0
    for n, new in enumerate([1, 0, 33, 400, 0, 0]):
        if new:
            world.learn(n, new)
        before = world.server.server.sent[0]
        for k, frame in world.server.frames().items():
            sent, again = (world.members[k].take(frame)[0] for _ in range(2))
            assert sent == again
            assert world.server.take(k, sent) == "accepted"
            assert world.server.take(k, again) == "repeated"
        assert world.server.server.sent[0] - before == 2 * len(sent)
        assert len(sent) == 9 + 3 * 4 + signs.SIZE
        world.server.commit()
        told += world.server.signs[0].learned
        assert n not in (1, 5) or not world.server.signs[0].learned
    assert told == world.members[0].samples.learned, "what was rounded comes with the next answer"
    short = altered(sent, body=b"0")
    assert world.server.take(0, short) == "size"


def test_a_budget_of_privacy_forbids_to_say_how_many_samples_there_were():
    private = Privacy(epsilon=1.0, clip_error=1.0)
    assert not plan(Deploy(clock="live"), privacy=private).signed
    assert plan(Deploy(clock="live")).signed


@pytest.mark.parametrize("mix", [None, MixOptions()])
def test_a_sample_a_minute_costs_little_flash(monkeypatch, mix):
    now, files = [monotonic()], disk()
    for module in ("client_loop", "tally"):
        monkeypatch.setattr(f"psofed.fleet.{module}.monotonic", lambda: now[0])
    monkeypatch.setattr("psofed.fleet.client_loop.POLL", 0)
    written, synced = [], []
    write, sync, folder = files.write, files.sync, files.sync_folder
    files.write = lambda name, data: (written.append(len(data)), write(name, data))
    files.sync = lambda name: (synced.append(1), sync(name))
    files.sync_folder = lambda: (synced.append(1), folder())
    given = plan(Deploy(clock="live"), mix=mix, dtype="float32", features=Features(dim=200),
                 methods=(psofed.Options(shared=5),))  # fmt: skip
    device, x = Device(Member(given, 0, files), Line()), np.ones(4)
    for n in range(120):  # two hours
        now[0] += 60
        device._waiting.put(Sample(x * np.sin(n), 1.0))
        device._step()
    assert device.member.client.position == 120
    assert sum(written) / 2 <= 500_000
    assert len(synced) / 2 <= 60
    written.clear()
    for _ in range(20):
        now[0] += 60
        device._step()
    assert len(written) <= 1  # nothing has changed

"""Who is waited for: on a clock of the test's own, in a loop without a broker, and for real."""

from itertools import pairwise
from time import monotonic

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.loopback import World
from psofed.fleet import mqtt
from psofed.fleet.broker import speaker
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.deployment import Deploy
from psofed.fleet.timeouts import ALERT, DRAG, HOLD, HURRY, LEAST, LONGEST, PROBE, Timeouts


def asleep(timeouts, k=1, now=100.0):
    """Client k, heard before, falls asleep some seconds later; when."""
    timeouts.hear(k, "accepted", now)
    timeouts.ask([k], now)
    now += timeouts.limit(now)
    timeouts.put_to_sleep(timeouts.overdue(now), now)
    assert k in timeouts.asleep
    return now


def test_a_client_is_waited_for_a_few_times_as_long_as_it_usually_takes():
    timeouts = Timeouts()
    assert timeouts.limit(0.0) == LEAST
    for n in range(40):
        timeouts.ask([1], 100.0 * n)
        timeouts.hear(1, "accepted", 100.0 * n + 2.0)
    assert timeouts.limit(4000.0) == pytest.approx(8.0)
    assert Timeouts(1.5).limit(0.0) == 1.5


def test_where_one_is_gone_the_others_have_less_time_for_a_while():
    timeouts = Timeouts()
    now = asleep(timeouts, 1)
    timeouts.ask([2], now)
    timeouts.hear(2, "accepted", now + 0.01)
    assert timeouts.limit(now) == HURRY
    assert timeouts.limit(now + ALERT) == LEAST
    slow = Timeouts()
    slow.ask([2], 0.0)
    slow.hear(2, "accepted", 5.0)
    assert slow.limit(asleep(slow, 1)) == 20.0


def test_who_is_slow_but_in_time_is_not_hurried_because_another_is_gone():
    timeouts = Timeouts()
    timeouts.ask([1, 2, 3], 0.0)
    for k, after in ((1, 0.05), (3, 0.05), (2, 0.8)):
        timeouts.hear(k, "accepted", after)
    now = asleep(timeouts, 1)
    timeouts.ask([2, 3], now)
    assert [timeouts.overdue(now + s) for s in (0.8, LEAST)] == [[3], [2, 3]]


def test_a_slow_client_that_was_too_late_once_is_waited_for_longer_and_then_in_time():
    timeouts, now, late = Timeouts(), 0.0, 0
    for _ in range(10):
        timeouts.ask([1], now)
        if timeouts.limit(now) <= 7.0:
            timeouts.put_to_sleep([1], now + timeouts.limit(now))
            assert timeouts.hear(1, "late", now + 7.0)
            late += 1
        else:
            timeouts.hear(1, "accepted", now + 7.0)
        now += 60.0
    assert late == 1


def test_probes_come_after_ten_seconds_and_then_less_and_less_often():
    timeouts = Timeouts()
    begun = now = asleep(timeouts)
    times = []
    while now < begun + 7200:
        now += 1.0
        if timeouts.due(now):
            times.append(now)
    gaps = [b - a for a, b in pairwise([begun, *times])]
    assert PROBE <= gaps[0] <= 1.2 * PROBE + 1
    assert all(b >= 1.5 * a for a, b in pairwise(gaps[:5]))
    assert all(LONGEST <= gap <= 1.2 * LONGEST + 1 for gap in gaps[8:])


def test_a_hello_wakes_at_once_but_who_never_answers_must_wait_longer_each_time():
    timeouts, now, waits = Timeouts(), 0.0, []
    for _ in range(8):
        now = asleep_again = _silent(timeouts, now)
        while not timeouts.hear(1, "hello", now):
            now += 1.0
        waits.append(now - asleep_again)
    assert waits[0] == 0.0
    assert all(b >= 1.5 * a for a, b in pairwise(waits[1:6]))
    assert LONGEST <= waits[-1] <= 1.2 * LONGEST + 1
    timeouts.ask([1], now)
    timeouts.hear(1, "accepted", now)
    now = _silent(timeouts, now)
    assert timeouts.hear(1, "hello", now)


def _silent(timeouts, now):
    timeouts.ask([1], now)
    timeouts.put_to_sleep(timeouts.overdue(now + LEAST), now + LEAST)
    return now + LEAST


def test_a_hello_is_no_answer():
    timeouts = Timeouts()
    timeouts.ask([1], 0.0)
    for second in range(3):
        timeouts.hear(1, "hello", float(second))
    assert timeouts.overdue(LEAST) == [1]


def test_who_is_ahead_sleeps_on_and_is_probed_soon():
    timeouts = Timeouts()
    now = asleep(timeouts) + 3000.0
    timeouts.due(now)
    assert not timeouts.hear(1, "ahead", now)
    assert timeouts.due(now + PROBE) == [1]


def test_time_without_a_broker_and_a_standstill_of_the_server_do_not_count():
    loop = live().loop(timeouts=Timeouts())
    loop.link.hand = lambda topic, data: None
    loop._ask()
    loop._react(mqtt.Event("down", data="gone"))
    assert loop.timeouts.overdue(monotonic() + 100) == []
    loop._ask()
    loop._moved = monotonic() - 5.0
    loop._check_timeouts(monotonic() + 5.0)
    assert not loop.timeouts.asleep
    assert loop.timeouts.overdue(monotonic() + 100) == []


def live():
    return World(Deploy(clock="live"), dtype="float32", clients=6, cohort=3)


def fleet(patience):
    """A server and six devices that answer at once, unless they are `gone`."""
    world, gone, closed, said = live(), set(), [], []
    seen = {"on_close": closed.append, "on_news": said.append}
    loop = world.loop(deadline=10.0, timeouts=Timeouts(patience), **seen)
    down = loop.link.hand
    loop.link.hand = lambda topic, data: speaker(topic) in gone or down(topic, data)
    return loop, world.devices, gone, closed, said


def test_a_loop_does_not_wait_for_the_dead_and_they_are_back_after_a_hello():
    loop, devices, gone, closed, said = fleet(0.3)
    loop.run(5)
    gone |= {0, 1, 2}
    loop.run(60)
    assert set(loop.timeouts.asleep) == {0, 1, 2}
    assert all(row.accepted == 3 for row in closed)
    gone.clear()
    for k in (0, 1, 2):
        devices[k]._network(mqtt.Event("up"))
    assert not loop.timeouts.asleep
    assert [f"client {k} is back" in said for k in range(4)] == [True, True, True, False]
    loop.run(90)
    ledger = loop.coordinator.server.ledger
    assert (ledger.accepted_at > 60).all()
    assert ledger.counts["asked"] == ledger.counts["accepted"] + ledger.counts["lost"]
    assert ledger.counts["lost"] == 3


def test_a_present_client_answers_a_probe_with_one_hello_and_an_older_one_ignores_it():
    loop, devices, *_ = fleet(0.3)
    loop.run(3)
    loop.timeouts.ask([1], monotonic() - 10.0)
    loop.timeouts.put_to_sleep([1], monotonic())
    loop.coordinator.sleep([1])
    sent = len(devices[1].link.sent), len(loop.link.sent)
    loop.timeouts.asleep[1].probe = 0.0
    loop._looked = 0.0
    loop._check_timeouts(monotonic())
    assert (len(devices[1].link.sent), len(loop.link.sent)) == (sent[0] + 1, sent[1] + 2)
    assert not loop.timeouts.asleep
    assert devices[1].member.standing == ""
    probe = loop.coordinator.probe(1)
    assert len(probe) == wire.head(wire.HELLO) + 1
    for _ in range(20):
        devices[1]._network(mqtt.Event("message", "", probe))
    assert len(devices[1].link.sent) <= sent[0] + 1 + 5
    assert wire.WORDS.index(wire.ASLEEP) == 4  # that older clients do not know: an empty word


@settings(max_examples=8)
@given(
    st.lists(st.sampled_from((None, 0.0, 0.3, 1.0, 2.9, 9.0)), min_size=1, max_size=4),
    st.sampled_from(("late", "hello")),
)
def test_whatever_one_client_does_it_holds_rounds_up_for_a_tenth_of_the_time_at_most(delays, wakes):
    timeouts, now, longer = Timeouts(), 0.0, 0.0
    for n in range(1500):  # ten a second; client 0 answers after its delay, or never
        delay, begun = delays[n % len(delays)], now
        timeouts.begin(now, 0.1)
        timeouts.ask(range(5), now)
        for k in range(1, 5):
            timeouts.hear(k, "accepted", now + 0.01)
        now += 0.1
        while True:
            timeouts.put_to_sleep(timeouts.overdue(now), now)
            done = delay is not None and now >= begun + delay
            if 0 in timeouts.asleep or done or now >= begun + 10.0:
                break
            now += 0.1
        if done and 0 not in timeouts.asleep:
            timeouts.hear(0, "accepted", now)
        longer += now - begun - 0.1
        timeouts.hear(0, wakes, now)  # it wakes as soon as it can
        assert longer <= HOLD + DRAG * now + 0.2
    assert longer < 5.0 or delays != [0.0]


def test_a_stale_upload_is_no_answer_to_the_open_round():
    loop, devices, gone, *_ = fleet(None)
    loop.run(3)
    gone |= set(devices)
    loop._ask()
    now, k = monotonic(), loop.coordinator.missing[0]
    stale = wire.Frame(wire.UPLOAD, loop.coordinator.plan.digest, 1, wire="float32", body=bytes(12))
    for _ in range(3):
        loop._message(k, wire.encode(stale))
    assert loop.coordinator.server.ledger.reasons["late"] == 3
    assert k in loop.timeouts.overdue(now + LEAST + 1.0)

"""What one client, or a stranger at the broker, can do to the others: nothing that lasts."""

import tracemalloc
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import stranger
from helpers.devices import wait_for
from psofed.fleet.broker import speaker
from psofed.fleet.mqtt import SHARE, Event, Inbox


@given(st.lists(st.one_of(st.integers(0, 3), st.none()), max_size=300))
def test_everybody_gets_a_turn_and_every_message_is_taken_or_counted(steps):
    inbox, put, taken, since = Inbox(), Counter(), Counter(), Counter()
    waiting = dict.fromkeys(range(4), 0)
    for k in steps:  # a number: that client sends five; None: the server takes one
        for _ in range(5 if k is not None else 0):
            put[k] += 1
            waiting[k] += inbox.put(Event("message", data=k), k)
        if k is None and (event := inbox.get(0)) is not None:
            taken[event.data] += 1
            waiting[event.data] -= 1
            for other in waiting:
                since[other] = 0 if other == event.data or not waiting[other] else since[other] + 1
        assert max(since.values(), default=0) <= 4, "nobody waits for more than one of each other"
        assert max(waiting.values()) <= SHARE
    for k in range(4):
        assert put[k] == taken[k] + waiting[k] + inbox.dropped[k]
    assert len(inbox) == sum(waiting.values())


def test_what_one_speaker_can_make_wait_is_bounded_in_bytes():
    tracemalloc.start()
    inbox = Inbox()
    for _ in range(2_000):
        inbox.put(Event("message", "p/1/u", bytes(10_000)), 1)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < SHARE * (10_000 + 1_000)


def test_a_member_that_joins_after_a_flood_is_heard(broker, open_link):
    members = {0}
    link = open_link(broker.port, clients=members)
    flood = open_link(broker.port, "0", "p/0/d")
    for _ in range(2_000):
        flood.send("p/0/u", b"again")
    wait_for(lambda: link.inbox.dropped[0])
    members.add(5)
    assert 5 in {speaker(next_message(link, broker.port, "p/5/u").topic) for _ in range(SHARE + 1)}


def test_what_happens_to_the_connection_waits_for_no_message():
    inbox = Inbox()
    for k in range(100):
        inbox.put(Event("message"), k)
    inbox.put(Event("down"))
    assert inbox.get(0).kind == "down"


def next_message(link, port, topic="p/1/u"):
    """Say something small until it arrives."""
    for _ in range(50):
        stranger.say(port, topic, b"small")
        event = link.get(0.5)
        if event is not None and event.kind == "message":
            return event
    raise AssertionError("nothing arrives")


@pytest.mark.parametrize("qos", [0, 1])
def test_what_strangers_leave_send_or_pretend_at_the_broker_is_counted_and_makes_nobody_deaf(
    broker, open_link, qos
):
    port = broker.port
    for k in (0, 1):
        stranger.say(port, f"p/{k}/u", b"left here", retain=True)
    link = open_link(port, clients=range(3), qos=qos)
    wait_for(lambda: link.retained == 2)
    next_message(link, port)  # so that it has subscribed
    for size in (1001, 1000):
        stranger.say(port, "p/0/u", bytes(size))
    assert len(link.get(10).data) == 1000
    assert link.oversized == 1
    rivals = [stranger.connect(port, name) for name in ("p-server", "server", "p-0", "0")]
    assert next_message(link, port).data == b"small"
    assert link.up
    names = {link._client._client_id} | {open_link(port)._client._client_id for _ in range(3)}
    assert len(names) == 4
    for rival in rivals:
        rival.close()


def test_a_topic_that_is_no_client_is_nobodys_turn_but_the_strangers():
    assert [speaker(f"p/{k}/u") for k in ("7", "٣", "07", "-1", "", "9" * 10, "x")] == [
        7, -1, -1, -1, -1, -1, -1
    ]  # fmt: skip

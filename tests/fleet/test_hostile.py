"""What one client, or a stranger at the broker, can do to the others: nothing that lasts."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import stranger
from helpers.devices import wait_for
from helpers.runs import SMALL
from psofed.errors import InputError
from psofed.fleet.address import Address, speaker
from psofed.fleet.broker import Broker
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


def test_a_message_that_is_too_large_is_counted_and_does_not_take_the_connection(broker, open_link):
    link = open_link(broker.port, clients=range(3))
    next_message(link, broker.port)  # so that it has subscribed
    stranger.say(broker.port, "p/0/u", bytes(1001))
    stranger.say(broker.port, "p/0/u", bytes(1000))
    event = link.get(10)
    assert (event.kind, len(event.data)) == ("message", 1000)
    assert link.oversized == 1


def test_the_embedded_broker_is_for_this_machine_only(psofed, tmp_path):
    (tmp_path / "run.toml").write_text(SMALL)
    for where in ("0.0.0.0:1883", "192.0.2.1:1883"):
        result = psofed("deploy", "serve", "run.toml", "--state", "s", "--listen", where, "--plain")
        assert result.returncode == 2
        assert "the embedded broker is for this machine only" in result.stderr
    assert not (tmp_path / "s").exists()
    with pytest.raises(InputError, match="mosquitto"):
        Broker(Address("example.org", 1883))


def test_nobody_makes_the_server_deaf_by_taking_its_name(broker, open_link):
    port = broker.port
    link = open_link(port, clients=range(3))
    next_message(link, port)
    rivals = [stranger.connect(port, name) for name in ("p-server", "server", "p-0", "0")]
    assert next_message(link, port).data == b"small"
    assert link.up
    names = {link._client._client_id}
    names |= {open_link(port)._client._client_id for _ in range(3)}
    assert len(names) == 4
    for rival in rivals:
        rival.close()


def test_a_retained_message_is_not_delivered_and_counted(broker, open_link):
    for k in (0, 1):
        stranger.say(broker.port, f"p/{k}/u", b"left here", retain=True)
    for qos in (0, 1):
        link = open_link(broker.port, clients=range(3), qos=qos)
        wait_for(lambda link=link: link.retained == 2)
        assert next_message(link, broker.port).data == b"small"


def test_a_topic_that_is_no_client_is_nobodys_turn_but_the_strangers():
    assert [speaker(f"p/{k}/u") for k in ("7", "٣", "07", "-1", "", "9" * 10, "x")] == [
        7, -1, -1, -1, -1, -1, -1
    ]  # fmt: skip

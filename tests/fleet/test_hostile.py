"""What one client, or a stranger at the broker, can do to the others: nothing that lasts."""

import re
import sys
import threading
import time
import tracemalloc
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import processes, stranger
from helpers.devices import free_port, wait_for
from helpers.loopback import Line, disk, plan
from helpers.runs import SMALL, assert_equal_to_the_engine
from psofed.errors import InputError
from psofed.fleet.address import Address, speaker
from psofed.fleet.broker import Broker
from psofed.fleet.inbox import SHARE, Event, Inbox
from psofed.fleet.mqtt import FLOOD as TOO_MANY
from psofed.fleet.protocol import deployment as plans
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.server_loop import REPLIES, ServerLoop

FIVE = SMALL.replace("rounds = 40", "rounds = 5")


def hello(file, n):
    return wire.encode(wire.Frame(wire.HELLO, plans.read(file).digest, n))


def test_no_claim_of_clients_ends_a_lockstep_server_and_none_that_was_left_at_the_broker(
    team, broker
):
    run = team(FIVE, broker.url)
    boast = hello(run.file, wire.LAST_ROUND)
    assert len(boast) == 9
    for k in (0, 1):
        stranger.say(broker.port, f"p/{k}/u", boast, retain=True)
    run.start("server")
    # How many the log counts first depends on when it looks.
    wait_for(lambda: re.search(r"Alarm \(retained\): [12] retained mess", run.log("server")))
    assert "ahead" not in run.log("server")
    for k in (0, 1):
        stranger.say(broker.port, f"p/{k}/u", boast)
    said = wait_for(lambda: re.search(r"Alarm \(ahead\): .*", run.log("server")))[0]
    assert "later rounds than 0, which is open: " in said
    assert "in round 4294967294" in said
    time.sleep(0.5)
    assert run.running["server"].poll() is None
    for k in range(3):
        run.start(k)
    wait_for(lambda: run.running["server"].poll() is not None)
    assert run.running.pop("server").returncode == 0
    run.stop()
    assert_equal_to_the_engine(run, 5)


FLOOD = """
import sys, time
sys.path[:0] = {path!r}
from helpers import processes, stranger
line = stranger.connect({port}, "flood")
many = stranger.publication("p/0/u", {data!r}) * 500
end = time.monotonic() + 25
while time.monotonic() < end:
    line.sendall(many)
"""


def test_a_flood_of_one_client_does_not_starve_the_others(team, broker):
    text = FIVE.replace("rounds = 5", "rounds = 100000")
    run = team(text, broker.url, serve=("--every", "0.01", "--deadline", "0.3"))
    for who in ("server", 1, 2, 0):
        run.start(who)
    wait_for(lambda: "round 3:" in run.log("server"))
    code = FLOOD.format(path=sys.path, port=broker.port, data=hello(run.file, 0))
    flood = processes.start(sys.executable, "-c", code)

    def heard():
        """After the alarm: rounds with answers of all but, perhaps, the one who floods."""
        log = run.log("server").partition("Alarm (flood): client 0 sent far more than can be read")[
            2
        ]
        missing = re.findall(r"^round .*answered(?:, missing (.*))?, \d+ bytes up", log, re.M)
        return missing[2:].count("") + missing[2:].count("0") >= 5

    try:
        wait_for(heard, 20)
        assert flood.poll() is None, "all this while it goes on"
    finally:
        processes.end(flood)
    assert re.search(
        r"Alarm \(dropped\): .* some were dropped: \d+ of client 0$", run.log("server"), re.M
    )


def test_who_floods_is_heard_again_later(broker, open_link):
    link = open_link(broker.port, clients=range(3))
    next_message(link, broker.port, "p/0/u")
    link.inbox.dropped[0] += TOO_MANY + 1
    link.hush()
    assert link.muted.keys() == {0}
    wait_for(lambda: link.get(0.1) == Event("up"))
    assert next_message(link, broker.port, "p/1/u").topic == "p/1/u"
    stranger.say(broker.port, "p/0/u", b"still there")
    stranger.say(broker.port, "p/2/u", b"another")
    assert link.get(5).data == b"another"
    link.hush()
    assert link.muted.keys() == {0}, "not before its time"
    link.muted[0] = 0.0
    link.hush()
    assert next_message(link, broker.port, "p/0/u").topic == "p/0/u"
    assert not link.contested
    assert not link._lost, "we hung up ourselves"


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


def test_who_greets_without_end_is_answered_a_few_times_a_second():
    coordinator = Coordinator(plan(), disk())
    server = ServerLoop(coordinator, Line())
    data = wire.encode(wire.Frame(wire.HELLO, coordinator.plan.digest, 0))
    for k in [0] * 1000 + [1] + [77] * 100:
        server._message(k, data)
    assert len(server.link.sent) <= 2 * REPLIES + 1
    other = wire.encode(wire.Frame(wire.HELLO, 7, 0))
    for k in range(100, 200):  # of another experiment, under numbers that do not exist
        server._message(k, other)
    assert len(server.link.sent) <= 4 * REPLIES + 1


def next_message(link, port, topic="p/1/u"):
    """Say something small until it arrives."""
    for _ in range(50):
        stranger.say(port, topic, b"small")
        event = link.get(0.5)
        if event is not None and event.kind == "message":
            return event
    raise AssertionError("nothing arrives")


def test_a_message_that_is_too_large_takes_no_memory_and_not_the_connection(broker, open_link):
    link = open_link(broker.port, clients=range(3))
    next_message(link, broker.port)  # so that it has subscribed
    tracemalloc.start()
    stranger.shout(broker.port, "p/0/u", 20_000_000)
    stranger.say(broker.port, "p/0/u", bytes(1001))
    stranger.say(broker.port, "p/0/u", bytes(1000))
    event = link.get(10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (event.kind, len(event.data)) == ("message", 1000)
    assert link.oversized == 2
    assert peak < 2_000_000


@pytest.fixture
def embedded():
    broker = Broker(Address("127.0.0.1", free_port()), 1000)
    broker.open()
    yield broker
    broker.close()


def test_the_embedded_broker_is_for_this_machine_only(psofed, tmp_path):
    (tmp_path / "run.toml").write_text(SMALL)
    for where in ("0.0.0.0:1883", "192.0.2.1:1883"):
        result = psofed("deploy", "serve", "run.toml", "--state", "s", "--listen", where, "--plain")
        assert result.returncode == 2
        assert "the embedded broker is for this machine only" in result.stderr
    assert not (tmp_path / "s").exists()
    with pytest.raises(InputError, match="mosquitto"):
        Broker(Address("example.org", 1883), 1000)


def test_the_embedded_broker_keeps_nothing_and_reads_no_large_message(embedded, open_link):
    port = embedded.address.port
    stranger.say(port, "p/0/u", b"left here", retain=True)
    link = open_link(port, largest=10**9, clients=range(3))
    assert next_message(link, port).data == b"small"
    assert link.retained == 0
    tracemalloc.start()
    with suppress(OSError):  # it hangs up before all is sent
        stranger.shout(port, "p/0/u", 20_000_000)
    assert next_message(link, port).data == b"small"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def test_nobody_makes_the_server_deaf_by_taking_its_name(embedded, open_link):
    port = embedded.address.port
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


def test_a_flood_of_strangers_shares_one_queue():
    inbox, threads = Inbox(), []
    for k in range(4):
        work = threading.Thread(
            target=lambda k=k: [inbox.put(Event("message"), k) for _ in range(500)]
        )
        threads.append(work)
        work.start()
    for thread in threads:
        thread.join()
    assert sum(inbox.dropped.values()) == 4 * (500 - SHARE)
    assert len(inbox) == 4 * SHARE

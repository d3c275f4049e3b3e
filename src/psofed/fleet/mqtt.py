"""MQTT: one connection to a broker, which is restored by itself, and an inbox.

The library's thread handles the network and puts events into the inbox. One thread takes them from
there, so nothing else needs a lock. Each speaker has a bounded share of the inbox, and they are
taken in turn: one that sends a hundred thousand messages a second fills its own share only.
"""

from __future__ import annotations

import random
import secrets
import socket
import sys
import threading
from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Any, Literal

from psofed.errors import InputError
from psofed.extras import need
from psofed.fleet import identity as identities
from psofed.fleet.broker import STRANGER, Address, speaker, unreached
from psofed.fleet.identity import Identity

DELAYS = (0.1, 15.0)  # seconds between two attempts: the first, and the longest
CALM = 5.0  # the first, if two devices with one identity evict each other: they take turns then
CONTESTED = 3, 60.0  # so many connections lost in so many seconds: somebody else takes them over
SHARE = 16  # messages of one speaker that may wait; a client that answers needs two or three
OWN = 1_000  # events of this process that may wait: connections and their loss
LAST = 0.5  # seconds at the end in which the library's thread may end
POLL = 0.25  # seconds after which a loop checks whether it has to stop


@dataclass(frozen=True)
class Event:
    """An event: a connection, its loss, a message, or what else was put into the inbox."""

    kind: Literal["up", "down", "message", "sample"]
    topic: str = ""
    data: Any = b""
    receipt: tuple[int, int] = (0, 0)  # what to acknowledge when the message is handled


class Inbox:
    """Rule 16: a queue for each speaker, and one for events of this process, which comes first."""

    def __init__(self) -> None:
        self.dropped: Counter[int] = Counter()  # by speaker: messages for which there was no room
        self._own: deque[Event] = deque(maxlen=OWN)
        self._queues: dict[int, deque[Event]] = {}
        self._turns: deque[int] = deque()  # speakers of whom something waits, the next one first
        self._ready = threading.Condition()

    def put(self, event: Event, speaker: int | None = None) -> bool:
        """Let it wait; False if the speaker's share is full. Without a speaker: our own event."""
        with self._ready:
            if speaker is None:
                self._own.append(event)
            else:
                queue = self._queues.setdefault(speaker, deque())
                if len(queue) >= SHARE:
                    self.dropped[speaker] += 1
                    return False
                if not queue:
                    self._turns.append(speaker)
                queue.append(event)
            self._ready.notify()
            return True

    def get(self, seconds: float | None) -> Event | None:
        """The next event, or None if there is none in time."""
        with self._ready:
            if not self._ready.wait_for(lambda: self._own or self._turns, seconds):
                return None
            if self._own:
                return self._own.popleft()
            speaker = self._turns.popleft()
            queue = self._queues[speaker]
            event = queue.popleft()
            if queue:
                self._turns.append(speaker)  # behind the others
            else:
                del self._queues[speaker]
            return event

    def __len__(self) -> int:
        with self._ready:
            return len(self._own) + sum(map(len, self._queues.values()))


class Link:
    """A connection to a broker, with what it subscribes to.

    Its session has a random name: who could guess it could take it over.
    """

    def __init__(
        self, address: Address, who: str, topic: str, largest: int, qos: int = 0,
        identity: Identity | None = None, clients: Collection[int] = (),
    ) -> None:  # fmt: skip
        self.address, self.topic, self.qos, self.clients = address, topic, qos, clients
        self.largest, self.inbox, self.up = largest, Inbox(), False
        self.retained = 0  # messages that somebody has left at the broker: none is meant to stay
        self.oversized = 0  # messages that are too large, which were not read
        self._lost: deque[float] = deque(maxlen=CONTESTED[0])
        mqtt = need("paho.mqtt.client", "deploy", "MQTT connections", " ('.[client]' on devices)")
        name = f"{who}-{secrets.token_hex(8)}"
        self._client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, client_id=name, manual_ack=True
        )
        self.ends: dict[str, datetime] = {}  # by whose certificate
        if address.tls:
            if identity is None:
                right = "give --ca, --cert and --key (`psofed deploy keys` makes them)"
                raise InputError(str(address), "needs certificates", right)
            context = identity.context()
            self.ends = identity.ends(context)
            self._client.tls_set_context(context)
        self._client.on_socket_open = _no_delay
        self._client.on_connect = self._on_connect
        self._client.on_connect_fail = self._on_connect_fail
        self._client.on_disconnect = self._on_disconnect
        self._client.on_message = self._on_message

    def open(self) -> None:
        """Connect in the background, and again whenever the connection is lost."""
        self._shake()
        self._client.connect_async(self.address.host, self.address.port, keepalive=30)
        self._client.loop_start()

    def close(self) -> None:
        """Disconnect cleanly; who waits for a name or a host that does not answer is left alone."""
        self._client.disconnect()
        ending = threading.Thread(target=self._client.loop_stop, daemon=True)
        ending.start()
        ending.join(LAST)
        self._client._reset_sockets()  # which the library leaves to the garbage collector

    def send(self, topic: str, data: bytes) -> None:
        """Publish; without a broker the message is lost, and the other end asks again."""
        if self.up:
            self._client.publish(topic, data, self.qos)

    def handled(self, event: Event) -> None:
        """Acknowledge a message that was handled (QoS 1); before that, the broker may repeat it."""
        number, qos = event.receipt
        if qos and self.up:
            self._client.ack(number, qos)

    def get(self, seconds: float | None) -> Event | None:
        """The next event, or None if there is none in time."""
        return self.inbox.get(seconds)

    def put(self, event: Event) -> None:
        """Put an event of this process into the inbox."""
        self.inbox.put(event)

    @property
    def contested(self) -> bool:
        """Whether connections are lost so often as when two devices use one identity."""
        return len(self._lost) == CONTESTED[0] and monotonic() - self._lost[0] < CONTESTED[1]

    def _shake(self) -> None:
        """Backoff with jitter: devices that lost the same broker do not all reconnect at once."""
        first = CALM * random.uniform(1, 2) if self.contested else DELAYS[0] * random.uniform(1, 5)
        self._client.reconnect_delay_set(first, DELAYS[1] * random.uniform(0.7, 1))

    def _on_connect(self, client: Any, userdata: Any, flags: Any, code: Any, more: Any) -> None:
        if code.is_failure:
            self.put(Event("down", data=str(code)))
            return
        client.subscribe(self.topic, self.qos)
        if self.address.tls:
            self.ends[identities.BROKER] = identities.end(client.socket().getpeercert())
        self.up = True
        self.put(Event("up"))

    def _on_connect_fail(self, client: Any, userdata: Any) -> None:
        # The library calls this while it handles the exception, and does not hand it over.
        self.put(Event("down", data=unreached(sys.exc_info()[1], self.address.host)))

    def _on_disconnect(self, client: Any, userdata: Any, flags: Any, code: Any, more: Any) -> None:
        if self.up:
            self._lost.append(monotonic())
        self.up = False
        self._shake()
        asks = "is this machine's certificate valid, not revoked, and of the broker's authority?"
        ours = f" ({asks})" if self.address.tls else ""
        self.put(Event("down", data=f"{code}{ours}"))

    def _on_message(self, client: Any, userdata: Any, message: Any) -> None:
        if message.retain:
            self.retained += 1  # it was said to nobody in particular, at some time
        elif len(message.payload) > self.largest:
            self.oversized += 1
        elif self._admit(message):
            return
        self._client.ack(message.mid, message.qos)

    def _admit(self, message: Any) -> bool:
        """Let it wait for its turn, if its speaker's share has room."""
        try:
            topic = message.topic
        except UnicodeDecodeError:
            return False
        k = speaker(topic)
        k = k if k in self.clients else STRANGER
        receipt = message.mid, message.qos
        return self.inbox.put(Event("message", topic, message.payload, receipt), k)


def _no_delay(client: Any, userdata: Any, connection: Any) -> None:
    """Send small messages at once: with Nagle's algorithm a QoS 1 round takes six times longer."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

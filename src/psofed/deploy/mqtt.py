"""MQTT: one connection to a broker, which is restored by itself, and an inbox.

The library's thread handles the network and puts events into the inbox. One thread takes them from
there, so nothing else needs a lock.
"""

from __future__ import annotations

import queue
import random
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from psofed.errors import InputError
from psofed.extras import need

LOOPBACK = ("127.0.0.1", "::1", "localhost")
DELAYS = (0.1, 15.0)  # seconds between two attempts: the first, and the longest
INBOX = 20_000
VERSION_TAG, COMMON_NAME = 0xA0, bytes([0x55, 4, 3])  # of a certificate, in DER
POLL = 0.25  # seconds after which a loop checks whether it was told to stop


@dataclass(frozen=True)
class Address:
    """Where a broker listens, and whether through TLS.

    >>> Address.parse("mqtts://broker.example")
    Address(host='broker.example', port=8883, tls=True)
    """

    host: str
    port: int
    tls: bool = False

    @staticmethod
    def parse(url: str, field: str = "--broker") -> Address:
        right = "use mqtt://HOST:PORT or, with TLS, mqtts://HOST:PORT"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise InputError(field, f"is {url!r}", right) from None
        if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname or parts.path.strip("/"):
            raise InputError(field, f"is {url!r}", right)
        tls = parts.scheme == "mqtts"
        return Address(parts.hostname, port or (8883 if tls else 1883), tls)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"mqtt{'s' if self.tls else ''}://{host}:{self.port}"

    def check(self, plain: bool) -> str:
        """Rule 13: plain text to other machines needs a flag; returns a warning for it."""
        if self.tls or self.host in LOOPBACK:
            return ""
        if not plain:
            right = "use mqtts:// with certificates (`psofed keys`), or allow it with --plain"
            raise InputError(str(self), "would send everything in plain text", right)
        return f"{self} is not encrypted: others on the network can read and change messages"


@dataclass(frozen=True)
class Identity:
    """Rule 13: the own identity, by certificate."""

    ca: Path
    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """TLS 1.3 with certificates at both ends."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_verify_locations(self.ca)
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            found = f"cannot be used: {error.strerror or error}"
            files = f"{self.ca}, {self.certificate} or {self.key}"
            raise InputError(files, found, "make them with `psofed keys`") from None
        return context

    def check(self, name: str) -> None:
        """Refuse another's certificate: the broker would drop its messages without an error."""
        try:
            found = common_name(self.certificate.read_text())
        except (OSError, ValueError, IndexError) as error:
            why = getattr(error, "strerror", None) or "it is not a certificate"
            right = "make it with `psofed keys`"
            raise InputError(str(self.certificate), f"cannot be used: {why}", right) from None
        if found != name:
            right = f"give the certificate of {name!r}"
            raise InputError(str(self.certificate), f"is that of {found!r}", right)


def common_name(pem: str) -> str:
    """The name of the subject of the first certificate in a text; devices have no other parser."""
    end = "-----END CERTIFICATE-----"
    begin = max(pem.find("-----BEGIN CERTIFICATE-----"), 0)
    der = ssl.PEM_cert_to_DER_cert(pem[begin : pem.index(end) + len(end)])
    fields = _fields(_fields(_fields(der)[0][1])[0][1])
    _, subject = fields[5 if fields[0][0] == VERSION_TAG else 4]
    for _, names in _fields(subject):
        for _, pair in _fields(names):
            (_, kind), (_, text) = _fields(pair)
            if kind == COMMON_NAME:
                return text.decode()
    raise ValueError("a certificate without a name")


def _fields(der: bytes) -> list[tuple[int, bytes]]:
    """Tags and contents of the values that follow one another in DER."""
    found = []
    while der:
        size, start = der[1], 2
        if size >= 0x80:  # then it says how many bytes the size has
            start += size - 0x80
            size = int.from_bytes(der[2:start], "big")
        found.append((der[0], der[start : start + size]))
        der = der[start + size :]
    return found


@dataclass(frozen=True)
class Event:
    """An event: a connection, its loss, a message, or what else was put into the inbox."""

    kind: Literal["up", "down", "message", "sample"]
    topic: str = ""
    data: Any = b""
    receipt: tuple[int, int] = (0, 0)  # what to acknowledge when the message is handled


class Link:
    """A connection to a broker under a name, with what it subscribes to."""

    def __init__(
        self,
        address: Address,
        name: str,
        topic: str,
        qos: int = 0,
        identity: Identity | None = None,
    ) -> None:
        mqtt = _library()
        self.address, self.topic, self.qos = address, topic, qos
        self.inbox: queue.Queue[Event] = queue.Queue(INBOX)
        self.up = False
        self.dropped = 0  # messages for which the inbox had no room
        self._client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, client_id=name, manual_ack=True
        )
        if address.tls:
            if identity is None:
                right = "give --ca, --cert and --key (`psofed keys` makes them)"
                raise InputError(str(address), "needs certificates", right)
            self._client.tls_set_context(identity.context())
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
        """Disconnect cleanly."""
        self._client.disconnect()
        self._client.loop_stop()

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
        try:
            return self.inbox.get(timeout=seconds)
        except queue.Empty:
            return None

    def put(self, event: Event) -> None:
        """Put an event into the inbox, unless it is full: its memory is bounded."""
        try:
            self.inbox.put_nowait(event)
        except queue.Full:
            self.dropped += 1

    def _shake(self) -> None:
        """Backoff with jitter: devices that lost the same broker do not all reconnect at once."""
        first, longest = DELAYS
        self._client.reconnect_delay_set(
            first * random.uniform(1, 5),
            longest * random.uniform(0.5, 1),
        )

    def _on_connect(self, client: Any, userdata: Any, flags: Any, code: Any, more: Any) -> None:
        if code.is_failure:
            self.put(Event("down", data=str(code)))
            return
        client.subscribe(self.topic, self.qos)
        self.up = True
        self.put(Event("up"))

    def _on_connect_fail(self, client: Any, userdata: Any) -> None:
        theirs = ", or its certificate is of another authority" if self.address.tls else ""
        self.put(Event("down", data=f"it cannot be reached{theirs}"))

    def _on_disconnect(self, client: Any, userdata: Any, flags: Any, code: Any, more: Any) -> None:
        self.up = False
        self._shake()
        ours = " (is the own certificate valid and of its authority?)" if self.address.tls else ""
        self.put(Event("down", data=f"{code}{ours}"))

    def _on_message(self, client: Any, userdata: Any, message: Any) -> None:
        self.put(Event("message", message.topic, message.payload, (message.mid, message.qos)))


def _no_delay(client: Any, userdata: Any, connection: Any) -> None:
    """Send small messages at once: with Nagle's algorithm a QoS 1 round takes six times longer."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _library() -> Any:
    also = " ('.[client]' on devices)"
    return need("paho.mqtt.client", "deploy", "MQTT connections", also)


def up_topic(run: str, k: int | str) -> str:
    """The topic on which client k sends; "+" for all clients."""
    return f"{run}/{k}/u"


def down_topic(run: str, k: int | str) -> str:
    """The topic on which client k listens."""
    return f"{run}/{k}/d"


def speaker(topic: str) -> int:
    """Rule 13: the sender, by the topic; -1 if it is not a client.

    >>> speaker("p/7/u"), speaker("p/x/u")
    (7, -1)
    """
    k = topic.split("/")[1]
    return int(k) if k.isdecimal() and len(k) < 10 else -1

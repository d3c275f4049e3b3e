"""MQTT: one connection to a broker, which is restored by itself, and an inbox.

The library's thread handles the network and puts events into the inbox. One thread takes them from
there, so nothing else needs a lock.
"""

from __future__ import annotations

import random
import secrets
import socket
import ssl
import sys
from collections import deque
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from psofed.errors import InputError
from psofed.extras import need
from psofed.fleet.address import HEAD, Address, speaker, unreached
from psofed.fleet.identity import BROKER, EARLY, Identity, Papers, refused, untimely
from psofed.fleet.inbox import STRANGER, Event, Inbox

DELAYS = (0.1, 15.0)  # seconds between two attempts: the first, and the longest
CALM = 5.0  # the first, if two devices with one identity evict each other: they take turns then
FLOOD, MUTED = 200, 10.0  # messages dropped in a second; seconds without those of their sender
TOPICS = 3  # in one packet, which the broker limits too, by the size of our frames
CONTESTED = 3, 60.0  # so many connections lost in so many seconds: somebody else takes them over
LOOK = 3600.0, 86400.0  # seconds after which server and devices look whether the broker is renewed
POLL = 0.25  # seconds after which a loop checks whether it was told to stop


class Link:
    """A connection to a broker, with what it subscribes to.

    Its session has a random name: who could guess it could take it over.
    """

    def __init__(
        self,
        address: Address,
        who: str,
        topic: str,
        largest: int,
        qos: int = 0,
        identity: Identity | None = None,
        clients: Collection[int] = (),
    ) -> None:
        self.address, self.topic, self.qos, self.clients = address, topic, qos, clients
        self.identity, self.largest = identity, largest
        self.inbox = Inbox()
        self.up = False
        self.retained = 0  # messages that somebody has left at the broker: none is meant to stay
        self.oversized = 0  # messages that are too large, which were not read
        self.untimely = ""  # what is wrong with the clock or a certificate's validity
        self.muted: dict[int, float] = {}  # speakers that are not listened to, and until when
        self._dropped: dict[int, int] = {}  # a second ago
        self._hung_up = ""  # why we have ended the connection ourselves
        self._lost: deque[float] = deque(maxlen=CONTESTED[0])
        self._client = _bounded(self, f"{who}-{secrets.token_hex(8)}")
        self.alert = ""  # why the broker has refused us, in the words of TLS
        self.papers: Papers | None = None
        self._looked = monotonic()  # when files were last looked at
        self._met = monotonic()  # when the broker's certificate was last seen
        if address.tls:
            if identity is None:
                right = "give --ca, --cert and --key (`psofed deploy keys` makes them)"
                raise InputError(str(address), "needs certificates", right)
            self.papers = Papers(identity)
            self._client.tls_set_context(self.papers.context)
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

    def hush(self) -> None:
        """Rule 16, once a second: the broker shall keep back those who send far too much.

        What has piled up between the broker and us, with the messages of all others behind it, is
        left there: a new connection begins without it.
        """
        now, dropped = monotonic(), dict(self.inbox.dropped)
        loud = {k for k, n in dropped.items() if n > self._dropped.get(k, 0) + FLOOD}
        over = [k for k, end in self.muted.items() if end <= now and k not in loud]
        self._dropped = dropped
        self.muted = {k: end for k, end in self.muted.items() if k not in over}
        if loud and self.up:
            self.muted |= dict.fromkeys(loud, now + MUTED)
            self._hang_up("because of a flood of messages")
        elif over and self.up:
            self._listen(over)

    def renew(self) -> None:
        """Once a second: connect anew with a certificate that was renewed, ours or the broker's.

        Of the broker's we know only what it was when we connected: near its end we look again.
        """
        now, papers = monotonic(), self.papers
        if papers is None or now < self._looked + 1.0:
            return
        self._looked = now
        if papers.renewed():
            self._hang_up("to use the renewed certificate")
        elif papers.days().get(BROKER, EARLY) < EARLY and now >= self._met + LOOK[not self.clients]:
            self._hang_up("to see whether the broker's certificate was renewed")

    def _hang_up(self, why: str) -> None:
        if not self.up or (line := self._client.socket()) is None:
            return
        self._hung_up = f"we have hung up, {why}"
        with suppress(OSError):  # it may be lost already
            # Not the method of a TLS socket, which would go on reading without TLS.
            socket.socket.shutdown(line, socket.SHUT_RDWR)

    def _listen(self, speakers: Iterable[int]) -> None:
        """One by one, to all but those who are muted."""
        topics = [self.topic.replace("+", str(k)) for k in speakers if k >= 0]
        for i in range(0, len(topics), TOPICS):
            self._client.subscribe([(topic, self.qos) for topic in topics[i : i + TOPICS]])

    @property
    def ending(self) -> str:
        """Certificates that have to be renewed within 30 days, or cannot be used."""
        return "" if self.papers is None else self.papers.ending()

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
        if self.muted:
            self._listen([k for k in self.clients if k not in self.muted])
        else:
            client.subscribe(self.topic, self.qos)
        if self.papers is not None:
            self.papers.meet(client.socket())
        self._met = monotonic()
        self.up, self.untimely, self.alert = True, "", ""
        self.put(Event("up"))

    def _on_connect_fail(self, client: Any, userdata: Any) -> None:
        # The library calls this while it handles the exception, and does not hand it over.
        error = sys.exc_info()[1]
        why = unreached(error, self.address.host, self.address.tls)
        self.put(Event("down", data=self._wrong_time(error) or why))

    def _on_disconnect(self, client: Any, userdata: Any, flags: Any, code: Any, more: Any) -> None:
        hung_up, self._hung_up = self._hung_up, ""
        if self.up and not hung_up:
            self._lost.append(monotonic())
        self.up = False
        self._shake()
        if hung_up:
            self.put(Event("down", data=hung_up))
            return
        ours = (
            " (is this machine's certificate valid, and issued by its authority?)"
            if self.address.tls
            else ""
        )
        why = self._wrong_time(None) or refused(self.alert)
        self.put(Event("down", data=why or f"{code}{ours}"))

    def _wrong_time(self, error: BaseException | None) -> str:
        """Why a certificate is not valid now; for a broker that refuses ours, we look ourselves."""
        now = datetime.now(UTC)
        own = self.identity.untimely(now) if self.identity is not None else ""
        self.untimely = untimely(error, now) or own
        return self.untimely

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


def _bounded(link: Link, name: str) -> Any:
    """A client of the MQTT library that keeps no more of a packet than can be a frame of ours.

    The library would read up to 256 MB before anybody can look at it. It also tells nobody with
    which alert a broker has refused us, and knows one certificate only.
    """
    mqtt = need("paho.mqtt.client", "deploy", "MQTT connections", " ('.[client]' on devices)")
    most = link.largest + HEAD

    class Bounded(mqtt.Client):  # type: ignore[misc, name-defined]
        def _ssl_wrap_socket(self, tcp_sock: Any) -> Any:
            assert link.papers is not None  # there is no TLS without
            link.papers.renewed()
            wrap, host = link.papers.context.wrap_socket, link.address.host
            secured = wrap(tcp_sock, server_hostname=host, do_handshake_on_connect=False)
            secured.settimeout(self._connect_timeout)
            try:
                secured.do_handshake()
            except BaseException:  # the library would leave it to the garbage collector
                secured.close()
                raise
            return secured

        def _sock_recv(self, bufsize: int) -> Any:
            if self._in_packet["remaining_length"] > most:
                self._in_packet["packet"].clear()
            try:
                return super()._sock_recv(min(bufsize, 2**16))
            except ssl.SSLError as error:
                link.alert = error.reason or link.alert
                raise

        def _sock_send(self, buf: Any) -> Any:
            try:
                return super()._sock_send(buf)
            except BlockingIOError:
                raise
            except OSError:  # the broker has hung up; it may have said why
                with suppress(OSError):
                    self._sock_recv(1)
                raise

        def _packet_handle(self) -> Any:
            if self._in_packet["remaining_length"] <= most:
                return super()._packet_handle()
            link.oversized += 1
            unconfirmed = self._in_packet["command"] & 6  # QoS above 0: it would be sent again
            codes = mqtt.MQTTErrorCode
            return codes.MQTT_ERR_PROTOCOL if unconfirmed else codes.MQTT_ERR_SUCCESS

    return Bounded(mqtt.CallbackAPIVersion.VERSION2, client_id=name, manual_ack=True)

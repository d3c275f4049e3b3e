"""Brokers: where one listens, why it is not reached, who speaks on which topic; an embedded one."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from psofed.errors import InputError
from psofed.extras import need

STRANGER = -1  # all who are not clients are one speaker
LOOPBACK = ("127.0.0.1", "::1", "localhost")
ANYBODY = {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}}
CONNECTIONS = 2_000  # of an embedded broker
HEAD = 100  # bytes of an MQTT packet besides the frame, at most: its head and the topic


@dataclass(frozen=True)
class Address:
    """Where a broker listens, and whether through TLS."""

    host: str
    port: int
    tls: bool = False

    @staticmethod
    def parse(url: str, field: str = "--broker") -> Address:
        right = "use mqtt://HOST:PORT or, with TLS, mqtts://HOST:PORT"
        try:
            parts = urlsplit(url)
            port = parts.port
            (parts.hostname or "").encode("idna")  # what is no name ends the library's thread
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
            right = (
                "use mqtts:// with certificates (`psofed deploy keys`), or allow it with --plain"
            )
            raise InputError(str(self), "would send everything in plain text", right)
        return f"{self} is not encrypted: others on the network can read and change messages"


def unreached(error: BaseException | None, host: str) -> str:
    """The cause in words, and where to look."""
    if isinstance(error, socket.gaierror):
        return f"the name {host} cannot be resolved ({error.strerror}): look at DNS"
    if isinstance(error, ConnectionRefusedError):
        return "the machine answers, but nothing listens at that port: is the broker running?"
    if isinstance(error, TimeoutError):
        return "no answer in time: is the machine on, and does a firewall let this port pass?"
    if isinstance(error, ssl.SSLCertVerificationError):
        asks = "are the clock of this machine, --ca and the broker's name right?"
        return f"its certificate is refused, {error.verify_message}: {asks}"
    return f"it cannot be reached: {getattr(error, 'strerror', None) or error}"


def up_topic(run: str, k: int | str) -> str:
    """The topic on which client k sends; "+" for all clients."""
    return f"{run}/{k}/u"


def down_topic(run: str, k: int | str) -> str:
    """The topic on which client k listens."""
    return f"{run}/{k}/d"


def speaker(topic: str) -> int:
    """Rule 13: the sender, by the topic; -1 if it is not a client."""
    k = topic.split("/")[1]
    digits = k.isascii() and k.isdecimal() and len(k) < 10
    return int(k) if digits and str(int(k)) == k else STRANGER


class Broker:
    """The embedded one: amqtt in a thread of this process, so that one command is enough.

    It is for this machine and for trials. It knows no certificates: every user of this machine can
    send anything to anybody.
    """

    def __init__(self, address: Address) -> None:
        if address.host not in LOOPBACK:
            right = "install mosquitto there and give it as --broker (docs/deploy.md)"
            found = f"is {address.host}, but the embedded broker is for this machine only"
            raise InputError("--listen", found, right)
        self.address = address

    def open(self) -> None:
        """Listen; an InputError if the port is taken or the broker is not installed."""
        need("amqtt", "deploy", "brokers of our own", ", or give a --broker")
        import asyncio
        import logging
        import threading

        from amqtt.errors import AMQTTError, BrokerError

        for name in ("amqtt", "transitions"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="broker")
        self._thread.start()
        bind = f"{self.address.host}:{self.address.port}"
        listener = {"type": "tcp", "bind": bind, "max_connections": CONNECTIONS}
        config = {"listeners": {"default": listener}, "plugins": ANYBODY}
        try:
            self._broker = self._call(_start(config))
        except (AMQTTError, BrokerError, OSError) as error:
            self._stop_loop()
            found = f"cannot be used for listening: {error.__cause__ or error}"
            right = "if a broker is there, give it as --broker; or give another --listen"
            raise InputError(str(self.address), found, right) from None

    def close(self) -> None:
        """Stop listening."""
        self._call(self._broker.shutdown())
        self._stop_loop()

    def _call(self, work: Any) -> Any:
        from asyncio import run_coroutine_threadsafe

        return run_coroutine_threadsafe(work, self._loop).result(timeout=20)

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()


async def _start(config: dict[str, Any]) -> Any:
    from amqtt.broker import Broker as Amqtt

    broker = Amqtt(config)
    await broker.start()
    return broker

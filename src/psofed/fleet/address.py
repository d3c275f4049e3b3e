"""Where a broker listens, why it is not reached, and who speaks on which topic."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from psofed.errors import InputError

STRANGER = -1  # all who are not clients are one speaker
LOOPBACK = ("127.0.0.1", "::1", "localhost")
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

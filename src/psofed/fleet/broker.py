"""Brokers: where one listens, why it is not reached, who speaks on which topic; one for trials."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from psofed.errors import InputError

STRANGER = -1  # all who are not clients are one speaker
LOOPBACK = ("127.0.0.1", "::1", "localhost")
HEAD = 100  # bytes of an MQTT packet besides the frame, at most: its head and the topic

# Of a broker for trials; what subscribers do not read is dropped, not kept.
CONFIGURATION = """\
listener {} 127.0.0.1
allow_anonymous true
set_tcp_nodelay true
retain_available false
max_queued_messages 100
max_queued_bytes 1000000
memory_limit 100000000
"""
SCRIPT = 'printf %s "$1" | "$0" -c /dev/stdin & cat > /dev/null; kill $!; wait'


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
    """A mosquitto of our own on loopback, for trials: every user of this machine can use it.

    It ends with this process, also if that is killed: a shell waits for the end of a pipe that we
    hold. It gets its configuration by another pipe, so nothing is left behind.
    """

    def __init__(self, port: int) -> None:
        self.address = Address("127.0.0.1", port)

    def open(self) -> None:
        """Listen; an InputError if it is not installed, or the port is taken."""
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])
        program = shutil.which("mosquitto", path=path)
        if program is None:
            right = "install it (apt install mosquitto, brew install mosquitto)"
            raise InputError("mosquitto", "is not installed, and this needs a broker", right)
        command = ["/bin/sh", "-c", SCRIPT, program, CONFIGURATION.format(self.address.port)]
        devnull = subprocess.DEVNULL
        self._shell = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=devnull, stderr=devnull, start_new_session=True
        )
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex((self.address.host, self.address.port)) == 0:
                    return
            time.sleep(0.05)
        self.close()
        raise InputError(str(self.address), "cannot be used by a broker of our own", "try again")

    def close(self) -> None:
        """End it."""
        self._shell.communicate()

"""Who may read a dashboard: where it listens, and the token that it needs."""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from urllib.parse import urlsplit

from psofed.errors import InputError

SHORTEST = 16  # characters of a token
RIGHT = "use PORT or HOST:PORT, e.g. 8080 or 127.0.0.1:8080"


@dataclass(frozen=True)
class Access:
    """Where to listen, and the token that readers need."""

    host: str
    port: int
    token: str | None = field(default=None, repr=False)

    @staticmethod
    def parse(where: str, token: str | None) -> Access:
        """From [HOST:]PORT; a token is required if other machines can reach it.

        >>> Access.parse("8080", None)
        Access(host='127.0.0.1', port=8080)
        """
        try:
            parts = urlsplit(f"//{where}" if ":" in where else f"//127.0.0.1:{where}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or port is None or parts.path or "@" in where:
            raise InputError("--dashboard", f"is {where!r}", RIGHT)
        if token is not None and (len(token) < SHORTEST or not token.isascii()):
            right = f"use at least {SHORTEST} letters and digits, as of `openssl rand -hex 16`"
            raise InputError("the dashboard's token", "is too short or not plain", right)
        if token is None and not is_loopback(host):
            right = "give --dashboard-token-file or PSOFED_DASHBOARD_TOKEN, or listen on 127.0.0.1"
            raise InputError("--dashboard", f"{where} can be read by others", right)
        return Access(host, port, token)

    @cached_property
    def session(self) -> str:
        """What a browser keeps instead of the token."""
        return hmac.new((self.token or "").encode(), b"psofed dashboard", sha256).hexdigest()

    @property
    def warning(self) -> str:
        """The warning, if other machines can read it."""
        if is_loopback(self.host):
            return ""
        return "the dashboard is plain HTTP: others on the network can read it and its token"

    def knows(self, token: str) -> bool:
        """Whether this is the token, compared in constant time."""
        return self.token is not None and same(token, self.token)


def is_loopback(host: str) -> bool:
    """Whether a name or address can only mean this machine."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def same(one: str, other: str) -> bool:
    """Whether they are equal, compared in constant time."""
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())

"""Who may look at a dashboard: where it listens, and what one has to know."""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from urllib.parse import urlsplit

from psofed.errors import InputError

SHORTEST = 16  # characters of a token
RIGHT = "use PORT or HOST:PORT, as in 8080 or 127.0.0.1:8080"


@dataclass(frozen=True)
class Access:
    """Where to listen, and what one has to know to read there."""

    host: str
    port: int
    token: str | None = field(default=None, repr=False)

    @staticmethod
    def parse(where: str, token: str | None) -> Access:
        """From [HOST:]PORT; beyond this machine only with a token.

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
        """What has to be said about being read from elsewhere."""
        if is_loopback(self.host):
            return ""
        return "the dashboard is plain HTTP: whoever is on the way can read it, and its token"

    def knows(self, token: str) -> bool:
        """Whether this is the token, in a time that does not tell how much of it was right."""
        return self.token is not None and same(token, self.token)


def is_loopback(host: str) -> bool:
    """Whether a name or address can only mean this machine."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def same(one: str, other: str) -> bool:
    """Whether they are equal, in a time that does not tell how much of them is."""
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())

"""Why there is no connection to a broker, as far as this machine can know."""

from __future__ import annotations

import socket
import ssl


def unreached(error: BaseException | None, host: str, tls: bool) -> str:
    """The cause in words, and where to look.

    >>> unreached(socket.gaierror(-2, "Name or service not known"), "broker.example", tls=True)
    'the name broker.example cannot be resolved (Name or service not known): look at DNS'
    """
    if isinstance(error, socket.gaierror):
        return f"the name {host} cannot be resolved ({error.strerror}): look at DNS"
    if isinstance(error, ConnectionRefusedError):
        return "the machine answers, but nothing listens at that port: is the broker running?"
    if isinstance(error, TimeoutError):
        return "no answer in time: is the machine on, and does a firewall let this port pass?"
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return f"it cannot be reached: {error.strerror or error}"
    theirs = ", or its certificate is of another authority" if tls else ""
    return f"it cannot be reached{theirs}"

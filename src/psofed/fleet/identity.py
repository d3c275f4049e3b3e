"""Rule 13: the own identity, by certificate, and what errors of TLS say about it.

Devices have no package for certificates: what is needed of one the standard library reads.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from psofed.errors import InputError
from psofed.fleet import private

NOT_YET_VALID, EXPIRED = 9, 10  # what OpenSSL calls them
EARLY = 30  # days before its end at which a certificate is an alarm
TORN = 10.0  # seconds in which new files may not fit each other yet: they come one by one
OWN, AUTHORITY, BROKER = "own", "authority", "broker"
REMEDIES = {
    OWN: ("this machine's certificate", "psofed deploy keys renew {name}"),
    AUTHORITY: ("the authority's certificate", "make a new authority (docs/deploy.md)"),
    BROKER: ("the broker's certificate", "psofed deploy keys renew broker"),
}
REFUSALS = {
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "is revoked: if this device shall take part, it needs a new"
    " certificate (`psofed deploy keys renew`)",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "has expired: renew it; if it has not by the clock of this"
    " machine, is the broker's clock right?",
    "TLSV1_ALERT_UNKNOWN_CA": "was not issued by its authority: do both have the same?",
}


@dataclass(frozen=True)
class Certificate:
    """What a device needs of a certificate."""

    name: str
    begin: datetime
    end: datetime


@dataclass(frozen=True)
class Identity:
    """The three files of an identity."""

    ca: Path
    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """TLS 1.3 with certificates at both ends."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        private.check(self.key)
        try:
            context.load_verify_locations(self.ca)
            context.load_cert_chain(self.certificate, self.key, password="")  # never ask for one
        except (OSError, ssl.SSLError) as error:
            found = f"cannot be used: {error.strerror or error}"
            files = f"{self.ca}, {self.certificate} or {self.key}"
            raise InputError(files, found, "make them with `psofed deploy keys`") from None
        return context

    def check(self, name: str) -> None:
        """Refuse another's certificate: the broker would drop its messages without an error."""
        found = self.read().name
        if found != name:
            right = f"give the certificate of {name!r}"
            raise InputError(str(self.certificate), f"is that of {found!r}", right)

    def read(self) -> Certificate:
        """This machine's certificate: the first in its file."""
        try:
            # The library's own reader of files; it has a public name for those of peers only.
            found: Any = ssl._ssl._test_decode_cert(str(self.certificate))  # type: ignore[attr-defined]
            fields = {key: value for pairs in found["subject"] for key, value in pairs}
            return Certificate(fields["commonName"], *map(_time, _validity(found)))
        except (OSError, ssl.SSLError, KeyError):
            right = "make it with `psofed deploy keys`"
            found = "cannot be used: it is not a certificate with a name"
            raise InputError(str(self.certificate), found, right) from None

    def untimely(self, now: datetime) -> str:
        """Why this machine's certificate is not valid at this time; empty if it is."""
        try:
            own = self.read()
        except InputError:
            return ""  # it was readable at the start; this is not about the clock
        return _untimely("this machine's certificate", now, now < own.begin, now > own.end)


class Papers:
    """An identity in use: what connections are made with, as long as there is nothing newer."""

    def __init__(self, identity: Identity) -> None:
        self.identity, self.trouble = identity, ""
        self._stamp, self._torn = _stamp(identity), 0.0
        self.ends: dict[str, datetime] = {}
        self._use(identity.context())

    def renewed(self) -> bool:
        """Whether there are new files that can be used, from now on; others change nothing."""
        stamp = _stamp(self.identity)
        if stamp == self._stamp:
            self._torn, self.trouble = 0.0, ""
            return False
        try:
            context = self.identity.context()
            self.identity.check(self.own.name)
            if why := self.identity.untimely(datetime.now(UTC)):
                raise InputError(why, "", "")
        except InputError as error:
            self._torn = self._torn or monotonic()
            if monotonic() > self._torn + TORN:
                self.trouble = f"new files of this machine's certificate are not used: {error}"
            return False
        self._stamp, self._torn, self.trouble = stamp, 0.0, ""
        self._use(context)
        return True

    def _use(self, context: ssl.SSLContext) -> None:
        """Of several authorities in a file the last one counts."""
        self.context, self.own = context, self.identity.read()
        authorities = [_time(_validity(each)[1]) for each in context.get_ca_certs()]
        self.ends[OWN] = self.own.end
        self.ends |= {AUTHORITY: max(authorities)} if authorities else {}

    def meet(self, broker: object) -> None:
        """The broker's certificate, from the socket of a connection that was just made."""
        if isinstance(broker, ssl.SSLSocket) and (found := broker.getpeercert()):
            self.ends[BROKER] = _time(_validity(found)[1])

    def days(self) -> dict[str, int]:
        """Whole days that are left, by whose certificate."""
        now = datetime.now(UTC)
        return {whose: (end - now).days for whose, end in self.ends.items()}

    def ending(self) -> str:
        """What has to be renewed within 30 days; a text that changes once a day."""
        texts = []
        for whose, left in self.days().items():
            if left < EARLY:
                what, right = REMEDIES[whose]
                when = f"ends in {left} days" if left >= 0 else "has ended"
                right = right.format(name=self.own.name)
                texts.append(f"{what} {when} ({self.ends[whose]:%Y-%m-%d}): {right}")
        return "; ".join([*texts, *([self.trouble] if self.trouble else [])])


def client_number(name: str) -> int:
    """The number of a client from its name, which must be written as we write it."""
    if not (name.isascii() and name.isdecimal() and str(int(name[:20])) == name):
        raise InputError("the name", f"is {name!r}", "use the number of a client: 0, 1, 2, ...")
    return int(name)


def untimely(error: BaseException | None, now: datetime) -> str:
    """Why the broker's certificate is not valid at this time, if that is what TLS complains of."""
    code = error.verify_code if isinstance(error, ssl.SSLCertVerificationError) else 0
    return _untimely("the broker's certificate", now, code == NOT_YET_VALID, code == EXPIRED)


def _untimely(whose: str, now: datetime, early: bool, late: bool) -> str:
    if not (early or late):
        return ""
    what = "is not valid yet" if early else "has expired"
    clock = f"{now:%Y-%m-%d %H:%M} UTC"
    right = "is the clock right?" if early else "is the clock right? If so, renew it"
    return f"{whose} {what} by the clock of this machine ({clock}): {right}"


def refused(reason: str) -> str:
    """Why the broker has refused this machine's certificate, if its alert says so."""
    why = REFUSALS.get(reason)
    return "" if why is None else f"the broker says that this machine's certificate {why}"


def _validity(found: Any) -> tuple[str, str]:
    return found["notBefore"], found["notAfter"]


def _time(text: str) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC)


def _stamp(identity: Identity) -> tuple[tuple[int, int, int] | None, ...]:
    """Changes when one of the files does."""
    found: list[tuple[int, int, int] | None] = []
    for path in (identity.ca, identity.certificate, identity.key):
        try:
            now = path.stat()
            found.append((now.st_mtime_ns, now.st_ino, now.st_size))
        except OSError:
            found.append(None)
    return tuple(found)

"""Renewal: the own certificate is read again when its files have changed, and who ends when."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from psofed.deploy.certificates import Certificate, Identity
from psofed.errors import InputError

EARLY = 30  # days before its end at which a certificate is an alarm
TORN = 10.0  # seconds in which new files may not fit each other yet: they come one by one
OWN, AUTHORITY, BROKER = "own", "authority", "broker"
REMEDIES = {
    OWN: ("the own certificate", "psofed keys renew {name}"),
    AUTHORITY: ("the authority's certificate", "make a new authority (docs/securing_a_broker.md)"),
    BROKER: ("the broker's certificate", "psofed keys renew broker"),
}


class Papers:
    """An identity in use: what connections are made with, as long as there is nothing newer."""

    def __init__(self, identity: Identity) -> None:
        self.identity, self.trouble = identity, ""
        self._stamp, self._torn = _stamp(identity), 0.0
        self.context, self.own = identity.context(), identity.read()
        self.ends = {OWN: self.own.end} | _authority(identity.ca)

    def renewed(self) -> bool:
        """Whether there are new files that can be used, from now on; others change nothing."""
        stamp = _stamp(self.identity)
        if stamp == self._stamp:
            self._torn, self.trouble = 0.0, ""
            return False
        try:
            context, own = self._usable()
        except InputError as error:
            self._torn = self._torn or monotonic()
            if monotonic() > self._torn + TORN:
                self.trouble = f"new files of the own certificate are not used: {error}"
            return False
        self.context, self.own, self._stamp = context, own, stamp
        self._torn, self.trouble = 0.0, ""
        self.ends |= {OWN: own.end} | _authority(self.identity.ca)
        return True

    def _usable(self) -> tuple[ssl.SSLContext, Certificate]:
        context = self.identity.context()
        self.identity.check(self.own.name)
        if why := self.identity.untimely(datetime.now(UTC)):
            raise InputError(why, "", "")
        return context, self.identity.read()

    def meet(self, broker: object) -> None:
        """The broker's certificate, from the socket of a connection that was just made."""
        if isinstance(broker, ssl.SSLSocket) and (found := broker.getpeercert()):
            end = ssl.cert_time_to_seconds(str(found["notAfter"]))
            self.ends[BROKER] = datetime.fromtimestamp(end, UTC)

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


def _authority(path: Path) -> dict[str, datetime]:
    """When the authority ends, if its file has only one: of several the last one counts."""
    try:
        ends = [Certificate.parse(pem).end for pem in _each(path.read_text())]
    except (OSError, ValueError):
        return {}
    return {AUTHORITY: max(ends)} if ends else {}


def _each(text: str) -> list[str]:
    end = "-----END CERTIFICATE-----"
    return [part + end for part in text.split(end)[:-1]]


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

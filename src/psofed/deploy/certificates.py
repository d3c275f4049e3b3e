"""Certificates: the own identity, those of a folder, and what errors of TLS say about them."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from psofed.deploy import private
from psofed.errors import InputError

VERSION_TAG, COMMON_NAME = 0xA0, bytes([0x55, 4, 3])  # of a certificate, in DER
UTC_TIME = 0x17  # years of two digits; the other tag of a time has years of four
NOT_YET_VALID, EXPIRED = 9, 10  # what OpenSSL calls them
REFUSALS = {
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "is revoked: if this device shall take part, it needs a new"
    " certificate (`psofed keys token`)",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "has expired: renew it; if it has not by the clock of this"
    " machine, is the broker's clock right?",
    "TLSV1_ALERT_UNKNOWN_CA": "is not of its authority: do broker and --cert have the same?",
}


@dataclass(frozen=True)
class Certificate:
    """What is in a certificate, as far as devices need it: they have no other parser."""

    name: str
    serial: int
    begin: datetime
    end: datetime

    @staticmethod
    def parse(pem: str) -> Certificate:
        """The first certificate in a text; a ValueError if there is none."""
        try:
            parts = _parts(pem)
            begin, end = (_time(tag, text.decode()) for tag, text in _fields(parts[3][1]))
            serial = int.from_bytes(parts[0][1], "big")
            return Certificate(_common_name(parts[4][1]), serial, begin, end)
        except IndexError:
            raise ValueError("not a certificate") from None


def known(folder: Path) -> list[Certificate]:
    """All certificates that an authority's folder has ever had, by name and time."""
    files = [*(folder / "issued").glob("*.pem"), *folder.glob("*.pem")]
    found = {}
    for path in files:
        if path.name == "crl.pem":
            continue
        try:
            certificate = Certificate.parse(path.read_text())
        except (OSError, ValueError):  # to pass over one could mean that it is never revoked
            right = "take it from a copy, or move it away"
            raise InputError(str(path), "is no certificate that can be read", right) from None
        found[certificate.serial] = certificate
    return sorted(
        found.values(), key=lambda c: (not c.name.isdecimal(), c.name.zfill(20), c.begin, c.end)
    )


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
        private.check(self.key)
        try:
            context.load_verify_locations(self.ca)
            context.load_cert_chain(self.certificate, self.key, password="")  # never ask for one
        except (OSError, ssl.SSLError) as error:
            found = f"cannot be used: {error.strerror or error}"
            files = f"{self.ca}, {self.certificate} or {self.key}"
            raise InputError(files, found, "make them with `psofed keys`") from None
        return context

    def check(self, name: str) -> None:
        """Refuse another's certificate: the broker would drop its messages without an error."""
        found = self.read().name
        if found != name:
            right = f"give the certificate of {name!r}"
            raise InputError(str(self.certificate), f"is that of {found!r}", right)

    def read(self) -> Certificate:
        """The own certificate."""
        try:
            return Certificate.parse(self.certificate.read_text())
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not a certificate"
            right = "make it with `psofed keys`"
            raise InputError(str(self.certificate), f"cannot be used: {why}", right) from None

    def untimely(self, now: datetime) -> str:
        """Why the own certificate is not valid at this time; empty if it is."""
        try:
            own = self.read()
        except InputError:
            return ""  # it was readable at the start; this is not about the clock
        return _untimely("the own certificate", now, now < own.begin, now > own.end)


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
    """Why the broker has refused the own certificate, if its alert says so."""
    why = REFUSALS.get(reason)
    return "" if why is None else f"the broker says that the own certificate {why}"


def common_name(pem: str) -> str:
    """The name of the subject of the first certificate in a text."""
    return Certificate.parse(pem).name


def _common_name(subject: bytes) -> str:
    for _, names in _fields(subject):
        for _, pair in _fields(names):
            (_, kind), (_, text) = _fields(pair)
            if kind == COMMON_NAME:
                return text.decode()
    raise ValueError("a certificate without a name")


def _time(tag: int, text: str) -> datetime:
    digits = text if tag != UTC_TIME else ("19" if text >= "50" else "20") + text
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _parts(pem: str) -> list[tuple[int, bytes]]:
    """Number, algorithm, issuer, validity, subject, ... of the first certificate in a text."""
    end = "-----END CERTIFICATE-----"
    begin = max(pem.find("-----BEGIN CERTIFICATE-----"), 0)
    der = ssl.PEM_cert_to_DER_cert(pem[begin : pem.index(end) + len(end)])
    fields = _fields(_fields(_fields(der)[0][1])[0][1])
    return fields[1:] if fields[0][0] == VERSION_TAG else fields


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

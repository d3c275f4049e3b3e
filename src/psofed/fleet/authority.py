"""Rule 13: an authority in a folder. It makes, renews and revokes the certificates of a run, and
writes mosquitto's configuration, in which the name of a certificate decides what its owner may do.

Neither server nor client nor broker needs this module, nor the package `cryptography`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from psofed.errors import InputError
from psofed.fleet import identity, mask_keys
from psofed.fleet.broker import HEAD
from psofed.fleet.protocol.members import Names

AUTHORITY_DAYS, DAYS = 3650, 825
SERVER, BROKER = "server", "broker"
OURS = ["localhost", "127.0.0.1"]  # the broker has these names besides those that are given
LARGEST = 4_000_000  # bytes of a message, if the run is not known
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
USES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
    "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip

CONFIGURATION = """\
# mosquitto for psofed: mosquitto -c {folder}/mosquitto.conf
listener {where}
cafile {folder}/ca.pem
certfile {folder}/broker.pem
keyfile {folder}/broker.key
crlfile {folder}/crl.pem
tls_version tlsv1.3
require_certificate true
# The identity is the name in the certificate: for the rules below, and so that no client
# can take over the session of another.
use_identity_as_username true
use_username_as_clientid true
allow_anonymous false
acl_file {folder}/acl
set_tcp_nodelay true
# No message of the run is larger, none is kept for those who come later.
message_size_limit {largest}
max_packet_size {packet}
retain_available false
persistence false
"""
RULES = """\
user server
topic read {run}/+/u
topic write {run}/+/d

pattern write {run}/%u/u
pattern read {run}/%u/d
"""
NAMED = """
user {name}
topic write {run}/{k}/u
topic read {run}/{k}/d
"""


class Made(NamedTuple):
    """A certificate that an authority has made."""

    name: str
    serial: int
    begin: datetime
    end: datetime
    revoked: bool


class Authority:
    """An authority in its folder: ca.pem and, where something is to be signed, ca.key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self.certificate = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
        except (OSError, ValueError):
            right = "make one with `psofed deploy keys make`"
            raise InputError(str(folder), "has no authority", right) from None

    @staticmethod
    def make(
        folder: Path, run: str, hosts: list[str], port: int = 8883, largest: int = LARGEST,
        masks: bool = False, names: Names | None = None,
    ) -> Authority:  # fmt: skip
        """A new authority, the certificates of broker and server, mosquitto.conf and its ACL.

        With `masks` its clients get mask keys, too; those in `names` are known to the broker.
        """
        served = [_host(host) for host in dict.fromkeys([*hosts, *OURS])]
        if (folder / "ca.key").exists():
            right = "give a new folder; a new authority would make all its certificates invalid"
            raise InputError(str(folder), "has an authority already", right)
        identity.make_folder(folder)
        key, name = ec.generate_private_key(ec.SECP256R1()), _name("psofed authority")
        builder = _builder(name, name, key.public_key(), key, _days_from_now(AUTHORITY_DAYS))
        builder = builder.add_extension(x509.BasicConstraints(True, 0), critical=True)
        builder = builder.add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
        made = builder.sign(key, hashes.SHA256())
        identity.write(folder / "ca.pem", _pem(made), identity.PUBLIC)
        identity.write(folder / "ca.key", _key_pem(key))
        authority = Authority(folder)
        authority._revoke([])  # mosquitto does not start without a list
        authority.issue(BROKER, DAYS, served)
        authority.issue(SERVER, DAYS)
        if masks:
            mask_keys.begin(folder, authority.key, run)
        _configure(folder, run, _where(hosts, port), largest)
        authority._introduce((names or Names()).known())
        return authority

    @cached_property
    def key(self) -> ec.EllipticCurvePrivateKey:
        """What signs."""
        path = self.folder / "ca.key"
        text = identity.read(path, "give the --folder of the authority, which has it")
        try:
            key = serialization.load_pem_private_key(text.encode(), None)
        except (TypeError, ValueError):
            raise InputError(str(path), "is not a private key", "give the right file") from None
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key

    @property
    def names(self) -> Names:
        """Those that the access list has."""
        return identity.names(self.folder)

    def _introduce(self, names: Mapping[int, str]) -> None:
        """The broker lets who has one of these names use the topics of its number."""
        path = self.folder / "acl"
        rules = path.read_text()
        run = rules.partition("topic read ")[2].partition("/")[0]
        more = (NAMED.format(name=name, run=run, k=k) for k, name in names.items())
        identity.write(path, rules + "".join(more))

    def add(self, who: str, days: int | None = None) -> tuple[str, bool]:
        """A key and a certificate for a client that has none; its name, and whether that is new."""
        names = self.names
        k, known = names.number(who), self.names.known()
        name = names(k)
        if any((self.folder / f"{name}.{kind}").exists() for kind in ("pem", "key")):
            right = f"psofed deploy keys renew {name}"
            raise InputError(str(self.folder), f"has a certificate of client {name} already", right)
        with identity.alone(self.folder):
            if mask_keys.wanted(self.folder):
                mask_keys.give(self.folder, self.key, k, name)
            if new := k in names.known() and k not in known:
                self._introduce({k: name})
            self.issue(name, days or DAYS)
        return name, new

    def _called(self, who: str) -> str:
        """Whose certificate is meant: that of a file, or of the client of this number."""
        if (self.folder / f"{who}.pem").exists() or who in (SERVER, BROKER):
            return who
        names = self.names
        return names(names.number(who))

    def renew(self, who: str, days: int | None = None, new_mask: bool = False) -> tuple[str, bool]:
        """A new certificate, and a new key, for who has one; the old certificate stays valid.

        Returns its name, and whether there is a new mask key, too: a revoked one is not used again.
        """
        folder, name = self.folder, self._called(who)
        masked = mask_keys.file(folder, name).exists()
        if new_mask and not masked:
            right = "make an authority with masks in a new folder"
            raise InputError(str(folder), f"has no mask key of {name}", right)
        with identity.alone(folder):
            path = folder / f"{name}.pem"
            try:
                old = x509.load_pem_x509_certificate(path.read_bytes())
            except (OSError, ValueError):
                right = "give a client's number, server or broker, and the folder that has it"
                found = "is not a certificate that could be renewed"
                raise InputError(str(path), found, right) from None
            new_mask = new_mask or (masked and old.serial_number in self._revoked())
            if new_mask:
                mask_keys.give(folder, self.key, self.names.number(name), name)
            lasts = (old.not_valid_after_utc - old.not_valid_before_utc).days - 1
            self.issue(name, days or lasts, _hosts(old))
        return name, new_mask

    def revoke(self, name: str) -> int:
        """Revoke every certificate that `name` ever had, or its number; returns how many."""
        if name == BROKER:  # clients have no list of their own, and would go on trusting it
            right = "make a new authority in a new folder, with new certificates for all"
            raise InputError(name, "cannot be revoked: no client would hear of it", right)
        with identity.alone(self.folder):
            known = {name: str(k) for k, name in self.names.known().items()}
            alike = {name, known.get(name, name)} | {n for n, k in known.items() if k == name}
            serials = [each.serial for each in self.made() if each.name in alike]
            if not serials:
                right = "psofed deploy keys list shows who has one"
                raise InputError(str(self.folder), f"has no certificate of {name!r}", right)
            self._revoke(serials)
        return len(serials)

    def made(self) -> list[Made]:
        """All certificates that this folder has ever had, by name and time."""
        found, gone = set(), self._revoked()
        for path in (*(self.folder / "issued").glob("*.pem"), *self.folder.glob("*.pem")):
            if path.name == "crl.pem":
                continue
            try:
                each = x509.load_pem_x509_certificate(path.read_bytes())
            except (OSError, ValueError):  # to pass over one could mean that it is never revoked
                right = "take it from a copy, or move it away"
                raise InputError(str(path), "is not a readable certificate", right) from None
            (name,) = each.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            times = each.not_valid_before_utc, each.not_valid_after_utc
            serial = each.serial_number
            found.add(Made(str(name.value), serial, *times, serial in gone))
        return sorted(found, key=lambda c: (not c.name.isdecimal(), c.name.zfill(20), *c[2:4]))

    def issue(self, name: str, days: int, hosts: list[x509.GeneralName] | None = None) -> None:
        """A new key with the certificate of a broker's hosts, or of who connects."""
        key = ec.generate_private_key(ec.SECP256R1())
        until = min(_days_from_now(days), self.certificate.not_valid_after_utc)
        builder = _builder(_name(name), self.certificate.subject, key.public_key(), self.key, until)
        builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        builder = builder.add_extension(_usage("digital_signature"), critical=True)
        use = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        made = builder.sign(self.key, hashes.SHA256())
        identity.write(self.folder / f"{name}.key", _key_pem(key))
        # A copy of each stays, by which it can be revoked later.
        identity.make_folder(self.folder / "issued")
        for path in (f"issued/{name}-{made.serial_number:x}.pem", f"{name}.pem"):
            identity.write(self.folder / path, _pem(made), identity.PUBLIC)

    def _revoke(self, serials: list[int]) -> None:
        """Put these on the list of revoked certificates, which the broker reads.

        Of two lists with the same time OpenSSL takes the one that it has read first: each list is
        therefore a second younger than the one before it. It never ends before the authority: the
        broker would refuse everybody.
        """
        now, before = datetime.now(UTC).replace(microsecond=0), self._list()
        when = now - DAY if before is None else max(now - DAY, before.last_update_utc + SECOND)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(when)
            .next_update(self.certificate.not_valid_after_utc)
            .add_extension(_issuer(self.key), critical=False)
            .add_extension(x509.CRLNumber(int(when.timestamp())), critical=False)
        )
        known = {entry.serial_number: entry for entry in before or ()}
        for serial in serials:
            entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
            known.setdefault(serial, entry.build())
        for each in known.values():
            builder = builder.add_revoked_certificate(each)
        signed = builder.sign(self.key, hashes.SHA256())
        identity.write(self.folder / "crl.pem", _pem(signed), identity.PUBLIC)

    def _revoked(self) -> set[int]:
        return {entry.serial_number for entry in self._list() or ()}

    def _list(self) -> x509.CertificateRevocationList | None:
        path = self.folder / "crl.pem"
        try:
            return x509.load_pem_x509_crl(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            found = f"cannot be read: {getattr(error, 'strerror', None) or 'it is damaged'}"
            raise InputError(str(path), found, "take it from the broker or from a copy") from None


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    kind, lock = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, kind, lock)


def _pem(made: x509.Certificate | x509.CertificateRevocationList) -> bytes:
    return made.public_bytes(serialization.Encoding.PEM)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(host: str) -> x509.GeneralName:
    """A name or an address of a broker's machine."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not re.fullmatch(r"[A-Za-z0-9_.*-]+", host):
            right = "use a name in ASCII such as broker.example, or an address"
            raise InputError("--host", f"is {host!r}", right) from None
        return x509.DNSName(host)


def _hosts(certificate: x509.Certificate) -> list[x509.GeneralName] | None:
    """Those that a broker's certificate is for."""
    try:
        kind = x509.SubjectAlternativeName
        return list(certificate.extensions.get_extension_for_class(kind).value)
    except x509.ExtensionNotFound:
        return None


def _usage(*uses: str) -> x509.KeyUsage:
    """What a key may be used for, and nothing else."""
    return x509.KeyUsage(**{name: name in uses for name in USES})


def _issuer(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _days_from_now(days: int) -> datetime:
    return datetime.now(UTC) + days * DAY


def _builder(
    subject: x509.Name, issuer: x509.Name, public: Any, key: ec.EllipticCurvePrivateKey,
    until: datetime,
) -> x509.CertificateBuilder:  # fmt: skip
    """Of a certificate that is valid from yesterday, because a clock may be a little slow."""
    begin = min(datetime.now(UTC), until) - DAY
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(_issuer(key), critical=False)
    )


def _where(hosts: list[str], port: int) -> str:
    """Where mosquitto listens: at the one address, else everywhere; a name may be of a router."""
    far = [host for host in hosts if host not in OURS]
    if len(far) == 1 and isinstance(_host(far[0]), x509.IPAddress):
        return f"{port} {far[0]}"
    return f"{port}" if far else f"{port} 127.0.0.1"


def _configure(folder: Path, run: str, listener: str, largest: int) -> None:
    """Write mosquitto.conf and its ACL."""
    where = {"folder": folder.resolve(), "where": listener, "largest": largest}
    text = CONFIGURATION.format(**where, packet=largest + HEAD)
    identity.write(folder / "mosquitto.conf", text, identity.PUBLIC)
    # mosquitto requires that no other user can read the ACL
    identity.write(folder / "acl", RULES.format(run=run))

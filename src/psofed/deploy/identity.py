"""Rule 13: an authority, certificates of the broker, the server and the clients, and the broker's
configuration, in which the name of a certificate decides what its owner may send and receive."""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
from pathlib import Path
from typing import Any

from psofed.deploy.mqtt import TOPIC
from psofed.errors import InputError
from psofed.extras import need

AUTHORITY_DAYS, DAYS = 3650, 825
LARGEST = 4_000_000  # bytes of a message, if the run is not known
SERVER, BROKER, AUTHORITY = "server", "broker", "ca"
CONFIGURATION = """\
# mosquitto for psofed: mosquitto -c {folder}/mosquitto.conf
listener {port}
cafile {folder}/ca.pem
certfile {folder}/broker.pem
keyfile {folder}/broker.key
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


def init(folder: Path, run: str, hosts: list[str], port: int, largest: int = LARGEST) -> None:
    """A new authority, the certificates of broker and server, mosquitto.conf and its ACL."""
    x = _library()
    for host in hosts:
        x.check_host(host)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / "ca.key").exists():
            right = "give a new folder; a new authority would make all its certificates invalid"
            raise InputError(str(folder), "has an authority already", right)
        key = x.ec.generate_private_key(x.ec.SECP256R1())
        name = x.name("psofed authority")
        builder = x.builder(name, name, key.public_key(), AUTHORITY_DAYS)
        ca = builder.add_extension(x.x509.BasicConstraints(True, 0), critical=True)
        _write(x, folder, AUTHORITY, ca.sign(key, x.hashes.SHA256()), key)
        issue(folder, BROKER, hosts=hosts)
        issue(folder, SERVER)
        where = {"folder": folder.resolve(), "port": port, "run": run}
        where |= {"largest": largest, "packet": largest + TOPIC}
        (folder / "mosquitto.conf").write_text(CONFIGURATION.format(**where))
        (folder / "acl").write_text(RULES.format(**where))
        os.chmod(folder / "acl", 0o600)  # mosquitto requires that no other user can read it
    except OSError as error:
        found = f"cannot be written: {error.strerror}"
        raise InputError(str(folder), found, "give another folder") from None


def client(folder: Path, name: str, days: int = DAYS) -> None:
    """A key and a certificate for a client that has none."""
    number(name)
    if any((folder / f"{name}.{kind}").exists() for kind in ("pem", "key")):
        right = f"to renew it, move {name}.pem and {name}.key away first"
        raise InputError(str(folder), f"has a certificate of client {name} already", right)
    issue(folder, name, days=days)


def number(name: str) -> int:
    """The number of a client from its name, which must be written as we write it."""
    if not (name.isascii() and name.isdecimal() and str(int(name[:20])) == name):
        raise InputError("the name", f"is {name!r}", "use the number of a client: 0, 1, 2, ...")
    return int(name)


def issue(folder: Path, name: str, hosts: list[str] | None = None, days: int = DAYS) -> None:
    """A key and a certificate for `name`: a client's number, or the server."""
    x = _library()
    if not (name in (SERVER, BROKER) or (name.isascii() and name.isdecimal())):
        raise InputError("the name", f"is {name!r}", 'use the number of a client, or "server"')
    try:
        ca = x.x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
        ca_key = x.load_key((folder / "ca.key").read_bytes(), password=None)
    except (OSError, ValueError):
        right = "make one with `psofed keys init`"
        raise InputError(str(folder), "has no authority", right) from None
    key = x.ec.generate_private_key(x.ec.SECP256R1())
    builder = x.builder(x.name(name), ca.subject, key.public_key(), days)
    builder = builder.add_extension(x.x509.BasicConstraints(False, None), critical=True)
    usage = x.x509.ExtendedKeyUsage([x.server_use if hosts else x.client_use])
    builder = builder.add_extension(usage, critical=False)
    if hosts:
        builder = builder.add_extension(x.names(hosts), critical=False)
    _write(x, folder, name, builder.sign(ca_key, x.hashes.SHA256()), key)


def _write(x: Any, folder: Path, name: str, certificate: Any, key: Any) -> None:
    pem = x.encoding.PEM
    secret = key.private_bytes(pem, x.format.PKCS8, x.no_encryption())
    with open(folder / f"{name}.key", "wb", opener=_private) as new:
        new.write(secret)
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(pem))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class _Library:
    """The parts of `cryptography` that are used; only `psofed keys` needs it."""

    def __init__(self) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        self.x509, self.hashes, self.ec = x509, hashes, ec
        self.encoding, self.format = serialization.Encoding, serialization.PrivateFormat
        self.no_encryption = serialization.NoEncryption
        self.load_key = serialization.load_pem_private_key
        self.server_use = ExtendedKeyUsageOID.SERVER_AUTH
        self.client_use = ExtendedKeyUsageOID.CLIENT_AUTH
        self._common = NameOID.COMMON_NAME

    def name(self, text: str) -> Any:
        return self.x509.Name([self.x509.NameAttribute(self._common, text)])

    def names(self, hosts: list[str]) -> Any:
        return self.x509.SubjectAlternativeName([self._host(host) for host in hosts])

    def check_host(self, host: str) -> None:
        try:
            self._host(host)
            good = bool(re.fullmatch(r"[A-Za-z0-9_.*:-]+", host))
        except ValueError:
            good = False
        if not good:
            right = "use a name in ASCII such as broker.example, or an address"
            raise InputError("--host", f"is {host!r}", right)

    def _host(self, host: str) -> Any:
        try:
            return self.x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            return self.x509.DNSName(host)

    def builder(self, subject: Any, issuer: Any, public: Any, days: int) -> Any:
        now = datetime.datetime.now(datetime.UTC)
        begin = now - datetime.timedelta(days=max(1, 1 - days))  # a clock may be a little slow
        return (
            self.x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(self.x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(now + datetime.timedelta(days=days))
        )


def _library() -> _Library:
    need("cryptography", "deploy", "keys")
    return _Library()

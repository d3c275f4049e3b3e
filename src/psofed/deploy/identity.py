"""Rule 13: a folder with an authority, certificates of the broker, the server and the clients, and
the broker's configuration, in which the name of a certificate decides what its owner may do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from psofed.deploy import mask_keys, private, revocation
from psofed.deploy.mqtt import TOPIC
from psofed.deploy.signing import DAYS, Authority, Library
from psofed.errors import InputError

LARGEST = 4_000_000  # bytes of a message, if the run is not known
SERVER, BROKER = "server", "broker"
CONFIGURATION = """\
# mosquitto for psofed: mosquitto -c {folder}/mosquitto.conf
listener {port}
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


def init(
    folder: Path,
    run: str,
    hosts: list[str],
    port: int,
    largest: int = LARGEST,
    passphrase: Path | None = None,
    masks: bool = False,
) -> None:
    """A new authority, the certificates of broker and server, mosquitto.conf and its ACL.

    With `masks` its clients get mask keys, too.
    """
    x = Library()
    for host in hosts:
        x.check_host(host)
    authority = Authority.make(folder, passphrase)
    try:
        authority.revoke([])  # mosquitto does not start without a list
        _new(authority, BROKER, DAYS, hosts)
        _new(authority, SERVER, DAYS)
        if masks:
            mask_keys.begin(authority, run)
        where = {"folder": folder.resolve(), "port": port, "run": run}
        where |= {"largest": largest, "packet": largest + TOPIC}
        private.write(folder / "mosquitto.conf", CONFIGURATION.format(**where), private.PUBLIC)
        # mosquitto requires that no other user can read the ACL
        private.write(folder / "acl", RULES.format(**where))
    except InputError:
        (folder / "ca.key").unlink(missing_ok=True)  # nothing was given away: begin again
        raise


def client(folder: Path, name: str, days: int = DAYS, passphrase: Path | None = None) -> None:
    """A key and a certificate for a client that has none."""
    number(name)
    if any((folder / f"{name}.{kind}").exists() for kind in ("pem", "key")):
        right = f"psofed keys renew {name}"
        raise InputError(str(folder), f"has a certificate of client {name} already", right)
    issue(folder, name, days=days, passphrase=passphrase)


def number(name: str) -> int:
    """The number of a client from its name, which must be written as we write it."""
    if not (name.isascii() and name.isdecimal() and str(int(name[:20])) == name):
        raise InputError("the name", f"is {name!r}", "use the number of a client: 0, 1, 2, ...")
    return int(name)


def issue(
    folder: Path,
    name: str,
    hosts: list[str] | None = None,
    days: int = DAYS,
    passphrase: Path | None = None,
) -> None:
    """A new key and a certificate for `name`: a client's number, the server or the broker."""
    _known(name)
    authority = Authority(folder, passphrase)
    with private.alone(folder):
        if name.isdecimal() and mask_keys.wanted(folder):
            mask_keys.give(authority, int(name))
        _new(authority, name, days, hosts)
        revocation.allow(folder, name)


def renew(
    folder: Path,
    name: str,
    days: int | None = None,
    same_key: bool = False,
    passphrase: Path | None = None,
    new_mask: bool = False,
) -> bool:
    """A new certificate for who has one, which stays valid; whether there is a new key as well.

    A device that made its own key keeps it: only the certificate is new. So does nobody whose
    certificate was revoked: somebody else may have the keys.
    """
    _known(name)
    authority = Authority(folder, passphrase)
    x = authority.x
    with private.alone(folder):
        old, key = _certificate(x, folder, name), _key(x, folder, name)
        new = key is not None and not same_key
        revoked = old.serial_number in revocation.serials(x, folder)
        if revoked and not new:
            right = f"psofed keys token {name}" if key is None else "leave out --same-key"
            raise InputError(f"the key of {name}", "belongs to a revoked certificate", right)
        if new_mask:
            _has_mask(folder, name)
        if new_mask or (revoked and mask_keys.file(folder, name).exists()):
            mask_keys.give(authority, int(name))
        hosts = x.hosts(old) if name == BROKER else None
        lasts = days or (old.not_valid_after_utc - old.not_valid_before_utc).days - 1
        if new:
            _new(authority, name, lasts, hosts)
        else:
            public = (old if key is None else key).public_key()
            keep(folder, name, authority.sign(name, public, lasts, hosts))
        revocation.allow(folder, name)
    return new


def keep(folder: Path, name: str, pem: bytes) -> None:
    """Write the newest certificate of `name`, with a copy by which it can be revoked later."""
    serial = Library().x509.load_pem_x509_certificate(pem).serial_number
    private.make_folder(folder / "issued")
    private.write(folder / "issued" / f"{name}-{serial:x}.pem", pem, private.PUBLIC)
    private.write(folder / f"{name}.pem", pem, private.PUBLIC)


def _new(authority: Authority, name: str, days: int, hosts: list[str] | None = None) -> None:
    """A new key and its certificate."""
    x, folder = authority.x, authority.folder
    key = x.new_key()
    pem = authority.sign(name, key.public_key(), days, hosts)
    private.write(folder / f"{name}.key", x.key_bytes(key))
    keep(folder, name, pem)


def _known(name: str) -> None:
    if not (name in (SERVER, BROKER) or (name.isascii() and name.isdecimal())):
        right = 'use the number of a client, "server" or "broker"'
        raise InputError("the name", f"is {name!r}", right)


def _has_mask(folder: Path, name: str) -> None:
    """Refuse to make a mask key for who has none, or has made its own."""
    if not mask_keys.file(folder, name).exists():
        right = f"if its device made its own: psofed keys token {name}"
        raise InputError(str(folder), f"has no mask key of {name} that was made here", right)


def _certificate(x: Library, folder: Path, name: str) -> Any:
    path = folder / f"{name}.pem"
    try:
        return x.x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        right = "give the folder in which it was made"
        raise InputError(str(path), "is no certificate that could be renewed", right) from None


def _key(x: Library, folder: Path, name: str) -> Any:
    """The private key of `name`, if it was made here and is still here; a device has its own."""
    path = folder / f"{name}.key"
    if not path.exists():
        return None
    right = "take it from a copy, or move it away"
    try:
        return x.load_key(private.read(path, right).encode(), None)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(str(path), "is no private key", right) from None

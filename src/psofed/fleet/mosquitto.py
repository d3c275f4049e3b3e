"""Rule 13: mosquitto's configuration, in which the name of a certificate decides what its owner
may do, and how a client that was revoked loses the rights of its open connection."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from psofed.errors import InputError
from psofed.fleet import private
from psofed.fleet.address import HEAD

LARGEST = 4_000_000  # bytes of a message, if the run is not known
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
DENIAL = "\nuser {name}\ntopic deny #\n"


def configure(folder: Path, run: str, port: int, largest: int) -> None:
    """Write mosquitto.conf and its ACL."""
    where = {"folder": folder.resolve(), "port": port, "largest": largest}
    text = CONFIGURATION.format(**where, packet=largest + HEAD)
    private.write(folder / "mosquitto.conf", text, private.PUBLIC)
    # mosquitto requires that no other user can read the ACL
    private.write(folder / "acl", RULES.format(run=run))


def deny(folder: Path, name: str) -> None:
    """Nothing is allowed to `name`."""
    if not denied(folder, name):
        private.write(folder / "acl", _rules(folder) + DENIAL.format(name=name))


def denied(folder: Path, name: str) -> bool:
    """Whether the rules deny everything to `name`."""
    return DENIAL.format(name=name) in _rules(folder)


def allow(folder: Path, name: str) -> None:
    """Who gets a new certificate has rights again."""
    if denied(folder, name):
        private.write(folder / "acl", _rules(folder).replace(DENIAL.format(name=name), ""))


def reload(pid: int) -> None:
    """Tell mosquitto to read its certificates, the list and the ACL again."""
    right = "give that of mosquitto, as pidof says"
    with suppress(OSError):  # not every system has this file; others end by such a signal
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        if name != "mosquitto":
            raise InputError(f"process {pid}", f"is {name}, and is not told", right)
    try:
        os.kill(pid, signal.SIGHUP)
    except OSError as error:
        raise InputError(f"process {pid}", f"cannot be told: {error.strerror}", right) from None


def _rules(folder: Path) -> str:
    path = folder / "acl"
    try:
        return path.read_text()
    except OSError as error:
        found = f"cannot be read: {error.strerror}"
        raise InputError(str(path), found, "take it from the broker or from a copy") from None

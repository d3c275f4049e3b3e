"""Revocation: a certificate's number on the list that the broker reads, and no rights for its name.

The list keeps a revoked certificate from connecting. The rule in the ACL takes the rights of a
connection that is open already.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from psofed.deploy import certificates, private
from psofed.deploy.signing import Authority, Library, revoked
from psofed.errors import InputError

DENIAL = "\nuser {name}\ntopic deny #\n"
LISTED = "crlfile"


def revoke(folder: Path, name: str, passphrase: Path | None = None) -> list[int]:
    """Revoke every certificate that `name` ever had; returns their numbers.

    A server has no denial in the ACL: its next certificate would have no rights either.
    """
    authority = Authority(folder, passphrase)
    with private.alone(folder):
        mine = [each for each in certificates.known(folder) if each.name == name]
        if not mine:
            right = "psofed keys list shows who has one"
            raise InputError(str(folder), f"has no certificate of {name!r}", right)
        found = sorted({each.serial for each in mine})
        authority.revoke(found)
        if name.isdecimal() and not denied(folder, name):
            private.write(folder / "acl", _rules(folder) + DENIAL.format(name=name))
    return found


def denied(folder: Path, name: str) -> bool:
    """Whether the rules deny everything to `name`."""
    return (folder / "acl").exists() and DENIAL.format(name=name) in _rules(folder)


def allow(folder: Path, name: str) -> None:
    """Who gets a new certificate has rights again."""
    if denied(folder, name):
        private.write(folder / "acl", _rules(folder).replace(DENIAL.format(name=name), ""))


def serials(x: Library, folder: Path) -> set[int]:
    """The numbers of all certificates that were revoked."""
    return {entry.serial_number for entry in revoked(x, folder / "crl.pem") or ()}


def listed(folder: Path) -> bool:
    """Whether the broker's configuration names the list; those of earlier versions do not."""
    path = folder / "mosquitto.conf"
    return not path.exists() or f"\n{LISTED} " in path.read_text()


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

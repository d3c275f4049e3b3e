"""Rule 13: the files by which a machine proves who it is: private ones, secrets, certificates.

Devices have no package for certificates: what is needed of one the standard library reads.
"""

from __future__ import annotations

import os
import re
import secrets
import ssl
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from psofed.errors import InputError, written
from psofed.extras import locks
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.members import Names

PRIVATE, PUBLIC = 0o600, 0o644
ELSEWHERE = "give another folder"
SERVER, CLIENT = "psofed server secret", "psofed key of client {k}"
SIZE = 32  # bytes of a secret
EARLY = 30  # days before its end at which a certificate is an alarm
OWN, AUTHORITY, BROKER = "own", "authority", "broker"
REMEDIES = {
    OWN: "this machine's certificate {when}: psofed deploy keys renew",
    AUTHORITY: "the authority's certificate {when}: make a new authority (docs/deploy.md)",
    BROKER: "the broker's certificate {when}: psofed deploy keys renew broker",
}


def read(path: Path, right: str) -> str:
    """The text of a file that only its owner may read; `right` says where to get such a file.

    A link is followed: what counts is who can read the file that it leads to.
    """
    try:
        with path.open(encoding="ascii") as file:
            mode, text = os.fstat(file.fileno()).st_mode, file.read()
    except (OSError, UnicodeDecodeError) as error:
        found = f"cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}"
        raise InputError(str(path), found, right) from None
    _refuse(path, mode)
    return text


def check(path: Path) -> None:
    """Refuse a file that others can read; of one that is not there somebody else speaks."""
    with suppress(OSError):
        _refuse(path, path.stat().st_mode)


def _refuse(path: Path, mode: int) -> None:
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(str(path), "can be read by others", f"chmod 600 {path}")


def make_folder(folder: Path) -> None:
    """A folder for its owner only, unless there is one."""
    with written(folder, ELSEWHERE):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def write(path: Path, data: str | bytes, mode: int = PRIVATE) -> None:
    """Replace a file as a whole, also for a program that reads it now; links are refused."""
    content = data.encode() if isinstance(data, str) else data
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with written(path, ELSEWHERE):
        if path.is_symlink():
            raise InputError(str(path), "is a link to somewhere else", "move it away first")
        try:
            _create(new, content, mode)
            with suppress(FileNotFoundError, PermissionError):  # it stays whose it was
                before = path.stat()
                os.chown(new, before.st_uid, before.st_gid)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)


def create(path: Path, data: str) -> None:
    """A new file; an old one is never overwritten, nor a link followed."""
    make_folder(path.parent)
    with written(path, ELSEWHERE):
        try:
            _create(path, data.encode(), PRIVATE)
        except FileExistsError:
            right = "to replace it, move it away first"
            raise InputError(str(path), "exists already", right) from None


def _create(path: Path, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, PRIVATE), "wb") as file:
        os.chmod(path, mode)  # whatever the umask
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One command at a time changes a folder, so that none undoes what another has written."""
    fcntl = locks()
    with written(folder, ELSEWHERE):
        handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def make_secret(folder: Path) -> Path:
    """A new secret of a server, with which messages are sealed; an old one is never overwritten."""
    return _write_line(folder / "server.secret", SERVER, secrets.token_bytes(SIZE))


def give_secret(folder: Path, who: str) -> Path:
    """The key of a client, from the secret of the server in this folder."""
    known = names(folder)
    k = known.number(who)
    key = wire.derive(read_secret(folder / "server.secret"), k)
    return _write_line(folder / f"{known(k)}.secret", CLIENT.format(k=k), key)


def read_secret(path: Path, k: int | None = None) -> bytes:
    """The secret of the server or, with k, the key of that client."""
    kind = SERVER if k is None else CLIENT.format(k=k)
    right = f"make it with `psofed deploy keys secret{'' if k is None else f' {k}'}`"
    return read_line(path, kind, SIZE, right)


def read_line(path: Path, kind: str, size: int, right: str) -> bytes:
    """The bytes of this kind in a file that only its owner may read: one line, "KIND HEX"."""
    words, _, digits = read(path, right).strip().rpartition(" ")
    try:
        key = bytes.fromhex(digits)
    except ValueError:
        key = b""
    if words != kind or len(key) != size:
        found = f"is a {words!r}" if words and len(key) == size else "has no secret in it"
        raise InputError(str(path), f"{found}, not the {kind!r}", right)
    return key


def _write_line(path: Path, kind: str, key: bytes) -> Path:
    create(path, f"{kind} {key.hex()}\n")
    return path


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
        check(self.key)
        try:
            context.load_verify_locations(self.ca)
            context.load_cert_chain(self.certificate, self.key, password="")  # never ask for one
        except (OSError, ssl.SSLError) as error:
            found = f"cannot be used: {error.strerror or error}"
            files = f"{self.ca}, {self.certificate} or {self.key}"
            raise InputError(files, found, "make them with `psofed deploy keys`") from None
        return context

    def check(self, *alike: str) -> None:
        """Refuse another's certificate: the broker would drop its messages without an error."""
        found = self.read()[0]
        if found not in alike:
            right = f"give the certificate of {alike[0]!r}"
            raise InputError(str(self.certificate), f"is that of {found!r}", right)

    def read(self) -> tuple[str, datetime]:
        """The name and the end of this machine's certificate: the first in its file."""
        try:
            # The library's own reader of files; it has a public name for those of peers only.
            found: Any = ssl._ssl._test_decode_cert(str(self.certificate))  # type: ignore[attr-defined]
            fields = {key: value for pairs in found["subject"] for key, value in pairs}
            return fields["commonName"], end(found)
        except (OSError, ssl.SSLError, KeyError):
            right = "make it with `psofed deploy keys`"
            found = "cannot be used: it is not a certificate with a name"
            raise InputError(str(self.certificate), found, right) from None

    def ends(self, context: ssl.SSLContext) -> dict[str, datetime]:
        """When the own certificate ends, and the last of the authorities in the file."""
        authorities = [end(each) for each in context.get_ca_certs()]
        return {OWN: self.read()[1]} | ({AUTHORITY: max(authorities)} if authorities else {})


def end(certificate: Any) -> datetime:
    """When a certificate ends, as the standard library has read it."""
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC)


def days(ends: Mapping[str, datetime]) -> dict[str, int]:
    """Whole days that are left, by whose certificate."""
    now = datetime.now(UTC)
    return {whose: (end - now).days for whose, end in ends.items()}


def ending(ends: Mapping[str, datetime]) -> str:
    """What has to be renewed within 30 days; a text that changes once a day."""
    texts = []
    for whose, left in days(ends).items():
        if left < EARLY:
            when = f"ends in {left} days" if left >= 0 else "has ended"
            texts.append(REMEDIES[whose].format(when=f"{when} ({ends[whose]:%Y-%m-%d})"))
    return "; ".join(texts)


def names(folder: Path) -> Names:
    """The names in the access list of a folder of keys, which says whose topics are whose."""
    try:
        rules = (folder / "acl").read_text()
    except OSError:
        return Names()
    found = re.findall(r"^user (\S+)\ntopic write [^/\s]+/(\d+)/u$", rules, re.MULTILINE)
    return Names(later={int(k): name for name, k in found})

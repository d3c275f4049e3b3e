"""Masked sums: an X25519 key of each client, certified by the authority, and what each pair shares.

A server that could hand out public keys could invent members, and unmask everybody. Therefore all
public keys are in one file, the directory, which the authority has signed; clients have its
certificate already.
"""

from __future__ import annotations

import base64
import json
import secrets
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from psofed.errors import InputError
from psofed.federation.membership import LAST
from psofed.fleet import identity
from psofed.fleet.protocol.store import SLOTS

DIRECTORY = "masks.json"
SIZE = 32  # bytes of a key, and of the secret of a pair
SIGNED, SHARED = b"psofed mask keys\0", b"psofed pair"  # what a signature, a secret is for
FRESH = "a new key (`psofed deploy keys renew K --new-mask`)"
NEWEST = "take the newest from the folder of the authority"


@dataclass(frozen=True)
class Directory:
    """The public keys of all clients of a run, by their numbers."""

    run: str
    keys: Mapping[int, bytes]

    def to_bytes(self) -> bytes:
        """What the authority signs. Certificates and lists, which it signs too, begin otherwise."""
        run = self.run.encode()
        head = SIGNED + struct.pack(">HI", len(run), len(self.keys)) + run
        return head + b"".join(struct.pack(">I", k) + key for k, key in sorted(self.keys.items()))

    def check(self, path: Path, run: str, clients: int) -> None:
        """Refuse one of another run, or one in which clients are missing."""
        if self.run != run:
            raise InputError(str(path), f"is of run {self.run!r}, not of {run!r}", NEWEST)
        missing = [str(j) for j in range(clients) if j not in self.keys]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            right = f"psofed deploy keys add {missing[0]}, or {NEWEST}"
            raise InputError(str(path), f"has no key of client {missing[0]}{more}", right)


def shared(own: X25519PrivateKey, k: int, directory: Directory) -> dict[int, bytes]:
    """By client j, what client k shares with it: HKDF-SHA256 of their X25519 secret, bound to both
    numbers, both keys and the run."""
    found, keys = {}, directory.keys
    for j in keys:
        if j != k:
            one, two = sorted((k, j))
            info = SHARED + struct.pack(">II", one, two) + keys[one] + keys[two]
            info += directory.run.encode()
            secret = exchange(own, keys[j], j)
            found[j] = HKDF(hashes.SHA256(), SIZE, None, info).derive(secret)
    return found


def pairs(ca: Path, k: int, clients: int, run: str, who: str = "") -> dict[int, bytes]:
    """What client k shares with each other: from its own key, and a directory that is verified.

    Both lie next to the certificate of the authority; `who` is its name, if it has one.
    """
    secret, masks = file(ca.parent, who or k), ca.with_name(DIRECTORY)
    right = f"make it with `psofed deploy keys add {who or k}`"
    seed = identity.read_line(secret, _kind(k), SIZE, right)
    directory = read(masks, ca)
    directory.check(masks, run, clients)
    own = X25519PrivateKey.from_private_bytes(seed)
    if directory.keys.get(k) != own.public_key().public_bytes_raw():
        found = f"is not the key that {masks} has of client {k}"
        raise InputError(str(secret), found, f"give the key of this device; {NEWEST}")
    return shared(own, k, directory)


def claim(secret: Path, state: Path) -> None:
    """Refuse a key that has masked the uploads of another state folder.

    Masks follow from the keys and the round. A client that begins again in a new folder would send
    other values under the same masks, and whoever has both knows the difference. So does one whose
    records were deleted: the first is written before the key is claimed.
    """
    there, here = _mark(secret), state / "mask.used"
    if here.exists() and not any((state / slot).exists() for slot in SLOTS):
        found = f"has masked uploads of {state}, whose records are gone"
        raise InputError(str(secret), found, f"give {FRESH}, with a new folder")
    token = here.read_text() if here.exists() else secrets.token_hex(16)
    if there.exists() and there.read_text() != token:
        found = f"has masked uploads of another state folder than {state}"
        raise InputError(str(secret), found, f"give that one, or {FRESH}")
    for path in (here, there) if state.exists() else ():  # before, it is only checked
        if not path.exists():
            identity.write(path, token)


def _mark(secret: Path) -> Path:
    return secret.with_name(f"{secret.name}.used")


def exchange(own: X25519PrivateKey, public: bytes, j: int) -> bytes:
    """X25519; a key with which every secret would be zero is refused."""
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        found = "has no secret with anybody: the result would be zero"
        right = f"make another: `psofed deploy keys renew {j} --new-mask`"
        raise InputError(f"the mask key of client {j}", found, right) from None


def file(folder: Path, k: int | str) -> Path:
    """Where the private key of client k is."""
    return folder / f"{k}.mask"


def wanted(folder: Path) -> bool:
    """Whether clients of this authority have mask keys, as the file of the run said."""
    return (folder / DIRECTORY).exists()


def numbers(folder: Path) -> list[int]:
    """The clients that have a mask key."""
    return sorted(read(folder / DIRECTORY, folder / "ca.pem").keys) if wanted(folder) else []


def begin(folder: Path, authority: ec.EllipticCurvePrivateKey, run: str) -> None:
    """A directory without a client."""
    _write(folder, authority, Directory(run, {}))


def give(folder: Path, authority: ec.EllipticCurvePrivateKey, k: int, who: str) -> None:
    """A new key for client k, in a file for its owner only; its public half in the directory.

    The directory is verified first: what was changed there must not get a new signature.
    """
    if k > LAST:
        raise InputError("the number of a client", f"is {k}", f"use at most {LAST}")
    known, key = read(folder / DIRECTORY, folder / "ca.pem"), X25519PrivateKey.generate()
    identity.write(file(folder, who), f"{_kind(k)} {key.private_bytes_raw().hex()}\n")
    _mark(file(folder, who)).unlink(missing_ok=True)  # that was about another key
    keys = {**known.keys, k: key.public_key().public_bytes_raw()}
    _write(folder, authority, Directory(known.run, keys))


def _write(folder: Path, authority: ec.EllipticCurvePrivateKey, directory: Directory) -> None:
    signature = authority.sign(directory.to_bytes(), ec.ECDSA(hashes.SHA256()))
    keys = {str(k): _text(key) for k, key in sorted(directory.keys.items())}
    table = {"run": directory.run, "keys": keys, "signature": _text(signature)}
    identity.write(folder / DIRECTORY, json.dumps(table, indent=1) + "\n", identity.PUBLIC)


def read(path: Path, ca: Path) -> Directory:
    """A directory that an authority in the file `ca` has signed; any other is refused."""
    try:
        table = json.loads(path.read_text(encoding="ascii"))
        keys = {_number(k): _key(text) for k, text in table["keys"].items()}
        found, signature = Directory(str(table["run"]), keys), base64.b64decode(table["signature"])
        data = found.to_bytes()
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}", NEWEST) from None
    except Exception:  # there are many for what anybody may have written into a file
        raise InputError(str(path), "is not a directory of mask keys", NEWEST) from None
    if not any(_signed(public, signature, data) for public in _authorities(ca)):
        wrong = f"is not signed by the authority in {ca}, or was changed"
        raise InputError(str(path), wrong, NEWEST)
    first: dict[bytes, int] = {}
    for k, key in found.keys.items():
        if (other := first.setdefault(key, k)) != k:
            raise InputError(str(path), f"has one key for clients {other} and {k}", NEWEST)
    return found


def _authorities(ca: Path) -> list[Any]:
    """The public keys of authorities in a file: a certificate of anybody else signs nothing."""
    right = "give the ca.pem of the authority"
    try:
        return [
            each.public_key()
            for each in x509.load_pem_x509_certificates(ca.read_bytes())
            if any(
                e.value.ca for e in each.extensions if isinstance(e.value, x509.BasicConstraints)
            )
        ]
    except OSError as error:
        raise InputError(str(ca), f"cannot be read: {error.strerror}", right) from None
    except ValueError:
        raise InputError(str(ca), "is not a certificate", right) from None


def _signed(public: Any, signature: bytes, data: bytes) -> bool:
    if not isinstance(public, ec.EllipticCurvePublicKey):
        return False
    try:
        public.verify(signature, data, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def _number(text: str) -> int:
    k = int(text)
    if str(k) != text or not 0 <= k <= LAST:
        raise ValueError(text)
    return k


def _key(text: str) -> bytes:
    key = base64.b64decode(text, validate=True)
    if len(key) != SIZE:
        raise ValueError(text)
    return key


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _kind(k: int) -> str:
    return f"psofed mask key of client {k}"

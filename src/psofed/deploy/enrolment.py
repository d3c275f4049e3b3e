"""Enrolment: a device makes its own key, and proves by a token that it may have a certificate.

The token is the seed of a signing key. The authority keeps only the public half, the device signs
its request with the other. So neither what the authority keeps nor what travels back to it lets
anybody else enrol, and a request cannot be exchanged on its way.
"""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from psofed.deploy import identity, mask_keys, private, revocation
from psofed.deploy.secret import one_line
from psofed.deploy.signing import Authority, Library
from psofed.errors import InputError

DAYS, HOURS = 90, 24
SIZE = 16  # bytes of a token
TOKENS, PROOF = "tokens.json", "psofed proof "
MASKED, MASK = " with masks", "psofed mask key "  # of a token, and of a request's line
AGAIN = "psofed keys token"


def token(folder: Path, name: str, hours: float = HOURS) -> Path:
    """A token with which a device may become client `name`, once; one before it is void."""
    k, x = identity.number(name), Library()
    _without_key(folder, name)
    if not (folder / "ca.pem").exists():
        raise InputError(str(folder), "has no authority", "make one with `psofed keys init`")
    seed, path = secrets.token_bytes(SIZE), folder / f"{name}.token"
    until = datetime.now(UTC) + timedelta(hours=hours)
    with private.alone(folder):
        known = _tokens(folder)
        public = _signer(x, k, seed).public_key().public_bytes_raw().hex()
        known[name] = {"public": public, "until": until.isoformat(), "used": None}
        private.write(folder / TOKENS, json.dumps(known, indent=1))
        told = _kind(k) + MASKED * mask_keys.wanted(folder)
        private.write(path, f"{told} {seed.hex()}\n")
    return path


def request(folder: Path, name: str, token_file: Path) -> Path:
    """On the device: a new private key, and a request for its certificate.

    If clients have mask keys, it makes its own: the public half is a line of the request, before
    the proof.
    """
    k, x = identity.number(name), Library()
    seed, masked = _seed(token_file, k)
    key = x.new_key()
    builder = x.x509.CertificateSigningRequestBuilder().subject_name(x.name(name))
    asked = builder.sign(key, x.hashes.SHA256()).public_bytes(x.encoding.PEM)
    if masked:
        asked += f"{MASK}{mask_keys.generate(folder, k).hex()}\n".encode()
    proof = _signer(x, k, seed).sign(asked)
    try:
        private.create(folder / f"{name}.key", x.key_bytes(key).decode())
    except InputError:
        if masked:  # it was made just now, and is of no use alone
            mask_keys.file(folder, k).unlink()
        raise
    path = folder / f"{name}.csr"
    private.write(path, asked + f"{PROOF}{proof.hex()}\n".encode(), private.PUBLIC)
    return path


def sign(
    folder: Path, path: Path, days: int = DAYS, passphrase: Path | None = None
) -> tuple[str, bool]:
    """On the authority's side: the certificate for a request; the name, and if it had no rights."""
    authority = Authority(folder, passphrase)
    x = authority.x
    asked, proof, request, name = _read(x, path)
    with private.alone(folder):
        _without_key(folder, name)
        known = _tokens(folder)
        _admit(x, path, known.get(name), name, asked, proof)
        public = _mask(path, asked) if mask_keys.wanted(folder) else None
        # First used, then signed: a failure between the two costs a token, not a secret.
        known[name]["used"] = datetime.now(UTC).isoformat()
        private.write(folder / TOKENS, json.dumps(known, indent=1))
        (folder / f"{name}.token").unlink(missing_ok=True)
        if public is not None:
            mask_keys.put(authority, int(name), public)
        identity.keep(folder, name, authority.sign(name, request.public_key(), days))
        again = revocation.denied(folder, name)
        revocation.allow(folder, name)
    return name, again


def _admit(x: Library, path: Path, made: Any, name: str, asked: bytes, proof: bytes) -> None:
    """Refuse a request that is not signed with the token of its client, or not in time."""
    right = f"{AGAIN} {name}"
    if made is None:
        raise InputError(str(path), f"has no token: none was made for client {name}", right)
    public = x.ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(made["public"]))
    try:
        public.verify(proof, asked)
    except x.invalid:
        found = f"was not made with the token of client {name}, or was changed"
        raise InputError(str(path), found, f"use the newest token, or {right}") from None
    if made["used"] is not None:
        raise InputError(str(path), "was made with a token that is used already", right)
    if datetime.now(UTC) > datetime.fromisoformat(made["until"]):
        found = f"was made with a token that expired at {made['until'][:16]} UTC"
        raise InputError(str(path), found, right)


def _mask(path: Path, asked: bytes) -> bytes:
    """The public mask key in a request, which its proof is about as well."""
    _, _, digits = asked.decode().rpartition(MASK)
    try:
        key = bytes.fromhex(digits)
    except ValueError:
        key = b""
    if len(key) != mask_keys.SIZE:
        found, right = "has no mask key", "make token and request with this version of psofed"
        raise InputError(str(path), found, right)
    return key


def _seed(path: Path, k: int) -> tuple[bytes, bool]:
    """What is in a token: the seed, and whether the clients of its authority have mask keys."""
    right = f"make it with `{AGAIN} {k}`"
    masked = private.read(path, right).startswith(f"{_kind(k)}{MASKED} ")
    return one_line(path, _kind(k) + MASKED * masked, SIZE, right), masked


def _read(x: Library, path: Path) -> tuple[bytes, bytes, Any, str]:
    """The request as it was signed, the proof, the request itself, and the name in it."""
    right = "make it on the device with `psofed keys enrol`"
    try:
        text = path.read_text(encoding="ascii")
        asked, _, digits = text.rpartition(PROOF)
        request, proof = x.x509.load_pem_x509_csr(asked.encode()), bytes.fromhex(digits)
        curve = getattr(request.public_key(), "curve", None)
        good = request.is_signature_valid and isinstance(curve, x.ec.SECP256R1)
        (name,) = (str(each.value) for each in request.subject)
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}", right) from None
    except Exception:  # the library has many for what anybody may have written into a file
        raise InputError(str(path), "is no request for a certificate", right) from None
    if not good:
        found = "is not signed with the key that it is about, or that is not on the curve P-256"
        raise InputError(str(path), found, right)
    identity.number(name)
    return asked.encode(), proof, request, name


def _signer(x: Library, k: int, seed: bytes) -> Any:
    """The signing key of a token; it is another for each client."""
    secret = sha256(f"{_kind(k)} {seed.hex()}".encode()).digest()
    return x.ed25519.Ed25519PrivateKey.from_private_bytes(secret)


def _kind(k: int) -> str:
    return f"psofed token of client {k}"


def _without_key(folder: Path, name: str) -> None:
    """A key that was made here would look like that of the device, which makes its own."""
    path = folder / f"{name}.key"
    if path.exists():
        right = f"move it away if the device shall make its own, or psofed keys renew {name}"
        raise InputError(str(path), f"is a key of client {name} already", right)


def _tokens(folder: Path) -> dict[str, Any]:
    path = folder / TOKENS
    if not path.exists():
        return {}
    try:
        found: dict[str, Any] = json.loads(private.read(path, "move it away"))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        right = "move it away; tokens that were not used have to be made again"
        raise InputError(str(path), "is damaged", right) from None
    return found

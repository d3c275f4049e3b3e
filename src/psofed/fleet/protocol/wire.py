"""Wire: the format of all messages. A short head, little-endian, then what the method encodes.

Byte 0: version (4 bits), kind (2 bits), type of the values (2 bits).
Bytes 1-4: digest of everything that both ends must agree on.
Bytes 5-8: round n of the task.
Bytes 9-11: incarnation of the server, in invitations only.

With the second kind of invitation a client starts over (rule 17). In the other direction the
kinds 1 and 3 belong to masked sums (rule 19): the server asks for seeds, clients reveal them.

With a secret, a *seal* follows: eight bytes that only holders of the key can make (rule 13). Each
client has a key that is derived from the server's secret, for the frames of that client in both
directions.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass
from struct import Struct
from typing import Any

VERSION = 1
INVITE, UPLOAD, HELLO, BEGIN = range(4)
INVITATIONS = (INVITE, BEGIN)
QUESTION, SEEDS = UPLOAD, BEGIN  # the same kinds in the other direction: rule 19
TYPES = {"": 0, "float16": 1, "float32": 2, "float64": 3}
IF_BLANK = ""  # the type of an invitation to a client without state only, and of its first answer
REPORT = 35  # bytes of the longest hello, which reports on answers and on a mix
LAST_ROUND, LAST_INCARNATION = 2**32 - 1, 2**24 - 1
ASLEEP = "asleep"  # a member that is not asked, because it has not answered
MISSED = 10_000  # starts of the server that a client may have missed
# What a client can be, other than just a member.
WORDS = ("", "not a member", "excluded", "removed", ASLEEP)
_HEAD, _INCARNATION = Struct("<BII"), Struct("<HB")
SEAL = 8  # bytes: a forger is right once in 2^64 frames, and each wrong one is counted
UP, DOWN = b"up", b"down"


class RefusedError(ValueError):
    """A message that is not acted on; why, in one word and in a sentence."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


@dataclass(frozen=True)
class Frame:
    """One message: its kind, the run it belongs to, the round, the incarnation and its values."""

    kind: int
    digest: int
    n: int
    incarnation: int = 0
    wire: str = ""
    body: bytes = b""


def encode(frame: Frame) -> bytes:
    """A frame as bytes."""
    if not (0 <= frame.n <= LAST_ROUND and 0 <= frame.incarnation <= LAST_INCARNATION):
        raise RefusedError(
            "number", f"round {frame.n} or incarnation {frame.incarnation} is too large"
        )
    first = VERSION << 4 | frame.kind << 2 | TYPES[frame.wire]
    start = _HEAD.pack(first, frame.digest, frame.n)
    if frame.kind in INVITATIONS:
        high, low = divmod(frame.incarnation, 2**16)
        start += _INCARNATION.pack(low, high)
    return start + frame.body


def decode(data: bytes, limit: int) -> Frame:
    """The frame that `encode` was given; the size is checked before anything else."""
    if not _HEAD.size <= len(data) <= limit:
        raise RefusedError(
            "size", f"received {len(data)} bytes, {_HEAD.size} to {limit} are possible"
        )
    first, digest, n = _HEAD.unpack_from(data)
    if first >> 4 != VERSION:
        raise RefusedError("version", _other(first >> 4))
    kind, incarnation = first >> 2 & 3, 0
    if len(data) < head(kind):
        raise RefusedError("size", f"received {len(data)} bytes, the head alone has {head(kind)}")
    if kind in INVITATIONS:
        low, high = _INCARNATION.unpack_from(data, _HEAD.size)
        incarnation = high << 16 | low
    wire = next(name for name, code in TYPES.items() if code == first & 3)
    return Frame(kind, digest, n, incarnation, wire, bytes(data[head(kind) :]))


def _other(version: int) -> str:
    """Whom to upgrade; byte 0 has the version in every version, so that both ends can say it."""
    where = "this end" if version > VERSION else "the other end"
    return f"the other end speaks protocol {version}, this one {VERSION}: upgrade psofed at {where}"


def check_start(found: int, seen: int) -> None:
    """Rule 7: the start of a server that was not replaced, and that can follow the highest seen.

    Without the second part, one forged invitation could make a client refuse its server for ever.
    A client that has seen none (0) accepts half of all numbers, so that there is one above each.
    """
    if found < seen:
        raise RefusedError(
            "fenced",
            f"server start {found} was replaced by {seen}; stop the old server, or if there is"
            f" none, start the server once with --set start={seen + 1}",
        )
    if found > (seen + MISSED if seen else LAST_INCARNATION // 2):
        raise RefusedError(
            "jump",
            f"server start {found} cannot follow {seen}, the highest that was seen: at most"
            f" {MISSED} can be missed; if it is right, give the client a new state folder",
        )


def word(body: bytes) -> str:
    """What a client is, from the body of a hello of its server; empty: a member."""
    return WORDS[body[0]] if len(body) == 1 and body[0] < len(WORDS) else ""


def standing(what: str) -> bytes:
    """The body of a hello that says to a client what it is."""
    return bytes([WORDS.index(what)]) if what else b""


def head(kind: int) -> int:
    """Bytes besides the values."""
    return _HEAD.size + (_INCARNATION.size if kind in INVITATIONS else 0)


def size(kind: int, values: int) -> int:
    """Bytes of a frame, from the bytes of its values."""
    return head(kind) + values


def digest(agreement: dict[str, Any]) -> int:
    """Rule 3: four bytes that differ when the two ends do not compute the same thing."""
    text = json.dumps({"version": VERSION, **agreement}, sort_keys=True)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")


def derive(secret: bytes, k: int) -> bytes:
    """The key of client k."""
    return hashlib.blake2b(b"psofed client %d" % k, key=secret, digest_size=32).digest()


def seal(key: bytes | None, direction: bytes, frame: bytes) -> bytes:
    """A frame with its seal; without a key, the frame."""
    return frame if key is None else frame + _tag(key, direction, frame)


def unseal(key: bytes | None, direction: bytes, data: bytes) -> bytes:
    """The frame, if the seal is right; this is checked before anything of it is read."""
    if key is None:
        return data
    frame, tag = data[:-SEAL], data[-SEAL:]
    if not hmac.compare_digest(tag, _tag(key, direction, frame)):
        raise RefusedError("mac", "the seal is wrong: the other end has another --secret, or none")
    return frame


def _tag(key: bytes, direction: bytes, frame: bytes) -> bytes:
    # The direction is part of it, so that no frame can be sent back to who made it.
    return hashlib.blake2b(frame, key=key, digest_size=SEAL, person=direction).digest()

"""Seal: eight bytes at the end of a frame that only who knows the key can make.

The server has a secret, and each client a key that is derived from it. So a client's key seals
the frames of that client only, in both directions.
"""

from __future__ import annotations

import hashlib
import hmac

from psofed.protocol.wire import WireError

SIZE = 8  # bytes: a forger is right once in 2^64 frames, and each wrong one is counted
UP, DOWN = b"up", b"down"


def derive(secret: bytes, k: int) -> bytes:
    """The key of client k.

    >>> derive(bytes(32), 1) == derive(bytes(32), 2)
    False
    """
    return hashlib.blake2b(b"psofed client %d" % k, key=secret, digest_size=32).digest()


def seal(key: bytes | None, direction: bytes, frame: bytes) -> bytes:
    """A frame with its seal; without a key, the frame.

    >>> frame = seal(bytes(32), UP, b"frame")
    >>> len(frame), unseal(bytes(32), UP, frame), seal(None, UP, b"frame")
    (13, b'frame', b'frame')
    """
    return frame if key is None else frame + _tag(key, direction, frame)


def unseal(key: bytes | None, direction: bytes, data: bytes) -> bytes:
    """The frame, if the seal is right; this is checked before anything of it is read."""
    if key is None:
        return data
    frame, tag = data[:-SIZE], data[-SIZE:]
    if not hmac.compare_digest(tag, _tag(key, direction, frame)):
        raise WireError("mac", "the seal is wrong: the other end has another --secret, or none")
    return frame


def _tag(key: bytes, direction: bytes, frame: bytes) -> bytes:
    # The direction is part of it, so that no frame can be sent back to who made it.
    return hashlib.blake2b(frame, key=key, digest_size=SIZE, person=direction).digest()

"""Small frames: what goes to a microcontroller and comes back, by radio or on a serial line.

Byte 0: the number of the part, and 0x80 in what begins: who starts over, or says hello.
Bytes 1-3: the round n; in a hello the one after the last that was answered.
The rest: a part of what the method encodes, whole values, as many as fit; in a hello the digest.

On a line, SLIP (RFC 1055) says where a frame ends, and two bytes of its CRC whether it is whole.
psofed.h has the same in C.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from zlib import crc32

FRAME = 51  # bytes: the largest payload of LoRaWAN at its lowest rate
HEAD, FRESH = 4, 0x80
MOST_PARTS = 128
LAST_ROUND = 2**24 - 2
END, ESCAPES = b"\xc0", {b"\xdb": b"\xdb\xdd", b"\xc0": b"\xdb\xdc"}
WRONG = re.compile(rb"\xdb(?![\xdc\xdd])")
CHECK = 2  # bytes of the CRC


def room(size: int, frame: int = FRAME) -> int:
    """Bytes of whole values, each of `size`, in a frame.

    >>> room(2), room(4)
    (46, 44)
    """
    return (frame - HEAD) // size * size


def split(n: int, body: bytes, size: int, fresh: bool = False, frame: int = FRAME) -> list[bytes]:
    """The frames of a body for round n; one without values is one frame, too."""
    head, each = n.to_bytes(3, "little"), room(size, frame)
    parts = [body[at : at + each] for at in range(0, max(len(body), 1), each)]
    return [bytes([FRESH * fresh | i]) + head + part for i, part in enumerate(parts)]


def hello(last: int, digest: int) -> bytes:
    """What a device says when it begins: its last round, or -1, and of which run it is."""
    return bytes([FRESH]) + (last + 1).to_bytes(3, "little") + digest.to_bytes(4, "little")


def greeting(frame: bytes) -> tuple[int, int] | None:
    """The last round and the digest in a hello; None: it is none.

    >>> greeting(hello(7, 2**32 - 1)), greeting(split(7, b"1234", 4)[0])
    ((7, 4294967295), None)
    """
    if len(frame) != HEAD + 4 or frame[0] != FRESH:
        return None
    return number(frame) - 1, int.from_bytes(frame[HEAD:], "little")


def number(frame: bytes) -> int:
    """The round of a frame."""
    return int.from_bytes(frame[1:HEAD], "little")


class Parts:
    """What has come of a body of `length` bytes for one round."""

    def __init__(self, n: int, length: int, size: int, frame: int = FRAME) -> None:
        self.n = n
        self.wanted = split(n, bytes(length), size, frame=frame)  # what their heads and sizes are
        self.come: dict[int, bytes] = {}

    def take(self, frame: bytes) -> bytes | None:
        """The body, once all parts have come. What is no part of it changes nothing."""
        part = frame[0] if len(frame) >= HEAD else len(self.wanted)
        if part < len(self.wanted):
            wanted = self.wanted[part]
            if len(frame) == len(wanted) and frame[:HEAD] == wanted[:HEAD]:
                self.come[part] = frame[HEAD:]
        if len(self.come) < len(self.wanted):
            return None
        return b"".join(self.come[i] for i in range(len(self.wanted)))


def packed(frame: bytes) -> bytes:
    """A frame on a line; noise before it is a frame of its own.

    >>> packed(bytes([1, 0xc0])).hex()
    'c001dbdc0ee1c0'
    """
    data = frame + (crc32(frame) & 0xFFFF).to_bytes(CHECK, "little")
    for byte, instead in ESCAPES.items():
        data = data.replace(byte, instead)
    return END + data + END


class SerialLine:
    """The bytes of a line, as they come in pieces, and the frames in them."""

    def __init__(self, frame: int = FRAME) -> None:
        self.most = 2 * (frame + CHECK)
        self.broken = 0  # frames that did not come as they were sent
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The frames that end in this piece."""
        *whole, rest = (self._rest + data).split(END)
        for each in whole:
            wrong = WRONG.search(each)
            for byte, instead in reversed(ESCAPES.items()):
                each = each.replace(instead, byte)
            frame, check = each[:-CHECK], b"" if wrong else each[-CHECK:]
            if len(each) > CHECK and (crc32(frame) & 0xFFFF).to_bytes(CHECK, "little") == check:
                yield frame
            else:
                self.broken += bool(each)
        self._rest = rest[: self.most + 1]  # what is too long stays too long: its CRC is wrong

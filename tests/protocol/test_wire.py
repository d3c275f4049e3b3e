"""The wire: every frame survives, no other bytes become one; seals: who has no key makes none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed.core import payload
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.confidence import Report

SECRET = bytes(range(32))


def frame(**fields):
    return wire.Frame(**fields if fields["kind"] == wire.INVITE else fields | {"incarnation": 0})


frames = st.builds(
    frame,
    kind=st.sampled_from([wire.INVITE, wire.UPLOAD, wire.HELLO]),
    digest=st.integers(0, 2**32 - 1),
    n=st.integers(0, wire.LAST_ROUND),
    incarnation=st.integers(0, wire.LAST_INCARNATION),
    wire=st.sampled_from(list(wire.TYPES)),
    body=st.binary(max_size=200),
)


@given(frames)
def test_every_frame_survives_the_wire(frame):
    data = wire.encode(frame)
    assert len(data) == wire.size(frame.kind, len(frame.body)) <= len(frame.body) + 12
    assert wire.decode(data, len(data)) == frame
    with pytest.raises(wire.RefusedError, match=r"received \d+ bytes"):
        wire.decode(data, len(data) - 1)


@given(st.binary(max_size=64), st.integers(0, 64))
def test_other_bytes_are_refused_or_are_a_frame(data, limit):
    try:
        frame = wire.decode(data, limit)
    except wire.RefusedError as error:
        reason = error.reason
    else:
        reason = ""
        assert len(data) <= limit
        assert wire.encode(frame) == data
    assert reason in ("", "size", "version", "kind")


@pytest.mark.parametrize(
    ("version", "where"), [(0, "the other end"), (2, "this end"), (15, "this end")]
)
@given(frame=frames)
def test_a_frame_of_another_protocol_says_which_end_to_upgrade(version, where, frame):
    data = wire.encode(frame)
    data = bytes([version << 4 | data[0] & 15]) + data[1:]
    with pytest.raises(wire.RefusedError) as caught:
        wire.decode(data, len(data))
    assert caught.value.reason == "version"
    assert str(caught.value) == (
        f"the other end speaks protocol {version}, this one 1: upgrade psofed at {where}"
    )


REPORT = Report(9, 8, 0.5, 9, 1).to_bytes()


@pytest.mark.parametrize(
    ("frame", "data"), [
    (wire.Frame(wire.INVITE, 0x01020304, 5, 6, "float32", b"ab"), "1204030201050000000600006162"),
    (wire.Frame(wire.INVITE, 1, 2, 2**24 - 1, "float16", b"z"), "110100000002000000ffffff7a"),
    (wire.Frame(wire.UPLOAD, 0x01020304, 2**32 - 1, 0, "float64"), "1704030201ffffffff"),
    (wire.Frame(wire.UPLOAD, 0, 0, 0, "float32", payload.encode(np.array([1.5, -2.0]), "float32")),
     "1600000000000000000000c03f000000c0"),
    (wire.Frame(wire.HELLO, 0xFFFEFDFC, 7, body=REPORT),
     "18fcfdfeff0700000009000000080000000000003f0900000001000000"),
])  # fmt: skip
def test_frames_are_byte_for_byte_those_of_the_specification(frame, data):
    assert wire.encode(frame).hex() == data


def test_keys_and_seals_are_those_of_the_specification():
    key = wire.derive(bytes(32), 3)
    assert key.hex() == "58225377ebce77246d709d7d341c97d75df1dc18a581ac48af44d4adb0b52922"
    sealed = {way: wire.seal(key, way, b"frame")[5:].hex() for way in (wire.UP, wire.DOWN)}
    assert sealed == {wire.UP: "ec9cb34a1adaa03a", wire.DOWN: "dc97856274bbf149"}


def test_a_number_that_does_not_fit_is_not_sent():
    for n, incarnation in ((2**32, 0), (0, 2**24), (-1, 0)):
        with pytest.raises(wire.RefusedError, match="too large"):
            wire.encode(wire.Frame(wire.UPLOAD, 0, n, incarnation))


@given(st.binary(max_size=100), st.integers(0, 10**6), st.data())
def test_a_frame_is_opened_only_whole_unchanged_in_its_direction_with_its_key(frame, k, data):
    key = wire.derive(SECRET, k)
    closed = wire.seal(key, wire.UP, frame)
    assert len(closed) == len(frame) + wire.SEAL == len(frame) + 8
    assert wire.unseal(key, wire.UP, closed) == frame
    at = data.draw(st.integers(0, len(closed) - 1))
    wrong = [
        (key, wire.UP, closed[:at] + bytes([closed[at] ^ 1]) + closed[at + 1 :]),
        (key, wire.UP, closed[:at]),
        (key, wire.UP, closed + b"0"),
        (key, wire.DOWN, closed),
        (wire.derive(SECRET, k + 1), wire.UP, closed),
        (wire.derive(bytes(32), k), wire.UP, closed),
        (key, wire.UP, frame),
    ]
    for attempt in wrong:
        with pytest.raises(wire.RefusedError) as refused:
            wire.unseal(*attempt)
        assert refused.value.reason == "mac"

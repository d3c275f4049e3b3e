"""The wire: every frame survives, no other bytes become one; seals: who has no key makes none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.loopback import K, World
from psofed.core import payload
from psofed.fleet.protocol import wire

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


@given(frames, st.integers(1, 100))
def test_a_frame_above_the_limit_is_refused_unread(frame, cut):
    data = wire.encode(frame)
    with pytest.raises(wire.RefusedError, match=r"received \d+ bytes") as caught:
        wire.decode(data, len(data) - cut)
    assert caught.value.reason == "size"


@pytest.mark.parametrize(("values", "type", "most"), [(5, "float32", 32), (9, "float32", 51)])
def test_small_windows_fit_small_links(values, type, most):
    body = payload.encode(np.ones(values), type)
    assert len(wire.encode(wire.Frame(wire.INVITE, 1, 2, 3, type, body))) <= most


@pytest.mark.parametrize("type", ["float16", "float32", "float64"])
def test_values_of_every_type_are_little_endian(type):
    body = payload.encode(np.array([1.5, -2.0]), type)
    assert np.frombuffer(body, payload.FORMATS[type]).tolist() == [1.5, -2.0]
    assert payload.FORMATS[type].startswith("<")


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


REPORT = wire.report(9, 8, 0.5, 9, 1)


@pytest.mark.parametrize(
    ("frame", "data"),
    [
        (wire.Frame(wire.INVITE, 0x01020304, 5, 6, "float32", b"ab"), "1204030201050000000600006162"),
        (wire.Frame(wire.INVITE, 1, 2, 2**24 - 1, "float16", b"z"), "110100000002000000ffffff7a"),
        (wire.Frame(wire.UPLOAD, 0x01020304, 2**32 - 1, 0, "float64"), "1704030201ffffffff"),
        (wire.Frame(wire.HELLO, 0xFFFEFDFC, 7, body=REPORT),
         "18fcfdfeff0700000009000000080000000000003f0900000001000000"),
    ],
)  # fmt: skip
def test_frames_are_byte_for_byte_those_of_earlier_versions(frame, data):
    assert wire.encode(frame).hex() == data


def test_keys_and_seals_are_those_of_earlier_versions():
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


def test_seals_change_nothing_but_eight_bytes_a_frame():
    bare, sealed = World(), World(secret=SECRET)
    closed = sealed.rounds(10)
    for one, other in zip(bare.rounds(10), closed, strict=True):
        assert other.up - one.up == other.down - one.down == 8 * 2
    assert (bare.model == sealed.model).all()
    traffic = [sum(c.up for c in closed), sum(c.down for c in closed)]
    assert sealed.server.traffic.tolist() == traffic


def test_the_key_of_one_client_speaks_for_no_other_and_a_stranger_for_nobody():
    world = World(secret=SECRET)
    server, members = world.server, world.members
    k, other = server.missing
    answer = members[k].take(server.frames()[k])[0]
    bare = answer[: -wire.SEAL]
    forged = wire.seal(members[other].key, wire.UP, bare)
    for data in (forged, bare, bytes(8), b"", wire.seal(SECRET, wire.UP, bare)):
        assert server.take(k, data) == "mac"
    assert server.take(other, answer) == "mac", "nor on another's topic"
    assert members[other].take(server.frames()[k])[0] is None
    assert members[other].refused == {"mac": 1}
    assert server.take(k, answer) == "accepted"
    server.commit()
    counts = world.balanced()
    assert server.server.ledger.reasons["mac"] == 6
    assert (counts["refused"], counts["lost"]) == (0, 1), "nothing of the other one has come"


def test_what_is_sent_again_by_a_listener_changes_nothing():
    world = World(secret=SECRET, cohort=K)
    server, members = world.server, world.members
    heard = []
    for _ in range(3):
        down = server.frames()
        up = {k: members[k].take(frame)[0] for k, frame in down.items()}
        for k, answer in up.items():
            server.take(k, answer)
        heard += [(k, down[k], up[k], members[k].hello()) for k in range(K)]
        server.commit()
    before = server.server.now.to_arrays()
    states = [member.client.to_arrays() for member in members.values()]
    for k, down, up, hello in heard:
        assert server.take(k, up) == "late"
        assert server.take(k, hello) == "hello"
        answer, what = members[k].take(down)
        assert answer in (None, up)
        assert what == "repeated" or "is over" in what
    after = server.server.now.to_arrays()
    assert all((after[name] == before[name]).all() for name in before if name != "counts")
    for member, state in zip(members.values(), states, strict=True):
        again = member.client.to_arrays()
        assert all((again[name] == state[name]).all() for name in state)


@pytest.mark.parametrize("secret", [SECRET, None])
def test_who_has_no_key_cannot_make_a_client_begin_anew(secret):
    world = World(secret=secret)
    world.rounds(9)
    server, members = world.server, world.members
    victim = next(k for k in server.frames() if members[k].client.last_round >= 0)
    before = members[victim].client.state["w"].copy()
    model = bytes(8 * server.plan.experiment.dim)
    digest, start = server._digest, server.incarnation
    forged = wire.Frame(wire.BEGIN, digest, server.n + 5, start, "float64", model)
    answer, _ = members[victim].take(wire.encode(forged))
    kept = (members[victim].client.state["w"] == before).all()
    assert (answer is None, kept) == (secret is not None, secret is not None)

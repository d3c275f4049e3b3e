"""Sealed frames: who does not have the key can neither make nor change one; replays do nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.loopback import K, World, balanced, play
from psofed.fleet.protocol import wire

SECRET = bytes(range(32))


def sealed(secret=SECRET, **changes):
    """A server and its members, each with its own key."""
    world = World(secret=secret, **changes)
    return world.server, world.members


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
    runs = {secret: sealed(secret) for secret in (None, SECRET)}
    plain, closed = ([play(*runs[secret]) for _ in range(10)] for secret in (None, SECRET))
    for one, other in zip(plain, closed, strict=True):
        assert other.up - one.up == other.down - one.down == 8 * 2
    (open_server, _), (server, _) = runs[None], runs[SECRET]
    assert (open_server.server.state["w"] == server.server.state["w"]).all()
    assert server.traffic.tolist() == [sum(c.up for c in closed), sum(c.down for c in closed)]


def test_the_key_of_one_client_speaks_for_no_other_and_a_stranger_for_nobody():
    server, members = sealed()
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
    counts = balanced(server)
    assert server.server.ledger.reasons["mac"] == 6
    assert (counts["refused"], counts["lost"]) == (0, 1), "nothing of the other one has come"


def test_what_is_sent_again_by_a_listener_changes_nothing():
    server, members = sealed(cohort=K)
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
    server, members = sealed(secret)
    for _ in range(9):
        play(server, members)
    victim = next(k for k in server.frames() if members[k].client.last_round >= 0)
    before = members[victim].client.state["w"].copy()
    model = bytes(8 * server.plan.experiment.dim)
    digest, start = server._digest, server.incarnation
    forged = wire.Frame(wire.BEGIN, digest, server.n + 5, start, "float64", model)
    answer, _ = members[victim].take(wire.encode(forged))
    kept = (members[victim].client.state["w"] == before).all()
    assert (answer is None, kept) == (secret is not None, secret is not None)

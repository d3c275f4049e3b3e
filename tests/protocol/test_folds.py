"""Whatever a member with a valid key sends: an exception leaves its upload out, never ends the server."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.battery import every_method, small
from helpers.loopback import World
from psofed.fleet.alarms import Alarms, Status
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.wire import RefusedError
from psofed.methods.psofed import Method, Options

EXTREME = (9e8, -9e8, 3e38, 1e-45, 0.0, np.nan, np.inf)


def altered(body, data):
    """A valid body with a few bits flipped, values replaced, cut, longer, or with one bit in all."""
    found, size = bytearray(body), len(body)
    how = data.draw(st.sampled_from(("flip", "value", "all", "cut", "more", "bit", "any")))
    if how in ("flip", "bit") and size:
        found = bytearray(size) if how == "bit" else found
        for place in data.draw(st.lists(st.integers(0, 8 * size - 1), min_size=1, max_size=3)):
            found[place // 8] ^= 1 << place % 8
    value = np.float32(data.draw(st.sampled_from(EXTREME))).tobytes()
    if how == "value" and size >= 4:
        place = data.draw(st.integers(0, size - 4))
        found[place : place + 4] = value
    if how == "all":
        found = bytearray(value * (size // 4) + bytes(size % 4))
    return {
        "cut": body[: data.draw(st.integers(0, size))],
        "more": body + data.draw(st.binary(min_size=1, max_size=9)),
        "any": data.draw(st.binary(min_size=size, max_size=size)),
    }.get(how, bytes(found))


@every_method
@settings(max_examples=4)
@given(st.data())
def test_no_altered_upload_of_any_method_ends_a_server_also_not_the_next_one(options, data):
    if options.simulated:
        pytest.skip(f"it cannot be deployed: {options.simulated}")
    clock = data.draw(st.sampled_from(("lockstep", *["live"] * (not options.not_live))))
    world = World(given=Deployment(small(options), Deploy(wire="float32", clock=clock)))
    for n in range(8):
        if clock == "live":
            world.learn(n, 4)
        for k, frame in world.server.frames().items():
            answer, _ = world.members[k].take(frame)
            if answer is not None and k % 2 == 0 and n > 1:
                sent = wire.decode(answer, 100_000)
                answer = wire.encode(replace(sent, body=altered(sent.body, data)))
            if answer is not None:
                world.server.take(k, answer)
        closed = world.server.commit()
        assert closed.accepted + len(closed.missing) == closed.asked
        if n == 5:
            world.start()
    world.balanced()


def fails_on(value):
    """A fold that has a mistake where an upload begins with this value."""
    right = Method.fold

    def fold(self, server, k, n, message, weights):
        if (message.values[:, 0] == value).any():
            raise AttributeError("a mistake in the fold")
        right(self, server, k, n, message, weights)

    return fold


def test_a_fold_that_fails_leaves_out_who_made_it_fail_is_counted_and_alarms(monkeypatch):
    monkeypatch.setattr(Method, "fold", fails_on(0.5))
    said = []
    world = World(cohort=4, methods=(Options(shared=3),))
    loop = world.loop(on_news=said.append)
    alarms = Alarms()
    alarms.look(Status(connected=True), loop.link, world.server, loop.sensors)
    models = []
    for _ in range(2):  # the second in a server that has started again: the same
        frames = world.server.frames()
        bad, *others = frames
        for k, frame in frames.items():
            answer, _ = world.members[k].take(frame)
            if k == bad:
                sent = wire.decode(answer, 1000)
                half = np.full(len(sent.body) // 8, 0.5).tobytes()
                answer = wire.encode(replace(sent, body=half))
            world.server.take(k, answer)
        models.append(world.server.server.closed().state["w"])
        assert set(world.server.server.fold().left_out) == {bad}
        world.start()
    assert np.array_equal(*models)
    world.start()
    world.answer(*others)
    sent = wire.Frame(wire.UPLOAD, world.plan.digest, world.server.n, wire="float64", body=half)
    world.server.take(bad, wire.encode(sent))
    closed = world.server.commit()
    loop._left_out(closed)
    assert closed.left_out == (bad,)
    assert "AttributeError: a mistake in the fold" in said[-1]
    assert world.server.server.ledger.reasons["together"] == 1
    alarms._next = 0.0
    alarms.look(Status(connected=True), loop.link, world.server, loop.sensors)
    assert alarms.on["unfolded"].startswith("1 answers could not be folded")
    world.rounds(2)


def test_a_bitmap_with_one_bit_is_refused():
    from psofed.rivals.topk import Options as TopK

    world = World(methods=(TopK(kept=5),))
    k, _, answer = world.first()
    sent = wire.decode(answer, 1000)
    bitmap = b"\x01" + bytes(len(sent.body) - 1)
    assert world.server.take(k, wire.encode(replace(sent, body=bitmap))) == "size"
    with pytest.raises(RefusedError, match="not 5 positions"):
        world.server.server.collect(k, 0, bitmap)

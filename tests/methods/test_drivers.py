"""Drivers of the rounds on special occasions; three mistakes that were once made are planted, and
the battery has to notice each.
"""

import numpy as np
import pytest

from helpers import drivers
from psofed.cli.laws.drivers import world
from psofed.federation.clients import stacked
from psofed.fleet.protocol.client import MOST_WAITING, Client
from psofed.fleet.protocol.wire import RefusedError
from psofed.methods import fedavg, onlinefed
from psofed.rivals import raw

ZERO = np.array([0])


def test_samples_that_wait_are_bounded_and_those_passed_over_are_counted():
    method, draws = drivers.prepare(world(onlinefed.Options(), "steady"))
    client = Client(method, 0)
    x, y = (np.resize(a[0], (3000, *a.shape[2:])) for a in drivers.samples(draws))
    for start in range(0, 3000, 250):
        client.learn(x[start : start + 250], y[start : start + 250])
    assert client.position == 3000 == client.passed + len(client.waiting[1])
    assert len(client.waiting[1]) == MOST_WAITING
    again = Client(method, 0)
    again.restore(client.to_arrays())
    down = method.encode(method.download(method.server(), ZERO, 0).row(0), up=False)
    answer = client.take_part(0, down)
    assert again.take_part(0, down) == answer
    assert again.passed == 3000 - MOST_WAITING
    assert not len(again.waiting[1])
    alone = stacked(method.client(), 1)
    z = method.task.features(x)
    for i in range(3000 - MOST_WAITING, 3000):
        method.learn(alone, x[i : i + 1], z[i : i + 1], y[i : i + 1])
    np.testing.assert_array_equal(client.state["w"], alone["w"])


def test_who_relays_samples_sends_the_newest_and_counts_the_others():
    method, draws = drivers.prepare(world(raw.Options(), "steady"))
    x, y = drivers.samples(draws)
    client = Client(method, 0)
    client.learn(x[0, :5], y[0, :5])
    assert (client.position, client.passed, len(client.waiting[1])) == (5, 4, 1)
    sent = method.decode(client.take_part(0, b""), up=True)
    np.testing.assert_array_equal(sent, [*x[0, 4], y[0, 4]])
    assert len(method.decode(client.take_part(1, b""), up=True)) == 0


def test_a_client_that_missed_the_beginning_of_a_block_does_not_upload_an_older_one():
    method, _ = drivers.prepare(world(fedavg.Options(local_steps=4), "steady"))
    client = Client(method, 0)
    down = method.encode(method.download(method.server(), ZERO, 8).row(0), up=False)
    client.take_part(8, down)
    again = Client(method, 0)
    again.restore(client.to_arrays())
    for one in (client, again):
        assert len(one.take_part(11, b"")) > 0
        with pytest.raises(RefusedError, match="round 15 belongs to a block that began without us"):
            one.take_part(15, b"")
        assert one.take_part(16, down) == b""
        with pytest.raises(RefusedError, match="round 11 is over"):
            one.take_part(11, b"")

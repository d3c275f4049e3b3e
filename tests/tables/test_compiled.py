"""Rounds of a table in one compiled call are the rounds one by one: models, predictions, bytes."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.plain import uncompiled
from psofed.core import features, native
from psofed.core.schedule import PresentCohorts
from psofed.core.seeds import Seeds
from psofed.federation.contract import Task
from psofed.methods import centralised, fedavg, local, onlinefed, paofed, periodic, psofed
from psofed.rivals import raw
from psofed.stages.surroundings import start
from psofed.tables import player as players
from psofed.tables.plan import Span
from psofed.tables.player import Lot, Player

pytestmark = pytest.mark.skipif(not native.available(), reason="nothing is compiled here")
CLIENTS, DIM, TAPS, ROUNDS = 7, 21, 3, 30
METHODS = [
    psofed.Options(4), psofed.Options(DIM, "coordinated"), psofed.Options(3, idle=False),
    psofed.Options(5, selection="stochastic"), psofed.Options(7, mask="block"), onlinefed.Options(),
    periodic.Options(4, local_steps=3), periodic.Options(4, local_steps=3, idle=False),
    fedavg.Options(local_steps=4), local.Options(), centralised.Options(), raw.Options(),
]  # fmt: skip


def player(options, dtype="float64"):
    seeds = Seeds(3)
    cosines = features.cosine(seeds, DIM, TAPS, 1.0).astype(dtype)
    here = {"first": np.arange(CLIENTS) * 2, "stop": ROUNDS - np.arange(CLIENTS)}
    task = Task(
        clients=CLIENTS, dim=DIM, taps=TAPS, step=0.3, seeds=seeds, features=cosines,
        cohorts=PresentCohorts(seeds, CLIENTS, 3, **here), dtype=dtype,
    )  # fmt: skip
    columns = SimpleNamespace(target="y", ranges={"y": (0, 1)})
    recipe = SimpleNamespace(numeric=(), hot={}, columns=columns)
    table = SimpleNamespace(columns=columns)
    first = np.zeros(CLIENTS, int)
    rounds = SimpleNamespace(clients=CLIENTS, recipe=recipe, table=table, first=first)
    return Player("", start(options, task), cosines, rounds)


def lots(one, seed, gaps, delay, lengths):
    g = np.random.default_rng(seed)
    x = g.standard_normal((ROUNDS + delay, CLIENTS, TAPS)).astype(one.method.task.dtype)
    y = np.where(g.random((ROUNDS, CLIENTS)) < gaps, np.nan, g.standard_normal((ROUNDS, CLIENTS)))
    y[g.random(ROUNDS) < gaps / 2] = np.nan  # silent rounds
    y = y.astype(x.dtype)
    z, first = one.features(x), 0
    for length in [*lengths, ROUNDS]:
        here, late = slice(first, first + length), slice(first + delay, first + delay + length)
        if first < ROUNDS:
            late = slice(late.start, min(late.stop, ROUNDS + delay))
            who = [np.flatnonzero(~np.isnan(row)) for row in y[here]]
            unused = (y[here], x[late], y[here], y[here])  # by a method
            yield Lot(first, z[late], x[here], z[here], y[here], who, *unused)
        first += length


def played(options, *data):
    one = player(options)
    span = Span(0, 20, ROUNDS, choice=9)
    made = [one.play(lot, span)["prequential"] for lot in lots(one, *data)]
    guesses = {name: np.concatenate([each[name] for each in made]) for name in made[0]}
    score = one.score
    sent = score.up, score.down, score.multicast, score.messages, score.largest
    return one, guesses, one.frozen, sent


@pytest.mark.parametrize("options", METHODS, ids=lambda options: options.title())
@settings(max_examples=6)
@given(st.integers(0, 99), st.sampled_from([0.0, 0.3, 0.9]), st.sampled_from([0, 2]),
       st.lists(st.integers(1, 12), max_size=3), st.sampled_from([1, 10**6]))  # fmt: skip
def test_rounds_at_once_are_the_rounds_one_by_one(options, seed, gaps, delay, lengths, room):
    data = seed, gaps, delay, lengths
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(players, "ROOM", room)
        one, guesses, frozen, sent = played(options, *data)
    assert players.supports(one.method)
    with uncompiled():
        other, expected, kept, bytes_sent = played(options, *data)
        assert not players.supports(other.method)
    assert sent == bytes_sent
    assert guesses.keys() == expected.keys()
    near = {"rtol": 1e-9, "atol": 1e-12}
    for name, guess in guesses.items():
        np.testing.assert_allclose(guess, expected[name], **near)
    np.testing.assert_allclose(one.shared, other.shared, **near)
    assert (one.own is None) == (other.own is None)
    if one.own is not None:
        np.testing.assert_allclose(one.own, other.own, **near)
    assert frozen.keys() == kept.keys()
    for part, models in frozen.items():
        assert models.keys() == kept[part].keys()
        for name, w in models.items():
            np.testing.assert_allclose(w, kept[part][name], **near)


def test_a_long_silence_is_so_many_rounds_without_labels():
    """It is in no lot: what is late arrives in it all the same."""
    dense, sparse = (player(paofed.Options(4, delay=0.7)) for _ in range(2))
    span = Span(0, 20, ROUNDS, choice=9)
    (lot,) = lots(dense, 1, 0.0, 0, [])
    lot.y[8:14], lot.who[8:14] = np.nan, [np.empty(0, np.intp)] * 6
    dense.play(lot, span)
    for part in (lot.part(0, 8), lot.part(14, ROUNDS)):
        sparse.play(part, span)
    np.testing.assert_array_equal(dense.shared, sparse.shared)


def test_a_client_takes_part_until_its_last_label_has_arrived():
    ends = {"first": np.array([0, 2]), "last": np.array([5, 9])}
    table = SimpleNamespace(clients=2, recipe=SimpleNamespace(taps=TAPS), **ends)
    cohorts = players.task(table, SimpleNamespace(dim=DIM), Seeds(0), 1.0, 2, delay=3).cohorts
    there = [cohorts.there(n).tolist() for n in (2, 3, 5, 8, 9, 12, 13)]
    assert there == [[], [0], [0, 1], [0, 1], [1], [1], []]


def test_methods_that_change_a_handler_are_played_round_by_round():
    class Method(psofed.Method):
        def learn(self, client, x, z, y):
            client["w"] += 1

    task = player(psofed.Options(4)).method.task
    assert players.supports(psofed.Method(psofed.Options(4), task))
    assert not players.supports(Method(psofed.Options(4), task))
    assert not players.supports(start(psofed.Options(4, average=True), task))
    assert not players.supports(start(centralised.Options("sequential"), task))

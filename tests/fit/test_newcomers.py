"""Clients that arrive when the others have learned."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed.data import reading, warmup
from psofed.data.columns import Columns
from psofed.data.rounds import Rounds
from psofed.errors import InputError
from psofed.fit import federation, fitting, newcomers
from psofed.fit.newcomers import Arrival, study
from psofed.fit.plan import Plan
from psofed.methods import local

COLUMNS = Columns(target="y", time=("t",), client="who")
PLAN = Plan(COLUMNS, label_delay=3, dim=30, width=1.0, step=0.3, warmup=0.2, frozen=0.4)
ROUNDS = 300
ARRIVAL = 180


def rows(who, first=0, stop=ROUNDS, sign=1.0, spoil=None):
    """Rows of a client; `spoil` is a round before which they make no sense."""
    g = np.random.Generator(np.random.PCG64(ord(who)))
    lines = []
    for n in range(ROUNDS):
        a, noise = g.standard_normal(), 0.1 * g.standard_normal()
        y = sign * np.sin(2 * a) + noise
        if spoil is not None and n < spoil:
            a, y = 50 * a, 1000 + y
        if first <= n < stop and n % 11 != 5:  # some hours have no row
            lines.append((n, f"{n},{who},{a:.4f},{'' if n % 7 == 3 else f'{y:.4f}'}"))
    return lines


def read(tmp_path, *parts, name="table.csv"):
    path = tmp_path / name
    lines = sorted((line for part in parts for line in part), key=lambda line: line[0])
    path.write_text("t,who,a,y\n" + "\n".join(text for _, text in lines) + "\n")
    return reading.read(path, COLUMNS)


@pytest.fixture
def table(tmp_path):
    return read(tmp_path, *(rows(who) for who in "pqrs"))


def test_the_errors_are_those_of_a_plain_loop(table):
    (arrival,) = study(table, PLAN, [[3]]).arrivals
    others = table.part([0, 1, 2])
    span = fitting.spans(others, PLAN)
    assert span.frozen == arrival.round == ARRIVAL
    encoder = warmup.learn(others, span.first)
    waves = fitting.draw(PLAN, encoder)
    _, (player,) = federation.federate(
        Rounds(others, encoder), fitting.line_up(Rounds(others, encoder), PLAN, False, 0.1, span.first),
        PLAN.label_delay, federation.Span(span.first, ARRIVAL, ARRIVAL),
    )  # fmt: skip
    samples = {}
    for block in Rounds(table.part([3]), encoder).blocks():
        for i in range(len(block.y)):
            if block.has[i, 0] and block.first + i >= ARRIVAL and block.y[i, 0] == block.y[i, 0]:
                samples[block.first + i] = waves(block.x[i, 0]).astype(float), float(block.y[i, 0])
    models = {
        "shared": player.shared.astype(float),
        "started": player.shared.astype(float),
        "own": 0 * waves.b,
    }
    found = {name: [] for name in models}
    labels, count = [], 0
    for n in range(ARRIVAL, ROUNDS):
        if n in samples:
            z, y = samples[n]
            labels.append(count)
            for name, w in models.items():
                found[name].append((y - w @ z) ** 2)
        if n - 3 in samples:
            count += 1
            z, y = samples[n - 3]
            for name in ("started", "own"):
                models[name] = models[name] + 0.3 * z * (y - models[name] @ z)
    variance = np.var([y for _, y in samples.values()])
    assert arrival.labels.tolist() == labels
    for name, errors in found.items():
        np.testing.assert_allclose(
            arrival.errors[name], np.array(errors) / variance, rtol=1e-3, atol=1e-5
        )


def test_what_a_client_did_before_it_arrived_changes_nothing(tmp_path, table):
    spoilt = read(tmp_path, *(rows(w) for w in "pqr"), rows("s", spoil=ARRIVAL), name="other.csv")
    before, after = (study(t, PLAN, [[3]]).arrivals[0] for t in (table, spoilt))
    for model in newcomers.MODELS:
        np.testing.assert_array_equal(before.errors[model], after.errors[model])
    assert before.plan == after.plan


def test_the_shared_model_helps_on_the_first_day_and_not_a_client_unlike_the_others(
    tmp_path, table
):
    odd = read(tmp_path, *(rows(who) for who in "pqrs"), rows("x", sign=-1.0), name="odd.csv")
    alike, unlike = study(table, PLAN, [[3]]).arrivals[0], study(odd, PLAN, [[4]]).arrivals[0]
    assert alike.mean("shared", 0, 10) < 0.5 * alike.mean("own", 0, 10)
    assert alike.mean("started") < alike.mean("own")
    assert unlike.mean("shared") > 1.5
    assert unlike.caught_up("own") < 15
    assert unlike.mean("own_best") <= unlike.mean("own")


def test_clients_of_a_group_are_held_out_together_and_one_may_have_no_rows(tmp_path):
    table = read(tmp_path, *(rows(w) for w in "pqr"), rows("s", stop=ARRIVAL - 20))
    found = study(table, PLAN, [[0, 3]])
    assert [a.client for a in found.arrivals] == ["p"]
    assert found.absent == ["s"]
    alone = study(table, PLAN, [[0]]).arrivals[0]
    assert not np.array_equal(alone.errors["shared"], found.arrivals[0].errors["shared"])


def test_a_client_that_begins_before_the_others_and_ends_after_them_is_judged_from_its_arrival(
    tmp_path,
):
    table = read(tmp_path, *(rows(w, 40, 260) for w in "pqr"), rows("s"))
    (arrival,) = study(table, PLAN, [[3]]).arrivals
    assert arrival.round == 220 - 88  # on the clock of the others
    with_labels = [n for n in range(40 + 132, ROUNDS) if n % 7 != 3 and n % 11 != 5]
    assert len(arrival.labels) == len(with_labels)


@pytest.mark.parametrize(
    ("names", "every", "clients", "plan", "message"),
    [
        (("z",), False, ["p", "q"], PLAN, "--hold-out is 'z'"),
        (("p", "q", "p"), False, ["p", "q"], PLAN, "names every client"),
        ((), True, ["p"], PLAN, "--newcomers is given, but the table has one client"),
        (("p",), False, ["p"], PLAN, "--hold-out is given, but the table has one client"),
        ((), True, ["p", "q"], replace(PLAN, methods=(local.Options(),)), "no shared model"),
    ],
)  # fmt: skip
def test_who_cannot_be_a_newcomer_is_refused(names, every, clients, plan, message):
    with pytest.raises(InputError, match=message):
        newcomers.check(names, clients, plan, every)


def arrival(shared, own):
    """Labels arrive two samples late."""
    labels = np.maximum(np.arange(len(shared)) - 2, 0)
    return Arrival("x", labels, {"shared": np.array(shared), "own": np.array(own)}, PLAN, 0.3, 0)


def test_catching_up_is_told_from_noise():
    g = np.random.Generator(np.random.PCG64(1))
    flat = np.ones(1000)
    falling = 3 * np.exp(-np.arange(1000) / 100) + 0.5  # equal at sample 180
    noise = g.chisquare(1, 1000)
    assert abs(arrival(flat, falling).caught_up("own") - 180) <= 3
    assert abs(arrival(flat * noise, falling * noise).caught_up("own") - 180) < 60
    assert arrival(flat, flat).caught_up("own") == 0
    assert arrival(flat, flat + 0.1).caught_up("own") is None
    assert arrival(flat, np.where(np.arange(1000) < 995, 2, 0)).caught_up("own") is None
    assert arrival(flat, np.full(1000, np.nan)).caught_up("own") is None
    assert arrival(flat[:20], 0 * flat[:20]).caught_up("own") is None  # too few to say


@given(st.lists(st.tuples(*[st.floats(0, 10)] * 2), min_size=40, max_size=80))
def test_no_other_moment_to_change_models_has_less_error(pairs):
    shared, own = map(np.array, zip(*pairs, strict=True))
    one = arrival(shared, own)
    found = one.caught_up("own")
    totals = np.array([shared[:j].sum() + own[j:].sum() for j in range(len(own) - 30 + 1)])
    never = shared.sum()
    if found is None:
        assert never <= totals.min() + 1e-9
    else:
        assert totals[one.labels[: len(totals)] == found].min() <= min(totals.min(), never) + 1e-9


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(0, 5))
def test_labels_are_counted_as_they_arrive(present, delay):
    n = np.flatnonzero(present)
    wanted = [sum(m + delay < now for m in n) for now in n]
    assert newcomers._labels(n, delay).tolist() == wanted

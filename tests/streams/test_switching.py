"""Clients that are switched off and on again, or never there: without samples, and not asked."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.battery import METHODS
from helpers.mistakes import refused
from psofed.cli.laws.drivers import exchange, played, prepare, small, stepwise
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.experiment import parse
from psofed.federation.membership import Change
from psofed.federation.round import relays
from psofed.methods import centralised, fedavg, paofed, psofed
from psofed.rivals import pdlms
from psofed.simulate.draws import draw_test
from psofed.streams import function, paper

SHAKY = paper.Options(away=0.4, stay=4.0, late=10)
STREAMS = {
    "paper": paper.Options(),
    "drift": paper.Options(period=20, inputs="iid"),
    "function": function.Options(paper.f, taps=4),
}
SLOW = paper.Options(rate=(0.1, 0.9))
GOING = {o.name: o for o in METHODS if not (o.gapless or o.policy)}  # one setting of each


@given(st.floats(0, 0.9), st.floats(20, 60), st.integers(0, 200), st.integers(1, 599))
@settings(max_examples=30)
def test_who_is_on_does_not_depend_on_who_asks_and_for_which_rounds(away, stay, late, cut):
    stream = paper.Options(away=away if away > 0.05 else 0.0, stay=stay, late=late)
    seeds, ids = Seeds(3, 1), np.arange(7)
    whole = stream.awake(seeds, ids, 0, 600)
    parts = stream.awake(seeds, ids, 0, cut), stream.awake(seeds, ids, cut, 600)
    assert np.array_equal(np.hstack(parts), whole)
    assert np.array_equal(stream.awake(seeds, ids[3:4], 0, 600), whole[3:4])
    assert whole[:, late:].any() or away > 0.5


def test_clients_are_off_for_their_share_of_the_time_and_late_ones_come_evenly_and_stay():
    stream, rounds = paper.Options(away=0.3, stay=20.0), 2000
    on = stream.awake(Seeds(0), np.arange(400), 0, rounds)
    assert abs(on.mean() - 0.7) < 0.01
    assert abs(on[:, 0].mean() - 0.7) < 0.07  # from the first round on
    goes = on[:, :-1] & ~on[:, 1:]
    assert abs(on[:, :-1].sum() / goes.sum() - 20) < 0.6
    on = paper.Options(late=99).awake(Seeds(0), np.arange(5000), 0, 120)
    assert (np.diff(on.astype(int), axis=1) >= 0).all()
    assert on[:, 99:].all()
    assert np.abs(on[:, :100].mean(axis=0) - np.arange(1, 101) / 100).max() < 0.03


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_what_is_measured_while_on_is_what_a_client_measures_that_is_always_on(stream):
    shaky = replace(stream, away=0.5, stay=10.0)
    seeds, ids = Seeds(1), np.arange(4)
    on = shaky.awake(seeds, ids, 0, 300)
    found, always = (s.samples(seeds, ids, 0, 300, np.float64) for s in (shaky, stream))
    assert np.array_equal(found.x, always.x)
    assert np.array_equal(np.isnan(found.y), ~on)
    assert np.array_equal(found.y[on], always.y[on])
    assert shaky.gaps
    assert not stream.gaps
    nobody = stream.samples(seeds, ids[:0], 0, 40)  # as in a run in which no client is ever on
    assert nobody.x.shape[:2] == nobody.noise.shape == (0, 40)


@pytest.mark.parametrize("options", GOING.values(), ids=GOING)
def test_nobody_is_asked_while_off_and_messages_agree(options):
    experiment = small(options, stream=SHAKY)
    method, _ = prepare(experiment)
    on = SHAKY.awake(method.task.seeds, np.arange(5), 0, 30)
    for n in range(30):
        assert on[method.task.cohorts.there(n), n].all()
        assert on[method.task.cohorts.cohort(n), n].all()
    if not relays(method) and not options.simulated:
        assert np.abs(stepwise(experiment) - exchange(experiment).models).max() <= 1e-12


@pytest.mark.parametrize("fleet", [(), (Change(8, add=(5, 6)), Change(12, exclude=(1, 2, 3, 4)))])
def test_cohorts_of_many_rounds_are_those_of_each(fleet):
    cohorts = small(psofed.Options(3), stream=SHAKY, fleet=fleet).task(0).cohorts
    members, counts = cohorts.many(np.arange(30))
    rows = np.split(members, np.cumsum(counts)[:-1])
    assert all(np.array_equal(cohorts.cohort(n), row) for n, row in enumerate(rows))
    assert set(counts.tolist()) == {0, 1, 2}


def test_a_member_of_a_block_that_goes_off_does_not_upload():
    experiment = small(fedavg.Options(local_steps=6), stream=SHAKY, clients=2)
    method, draws = prepare(experiment)
    there = [len(method.task.cohorts.there(n)) for n in range(30)]
    asked = [len(method.cohort(n, {})) for n in range(30)]
    assert any(a > b for a, b in zip(asked, there, strict=True))
    up = [moment.traffic[0] for moment in played(method, draws)][1:]
    size = 8 * experiment.dim
    for n in range(5, 30, 6):
        members = np.intersect1d(method.cohort(n, {}), method.task.cohorts.there(n))
        assert up[n] == size * len(members)


test_switches_that_cannot_be_are_refused_by_name = refused({
    "stream.away is 1.0; use a share": {"away": 1.0},
    "stream.stay is 10.0: ...for less than a round at a time; use 99 or more": {"away": 0.01, "stay": 10.0},
    "stream.stay is 0.5; use 1 round or more": {"stay": 0.5},
    "stream.late is -3; use the number of a round": {"late": -3},
    "stream.late is 2.5, a number; use a whole number": {"late": 2.5},
}, lambda keys: parse({"stream": {"name": "paper", **keys}}))  # fmt: skip


def test_absent_clients_and_switches_are_not_mixed():
    with pytest.raises(InputError, match=r"absent is given, but so is \[stream\]"):
        small(psofed.Options(3), stream=SHAKY, absent=0.2)


def test_absent_clients_are_never_asked_and_the_others_all_are():
    experiment = small(psofed.Options(3), clients=20, rounds=400, absent=0.25)
    cohorts = experiment.task(0).cohorts
    many = cohorts.cohort(np.arange(400))
    assert len(np.unique(many)) == len(cohorts.present()) == 15
    assert set(np.unique(many)) == set(cohorts.present())
    assert all(np.array_equal(cohorts.cohort(n), many[n]) for n in range(0, 400, 37))
    # Methods that choose for themselves do not hear absent clients either.
    chosen = (
        centralised.Options(), pdlms.Options(shared=2, degree=2),
        paofed.Options(shared=2, availability=0.9),
    )  # fmt: skip
    experiment = replace(small(psofed.Options(3), absent=0.5), methods=chosen)
    task = experiment.task(0)
    for method in experiment.start(task):
        asked = {int(k) for n in range(40) for k in method.cohort(n, method.server())}
        assert asked == set(task.cohorts.present().tolist())


def test_the_test_set_covers_absent_clients_too():
    everybody, some = (small(psofed.Options(3), absent=share) for share in (0.0, 0.5))
    a, b = (draw_test(e, e.task(0)) for e in (everybody, some))
    assert np.array_equal(a.target, b.target)


def test_clients_have_unequal_amounts_of_data_at_rates_of_their_own():
    on = SLOW.measures(Seeds(0), np.arange(300), 0, 2000)
    assert np.array_equal(SLOW.measures(Seeds(0), np.arange(5, 9), 512, 700), on[5:9, 512:700])
    rates = on.mean(axis=1)
    assert 0.08 < rates.min() < 0.15
    assert 0.85 < rates.max() < 0.92
    assert abs(np.median(rates) - 0.5) < 0.06
    later = SLOW.measures(Seeds(0, 1, 0), np.arange(300), 0, 2000)
    assert np.abs(later.mean(axis=1) - rates).max() < 0.08  # in the same world
    assert not np.array_equal(later, on)


def test_the_stream_lacks_these_samples_and_has_the_others_as_before():
    drawn = SLOW.samples(Seeds(0), np.arange(6), 0, 300)
    full = paper.Options().samples(Seeds(0), np.arange(6), 0, 300)
    there = SLOW.measures(Seeds(0), np.arange(6), 0, 300)
    assert np.array_equal(~np.isnan(drawn.y), there)
    assert np.array_equal(drawn.y[there], full.y[there])


@pytest.mark.parametrize("options", [psofed.Options(3), fedavg.Options(local_steps=2)])
def test_who_has_no_sample_is_asked_all_the_same_by_every_executor(options):
    experiment = small(options, stream=SLOW)
    assert stepwise(experiment) == pytest.approx(exchange(experiment).models, abs=1e-12)
    slow = sum(moment.traffic[0] for moment in played(*prepare(experiment)))
    free = sum(moment.traffic[0] for moment in played(*prepare(small(options))))
    assert 0.9 * free < slow <= free  # but for rounds in which nobody has one


@pytest.mark.parametrize("rate", [(0.0, 1.0), (0.5, 1.5), (0.9, 0.1), "often"])
def test_a_rate_that_cannot_be_is_refused(rate):
    with pytest.raises(InputError, match=r"^rate is .*; use two numbers above 0, at most 1"):
        paper.Options(rate=rate)
    assert parse({"stream": {"name": "paper", "rate": [0.5, 1]}}).stream.rate == (0.5, 1.0)
    assert "rate" not in paper.Options().to_table()

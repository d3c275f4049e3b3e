"""What a method is with its knob at an end: another method."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.battery import (
    exchange,
    prepare,
    same,
    samples,
    simulate,
    small,
)
from psofed.fleet.protocol import in_memory
from psofed.methods import centralised, fedavg, local, onlinefed, paofed, psofed
from psofed.rivals import (
    cmfl,
    etpsofed,
    fedprox,
    fedscr,
    periodic,
    qsgd,
    quantised,
    raw,
    sketch,
    structured,
    topk,
)


@given(st.integers(1, 5), st.integers(0, 10), st.booleans(), st.sampled_from(["subset", "block"]))
def test_sharing_everything_is_online_fed_whatever_idle_clients_learn(cohort, shift, idle, mask):
    everything = psofed.Options(shared=10, shift=shift, idle=idle, mask=mask)
    pso = simulate(small(everything, cohort=cohort))
    online = simulate(small(onlinefed.Options(), cohort=cohort))
    assert np.abs(pso - online).max() <= 1e-12


def test_without_idle_learning_a_full_cohort_is_pso_fed():
    for m in (1, 4, 10):
        awake, asleep = (psofed.Options(shared=m, idle=i) for i in (True, False))
        a, b = (simulate(small(options, cohort=5)) for options in (awake, asleep))
        assert np.abs(a - b).max() <= 1e-12


def test_an_empty_cohort_is_local_only():
    experiment = small(psofed.Options(shared=3))
    method, draws = prepare(experiment, cohort_size=0)
    alone = in_memory.run(method, *samples(draws))
    assert not alone.models.any()
    assert np.abs(alone.local - simulate(small(local.Options()))).max() <= 1e-12


def test_batch_centralised_is_online_fed_with_everybody():
    central = simulate(small(centralised.Options()))
    online = simulate(small(onlinefed.Options(), cohort=5))
    assert np.abs(central - online).max() <= 1e-12


def test_sequential_centralised_with_one_client_is_local_only():
    central = simulate(small(centralised.Options(form="sequential"), clients=1, cohort=1))
    alone = simulate(small(local.Options(), clients=1, cohort=1))[:, 0]
    assert np.abs(central - alone).max() <= 1e-12


def test_one_client_that_shares_everything_is_plain_rff_klms():
    alone = simulate(small(local.Options(), clients=1, cohort=1))[:, 0]
    for options in (onlinefed.Options(), psofed.Options(shared=10)):
        assert np.abs(simulate(small(options, clients=1, cohort=1)) - alone).max() <= 1e-12


def test_traffic_is_m_over_d_exactly():
    full = exchange(small(onlinefed.Options())).traffic.sum(axis=0)
    for m in range(1, 11):
        part = exchange(small(psofed.Options(shared=m))).traffic.sum(axis=0)
        assert (part[:2] * 10 == full[:2] * m).all()


@given(st.integers(1, 5))
@settings(max_examples=5)
def test_one_local_step_is_online_fed(cohort):
    for options in (
        fedavg.Options(local_steps=1),
        fedprox.Options(local_steps=1, prox=0.3),
        periodic.Options(local_steps=1, shared=10),
        sketch.Options(bits=None),
        sketch.Options(bits=None, rotate=True),
        sketch.Options(bits=None, shared=10),
        qsgd.Options(levels=None),
        topk.Options(kept=10),
        structured.Options(shared=10),
        structured.Options(form="subspace", shared=10),
        structured.Options(form="lowrank", shared=10, rows=2),
        fedscr.Options(block=5, threshold=0.0),
        etpsofed.Options(shared=10, threshold=0.0),
        cmfl.Options(rule="literal", threshold=0.0, local_steps=1),
        cmfl.Options(keep=1.0, local_steps=1),
        paofed.Options(shared=10, delay=0.0),
        raw.Options(),
    ):
        assert same(options, onlinefed.Options(), cohort=cohort), options


@pytest.mark.parametrize("steps", [2, 5])
def test_without_its_knob_a_method_is_fedavg(steps):
    plain = fedavg.Options(local_steps=steps)
    for options in (
        fedprox.Options(local_steps=steps, prox=0.0),
        periodic.Options(local_steps=steps, shared=10),
        sketch.Options(bits=None, local_steps=steps),
        qsgd.Options(levels=None, local_steps=steps),
        topk.Options(kept=10, local_steps=steps),
        structured.Options(shared=10, local_steps=steps),
        structured.Options(form="subspace", shared=10, local_steps=steps),
        fedscr.Options(block=2, threshold=0.0, local_steps=steps),
        cmfl.Options(keep=1.0, local_steps=steps),
        cmfl.Options(rule="literal", threshold=0.0, local_steps=steps),
    ):
        assert same(options, plain), options


def test_talking_in_every_round_is_pso_fed():
    for windows in (
        {"shared": 3},
        {"shared": 4, "scheme": "coordinated"},
        {"shared": 2, "idle": False},
    ):
        assert same(periodic.Options(local_steps=1, **windows), psofed.Options(**windows))


def test_fedavg_costs_what_pso_fed_costs_at_equal_m_over_e():
    for m in (1, 2, 5):
        pso = exchange(small(psofed.Options(shared=m), rounds=40)).traffic.sum(axis=0)
        avg = exchange(small(fedavg.Options(local_steps=10 // m), rounds=40)).traffic.sum(axis=0)
        assert (pso[:2] == avg[:2]).all()


def test_a_trigger_at_zero_is_pso_fed_and_one_out_of_reach_leaves_the_server_as_it_is():
    for windows in ({"shared": 3}, {"shared": 4, "scheme": "coordinated"}):
        assert same(etpsofed.Options(threshold=0.0, **windows), psofed.Options(**windows))
    assert not simulate(small(etpsofed.Options(shared=3, threshold=1e9))).any()


@pytest.mark.parametrize("reference", ["range", "last"])
def test_many_bits_are_pso_fed_and_each_bit_halves_the_error(reference):
    exact = simulate(small(psofed.Options(shared=4)))
    errors = [
        np.abs(
            simulate(small(quantised.Options(shared=4, bits=b, reference=reference))) - exact
        ).max()
        for b in (8, 12, 16, 24)
    ]
    assert errors[-1] < 1e-5
    assert all(fine < coarse / 4 for coarse, fine in itertools.pairwise(errors))


def test_without_delays_pao_fed_is_pso_fed():
    for windows in ({"shared": 5, "mask": "block"}, {"shared": 3, "mask": "subset"}):
        for scheme in ("coordinated", "uncoordinated"):
            pao = paofed.Options(delay=0.0, scheme=scheme, **windows)
            assert same(pao, psofed.Options(scheme=scheme, **windows))

"""What a method is with its knob at an end: another method."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.battery import prepare, same, samples, simulate, small
from psofed import rivals
from psofed.fleet.protocol import in_memory
from psofed.methods import centralised, fedavg, local, onlinefed, paofed, periodic, psofed

ALONE, ALL = {"clients": 1, "cohort": 1}, {"cohort": 5}
WINDOWS = [{"shared": 3}, {"shared": 4, "scheme": "coordinated"}, {"shared": 2, "idle": False}]
BOTH = ("coordinated", "uncoordinated")
# Two that are the same in this experiment, in every round.
EQUAL = {
    "a full cohort is never idle": [
        (psofed.Options(shared=m, idle=False), psofed.Options(shared=m), ALL) for m in (1, 4, 10)
    ],
    "groups that fill the model are blocks that do not overlap": [
        (*(psofed.Options(shared=5, scheme="coordinated", mask=m) for m in ("groups", "block")), {})
    ],
    "the mean of all steps is Online-Fed with everybody": [
        (centralised.Options(), onlinefed.Options(), ALL)
    ],
    "one client that shares everything is plain RFF-KLMS": [
        (options, local.Options(), ALONE)
        for options in (
            centralised.Options(form="sequential"), onlinefed.Options(), psofed.Options(shared=10),
            rivals.ASOFed(), rivals.ASOFed(barrier=True), rivals.ASOFed(delays="log"),
        )
    ],
    "talking in every round is PSO-Fed": [
        (periodic.Options(local_steps=1, **w), psofed.Options(**w), {}) for w in WINDOWS
    ],
    "a trigger at zero is PSO-Fed": [
        (rivals.ETPSOFed(threshold=0.0, **w), psofed.Options(**w), {}) for w in WINDOWS[:2]
    ],
    "without delays PAO-Fed is PSO-Fed": [
        (paofed.Options(delay=0.0, **w, scheme=s), psofed.Options(**w, scheme=s), {})
        for w in ({"shared": 5, "mask": "block"}, {"shared": 3, "mask": "subset"}) for s in BOTH
    ],
    "ASO-Fed with everybody and a barrier is Online-Fed": [
        (rivals.ASOFed(barrier=True), onlinefed.Options(), ALL | {"seed": s}) for s in (0, 1)
    ],
    "many visitors are the cohort": [
        (rivals.ASOFed(visitors=9), rivals.ASOFed(), {"cohort": 4})
    ],
}  # fmt: skip


@pytest.mark.parametrize("law", EQUAL)
def test_two_methods_are_the_same_where(law):
    for one, other, changes in EQUAL[law]:
        assert same(one, other, **changes), one


@given(st.integers(1, 5), st.integers(0, 10), st.booleans(), st.sampled_from(["subset", "block"]))
def test_sharing_everything_is_online_fed_whatever_idle_clients_learn(cohort, shift, idle, mask):
    everything = psofed.Options(shared=10, shift=shift, idle=idle, mask=mask)
    assert same(everything, onlinefed.Options(), cohort=cohort)


def test_an_empty_cohort_is_local_only():
    method, draws = prepare(small(psofed.Options(shared=3)), cohort_size=0)
    alone = in_memory.run(method, *samples(draws))
    assert not alone.models.any()
    assert np.abs(alone.local - simulate(small(local.Options()))).max() <= 1e-12


def without_knobs(steps):
    """Methods whose clients train for some steps, and whose own knobs do nothing."""
    own = {"local_steps": steps}
    return [
        rivals.FedProx(**own, prox=0.0), rivals.Ditto(**own), rivals.FedPOE(**own, kernels=1),
        rivals.POFMKL(**own, kernels=1), periodic.Options(**own, shared=10),
        rivals.Sketch(**own, bits=None), rivals.QSGD(**own, levels=None),
        rivals.TopK(**own, kept=10), rivals.Structured(**own, shared=10),
        rivals.Structured(**own, form="subspace", shared=10),
        rivals.FedSCR(**own, block=2, threshold=0.0), rivals.CMFL(**own, keep=1.0),
        rivals.CMFL(**own, rule="literal", threshold=0.0),
    ]  # fmt: skip


@pytest.mark.parametrize("steps", [2, 5])
def test_without_its_knob_a_method_is_fedavg(steps):
    for options in without_knobs(steps):
        assert same(options, fedavg.Options(local_steps=steps)), options


@given(st.integers(1, 5))
@settings(max_examples=5)
def test_one_local_step_is_online_fed(cohort):
    for options in (
        *without_knobs(1),
        fedavg.Options(local_steps=1),
        rivals.FedProx(local_steps=1, prox=0.3),
        rivals.Sketch(bits=None, rotate=True),
        rivals.Sketch(bits=None, shared=10),
        rivals.Structured(form="lowrank", shared=10, rows=2),
        rivals.FedSCR(block=5, threshold=0.0),
        rivals.FedSCR(block=5, rule="adaptive", scale=0.0),
        rivals.ETPSOFed(shared=10, threshold=0.0),
        paofed.Options(shared=10, delay=0.0),
        rivals.Raw(),
    ):
        assert same(options, onlinefed.Options(), cohort=cohort), options


@pytest.mark.parametrize(
    "options",
    [
        rivals.ETPSOFed(shared=3, threshold=1e9),
        rivals.FedSCR(block=2, rule="adaptive", scale=1e9),  # divides by models that stay 0
    ],
)
def test_a_threshold_out_of_reach_leaves_the_server_as_it_is(options):
    assert not simulate(small(options)).any()


@pytest.mark.parametrize("reference", ["range", "last"])
def test_many_bits_are_pso_fed_and_each_bit_halves_the_error(reference):
    exact = simulate(small(psofed.Options(shared=4)))
    errors = [
        np.abs(
            simulate(small(rivals.Quantised(shared=4, bits=b, reference=reference))) - exact
        ).max()
        for b in (8, 12, 16, 24)
    ]
    assert errors[-1] < 1e-5
    assert all(fine < coarse / 4 for coarse, fine in itertools.pairwise(errors))

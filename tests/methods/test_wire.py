"""Wire forms: what a method computes when its values travel in fewer bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from helpers.battery import METHODS, exchange, holds, network, prepare, simulate, small
from helpers.drivers import deployed
from helpers.loopback import World
from psofed.cli.laws import of_methods
from psofed.cli.laws.drivers import played, stepwise, world
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.federation.clients import stacked
from psofed.federation.options import Coded
from psofed.federation.round import opens
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.methods import fedavg, onlinefed, psofed
from psofed.rivals import cmfl, quantised, sketch
from psofed.simulate import family
from psofed.stages import code as codes
from psofed.stages import surroundings
from psofed.tables import player as stretches

ONE_OF_EACH = {o.name: replace(o, wire=None) for o in METHODS if o.coded and not o.average}
VALUES = arrays(np.float32, st.integers(1, 30), elements=st.floats(-1e6, 1e6, width=32))
# The bits of every float16 that is a number or infinite: `floats(width=16)` rejects most that it draws.
HALVES = st.integers(0, 0x7C00) | st.integers(0x8000, 0xFC00)


REMEMBERED = [
    *(replace(o, wire="2 bit", **{"delay": 0.0} if n == "paofed" else {}) for n, o in ONE_OF_EACH.items()),
    quantised.Options(shared=3, bits=3, reference="last"),
]  # fmt: skip


@pytest.mark.parametrize("options", REMEMBERED, ids=lambda o: o.name)
def test_both_ends_remember_the_same_whenever_a_block_has_ended(options):
    method, draws = prepare(small(options))
    for n, moment in enumerate(played(method, draws)):
        if opens(method, n):
            np.testing.assert_array_equal(moment.server["code last"], moment.clients["code last"])
    assert moment.server["code last"].any()


@given(VALUES, st.sampled_from([2, 4, 7]))
def test_a_coded_value_is_off_by_half_a_step_at_most(values, bits):
    code = codes.Symmetric(bits)
    message = code.make(values, "float32")
    largest = float(np.abs(values).max())
    assert largest <= message[0] <= largest * (1 + 2**-7) + 1e-38
    half = float(message[0]) / 2**bits
    off = np.abs(code.restore(message).astype(float) - values.astype(float)).max()
    assert off <= half * (1 + 2 * codes.NUDGE) + 1e-38


@given(VALUES, st.sampled_from([2, 4, 7]), st.integers(-20, 20))
def test_a_code_is_as_long_as_its_formula_says_and_does_not_depend_on_the_unit(values, bits, power):
    code = codes.Symmetric(bits)
    message = code.make(values, "float32")
    data = code.encode(message, "float32")
    assert len(data) == ceil(len(values) * bits / 8) + 2
    np.testing.assert_array_equal(code.decode(data, "float32", len(values)), message)
    scaled = code.make(values.astype(float) * 2.0**power, "float32")
    if np.abs(values).max() > 1e-30:
        np.testing.assert_array_equal(scaled[1:], message[1:])


@pytest.mark.parametrize("bits", ["4 bit", "2 bit"])
@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5, 12])
def test_a_message_without_values_differs_from_one_with_values_however_short_these_are(dim, bits):
    """CMFL sends its agreement alone or before w_k, and a model of few entries is a few bits."""
    tiny = {"features": Features(dim=dim)}
    for numbers in ("float16", "float32", "float64"):
        made = small(cmfl.Options(local_steps=1, wire=bits), **tiny)
        (method,) = made.start(made.task(0, wire=numbers))
        code = method.code.make(np.linspace(-1, 1, dim), numbers)
        for message in (np.array([0.75]), np.concatenate([[0.75], code])):
            data = method.encode(message, up=True)
            np.testing.assert_array_equal(method.decode(data, up=True), message)
            with pytest.raises(ValueError, match=r"values|bytes|buffer|multiple"):
                method.decode(data[:-1], up=True)


@pytest.mark.parametrize("wire", ["float16", "4 bit"])
def test_what_is_not_a_number_stays_one_and_breaks_nothing(wire):
    method, _ = prepare(small(fedavg.Options(1, wire=wire)))
    server = method.server()
    server["w"][3] = np.inf
    message = method.download(server, np.array([0]), 0)
    assert not np.isfinite(message.values).all()
    method.encode(message.row(0), up=False)


@given(arrays(np.uint16, 10, elements=HALVES).map(lambda bits: bits.view(np.float16).astype(float)))
def test_what_float16_can_represent_travels_as_it_is(values):
    for options in (fedavg.Options(1), cmfl.Options("literal", 0.0, local_steps=1)):
        one, other = (prepare(small(replace(options, wire=w)))[0] for w in (None, "float16"))
        messages, k = [], np.array([0])
        for method in (one, other):
            server, client = method.server(), stacked(method.client(), 1)
            server["w"][:] = client["w"][:] = values
            both = method.download(server, k, 0), method.upload(client, k, 0)
            messages.append([message.row(0) for message in both])
        np.testing.assert_array_equal(messages[0][0], messages[1][0])
        np.testing.assert_array_equal(messages[0][1], messages[1][1])


@pytest.mark.parametrize("options", ONE_OF_EACH.values(), ids=lambda o: o.name)
def test_float32_changes_nothing_where_numbers_are_float32(options):
    plain, same = (
        simulate(small(replace(options, wire=w), dtype="float32"), 0) for w in (None, "float32")
    )
    np.testing.assert_array_equal(plain, same)


def test_float32_stays_compiled_where_numbers_are_float32_and_only_there():
    for dtype, compiled in (("float32", True), ("float64", False)):
        experiment = small(onlinefed.Options(wire="float32"), dtype=dtype)
        (method,) = experiment.start(experiment.task(0))
        assert family.supports(method) == stretches.supports(method) == compiled
    for form in ("float16", "4 bit"):
        experiment = small(onlinefed.Options(wire=form), dtype="float32")
        (method,) = experiment.start(experiment.task(0))
        assert not family.supports(method)
        assert not stretches.supports(method)
        assert method.several


@pytest.mark.parametrize(
    "options", [fedavg.Options(3), psofed.Options(4), cmfl.Options(keep=0.5, local_steps=2)]
)
def test_many_bits_are_the_method_itself(options, monkeypatch):
    exact, errors = simulate(small(options)), []
    for bits in (12, 16, 20):
        monkeypatch.setattr(surroundings, "Symmetric", lambda _, b=bits: codes.Symmetric(b))
        errors.append(np.abs(simulate(small(replace(options, wire="4 bit"))) - exact).max())
    assert errors[0] > 4 * errors[1] > 16 * errors[2]
    assert errors[2] < 1e-4


def test_differences_are_not_multicast_and_rounded_models_are():
    for form, one in (("float16", True), ("4 bit", False)):
        traffic = exchange(small(fedavg.Options(1, wire=form))).traffic
        assert (traffic[:, 1] == (2 if one else 1) * traffic[:, 2]).all()


def test_only_the_downlink_of_a_method_with_a_code_of_its_own_is_coded():
    experiment = Experiment(clients=3, cohort=1, rounds=3, methods=(sketch.Options(wire="4 bit"),))
    (method,) = experiment.start(experiment.task(0))
    down = method.download(method.server(), np.array([0]), 0)
    assert len(method.encode(down.row(0), up=False)) == 102
    assert down.length.tolist() == [201]


@pytest.mark.parametrize("form", ["float16", "2 bit"])
def test_other_models_are_coded_too(form):
    for options in (fedavg.Options(2, wire=form), psofed.Options(1, wire=form)):
        for changes in ({"features": Features(dim=1)}, {"learner": network.Options(3)}):
            world = small(options, **{"features": Features()} | changes)
            found = exchange(world).models
            assert np.isfinite(found).all()
            assert np.abs(found - stepwise(world)).max() <= 1e-12


def test_frames_name_the_form_of_the_method():
    for given_by, expected in ((None, "float64"), ("float16", "float16"), ("2 bit", "float64")):
        experiment = world(fedavg.Options(2, wire=given_by), "steady")
        team = World(given=Deployment(experiment, Deploy(wire="float64")))
        frame = next(iter(team.server.frames().values()))
        assert wire.decode(frame, 10_000).wire == expected == team.plan.wire


@dataclass(frozen=True)
class Silent(fedavg.Options):
    """A method from outside that derives from one of ours, and does not say what it sends."""

    name: ClassVar[str] = "silent"


@dataclass(frozen=True)
class Own(Silent):
    """One that says that its messages are models."""

    name: ClassVar[str] = "own"
    coded: ClassVar[Coded] = "both"


@pytest.mark.parametrize("form", ["float16", "2 bit"])
def test_a_method_from_outside_may_declare_what_it_sends(form):
    for rule in (of_methods.executors_agree, of_methods.messages_survive_the_wire):
        holds(rule, Own(3, wire=form))
    experiment = world(Own(3, wire=form), "steady")
    assert np.abs(deployed(experiment) - stepwise(experiment)).max() <= 1e-12
    with pytest.raises(InputError, match="does not declare which of its messages"):
        small(Silent(wire=form))

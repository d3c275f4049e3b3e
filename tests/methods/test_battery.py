"""The contract battery: what every method must do, in every executor, deployed on both clocks too."""

from collections import Counter
from functools import partial

import numpy as np
import pytest

from helpers import drivers
from helpers.battery import METHODS, every_method, exchange, prepare, small, stepwise
from psofed.cli.laws import of_methods
from psofed.cli.laws.drivers import STREAMS, compiled, world
from psofed.cli.laws.rules import why_not
from psofed.errors import InputError
from psofed.federation.round import relays
from psofed.simulate import family


@every_method
def test_every_method_obeys_every_rule(options):
    broken = []
    for rule in of_methods.RULES:
        try:
            if not why_not(rule, options):
                rule(options)
        except Exception as error:
            error.add_note(f"{rule.__name__}, {options.name}")
            broken.append(error)
    if broken:
        raise ExceptionGroup("rules that do not hold", broken)


# How many of the methods, in the settings of the battery, a rule says nothing about.
SKIPPED = {
    "several_runs_are_each_alone": 16,
    "common_downloads_are_equal": 57,
    "folds_are_linear": 30,
}


def test_the_rules_that_are_skipped_are_as_many_as_they_were():
    skips = Counter(rule.__name__ for rule in of_methods.RULES for o in METHODS if why_not(rule, o))
    assert skips == SKIPPED


equal = partial(np.testing.assert_allclose, rtol=0, atol=1e-12)


def worlds(options):
    """One with a sample of everybody in each round, and one with gaps, which some cannot have."""
    if options.gapless:
        with pytest.raises(InputError, match="needs a sample of every client in every round"):
            world(options, "gaps")
        return [world(options, "steady")]
    return [world(options, stream) for stream in STREAMS]


@every_method
def test_kernel_tables_and_a_deployment_with_restarts_give_the_models_of_the_lockstep(options):
    for experiment in worlds(options):
        expected, refused = stepwise(experiment), ""
        for driver in (compiled, drivers.tables):
            if (found := driver(experiment)) is not None:
                equal(found, expected)
        if options.simulated:
            refused = f"{options.name}, which cannot be deployed: "
        elif experiment.stream.gaps and relays(prepare(small(options))[0]):
            refused = 'which sends samples.* use clock = "live"'
        if refused:
            with pytest.raises(InputError, match=refused):
                drivers.deployment(experiment, "lockstep")
        else:
            equal(drivers.deployed(experiment), expected)


@every_method
def test_deployed_on_a_live_clock_it_learns_and_does_what_its_clock_means(options):
    for experiment in worlds(options):
        if options.simulated or options.not_live:
            with pytest.raises(InputError, match=r"cannot be deployed|cannot run on a live clock"):
                drivers.deployment(experiment, "live")
            continue
        found = drivers.live(experiment)
        equal(found, drivers.expected_live(experiment))
        assert np.abs(found[-1]).max() > 0.01


@every_method
def test_the_kernel_counts_the_bytes_that_are_sent(options):
    method, draws = prepare(small(options))
    if family.supports(method):
        counted = family.traffic(draws, [method], np.arange(draws.rounds + 1))[:, 0, 1:].T
        assert np.array_equal(counted, exchange(small(options)).traffic)

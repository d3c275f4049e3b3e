"""How far runs are as told by the runs themselves."""

from __future__ import annotations

import pytest

from psofed.experiment import Experiment
from psofed.methods import fedavg, psofed
from psofed.simulate import montecarlo, pools, pulse

SMALL = Experiment(clients=4, cohort=2, rounds=70, runs=3, test_samples=20)


@pytest.mark.parametrize("rounds", [1, 31, 32, 33, 70])
def test_the_parts_of_a_run_add_up_to_one(rounds):
    methods = (psofed.Options(shared=2), fedavg.Options())
    before = pulse.worked()
    montecarlo.run(Experiment(clients=4, cohort=2, rounds=rounds, runs=2, test_samples=20,
                              methods=methods), 1)  # fmt: skip
    assert pulse.worked() - before == pytest.approx(2)


def test_processes_tell_how_far_they_are():
    experiment = Experiment(clients=4, cohort=2, rounds=40, runs=2, methods=(fedavg.Options(),))
    before, seen = pulse.worked(), []
    montecarlo.run(
        experiment, pool=pools.fresh_processes(2), on_run=lambda total: seen.append(pulse.worked())
    )
    assert seen[-1] - before == pytest.approx(2)
    assert pulse.worked() - before == pytest.approx(2)

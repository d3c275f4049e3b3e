"""What the lockstep executor does to be fast: the same numbers as one client at a time."""

import numpy as np
import pytest

from psofed.cli.laws.drivers import played, small
from psofed.core.schedule import Ahead, Sequential, Stochastic, UniformCohorts
from psofed.core.seeds import Seeds
from psofed.federation.contract import OneClient
from psofed.federation.stage import Lifted
from psofed.methods import fedavg
from psofed.simulate.draws import draw

SMALL = small(fedavg.Options(local_steps=3), clients=6, cohort=3, rounds=70)


def models(method, draws):
    return np.array([method.models(m.server, m.clients).copy() for m in played(method, draws)])


def test_a_method_for_one_client_at_a_time_is_lifted_to_stacks():
    class Halved(OneClient):
        def download(self, server, k, n):
            assert isinstance(k, int)
            return server["w"].copy()

        def receive(self, client, k, n, message):
            client["w"][:] = message

        def upload(self, client, k, n):
            return client["w"] / 2

        def fold(self, server, n, uploads, weights):
            server["w"] += sum(weights[k] * (m - server["w"]) for k, m in uploads.items())

    task, options = SMALL.task(0), SMALL.methods[0]
    draws = draw(SMALL, task, everybody=True)
    halved = models(Lifted(Halved(options, task)), draws)
    plain = models(fedavg.Method(options, task), draws)
    assert np.allclose(halved[3], plain[3] / 2, atol=1e-14)


@pytest.mark.parametrize("coordinated", [True, False])
def test_what_is_drawn_ahead_is_what_each_client_draws(coordinated):
    seeds = Seeds(3)
    cohorts = UniformCohorts(seeds, clients=9, size=3)
    for schedule in (
        Sequential(seeds, 10, 4, 1, coordinated, block=False),
        Sequential(seeds, 10, 4, 3, coordinated, block=True),
        Stochastic(seeds, 10, 4, coordinated),
    ):
        ahead = Ahead(schedule.entries, cohorts, count=4)
        for n in (0, 1, 31, 32, 33, 90, 2, 3):
            members = cohorts.cohort(n)
            for k in (members, members[:2], members[1:]):
                assert ahead(k, n).tolist() == [
                    schedule.entries(i, n)[0].tolist() for i in k[:, None]
                ]
        others = np.array([k for k in range(9) if k not in cohorts.cohort(5)])
        assert ahead(others, 5).tolist() == [
            schedule.entries(i, 5)[0].tolist() for i in others[:, None]
        ]

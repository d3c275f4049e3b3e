"""Small deployed runs, and what must come of them."""

import numpy as np

from psofed.cli.laws.executors import deployed, simulate
from psofed.fleet.protocol import deployment as plans

FULL = """
clients = 10
rounds = 200
cohort = 4
dtype = "float64"
test_samples = 100
[features]
dim = 200
[[methods]]
name = "psofed"
shared = 40
[deploy]
wire = "float64"
"""

SMALL = (
    FULL.replace("clients = 10", "clients = 3")
    .replace("cohort = 4", "cohort = 2")
    .replace("rounds = 200", "rounds = 40")
)

LIVE = SMALL.replace('wire = "float64"', 'clock = "live"')


def assert_equal_to_the_engine(team, rounds):
    plan = plans.read(team.file)
    folders = [team.folder / str(k) for k in range(plan.experiment.clients)]
    server, local = deployed(plan, team.folder / "server", folders)
    assert server.n == rounds
    w, expected = simulate(plan, rounds)
    assert np.abs(server.state["w"] - w).max() <= 1e-12
    assert np.abs(local - expected).max() <= 1e-12
    counts = server.ledger.counts
    assert counts["accepted"] == counts["asked"] == rounds * plan.experiment.cohort
    assert counts["refused"] == counts["lost"] == 0

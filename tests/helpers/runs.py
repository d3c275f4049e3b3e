"""Small deployed runs, and what must come of them."""

from psofed.cli.laws.executors import verified
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
    found = verified(team.folder / "server", folders)
    assert (found.n, found.holds, found.absent) == (rounds, True, 0), found
    assert found.allowed == 1e-12
    assert found.counts["accepted"] == found.counts["asked"] == rounds * plan.experiment.cohort
    assert found.counts["refused"] == found.counts["lost"] == 0

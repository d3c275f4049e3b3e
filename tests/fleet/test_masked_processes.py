"""Masked sums of real processes on a real broker: kills, drop-outs, and the twin of the file."""

import numpy as np
import pytest

from helpers.devices import wait_for
from psofed.cli.laws.executors import deployed, simulate
from psofed.fleet.protocol import deployment

pytestmark = pytest.mark.long
RUN = """
clients = 5
cohort = 4
rounds = 20
dtype = "float64"
features = { dim = 20 }
methods = [{ name = "psofed", shared = 4, scheme = "coordinated" }]
privacy = { masks = true }
deploy = { run = "m", wire = "float64" }
"""


@pytest.fixture
def masked(tmp_path, broker, team, psofed):
    """A team whose clients have mask keys."""
    (tmp_path / "run.toml").write_text(RUN)
    assert psofed("deploy", "keys", "make", "run.toml").returncode == 0
    for k in range(5):
        assert psofed("deploy", "keys", "add", k).returncode == 0
    keys = tmp_path / "keys"

    def more(k):
        own = "--mask-key", keys / f"{k}.mask", "--masks", keys / "masks.json"
        return [*own, "--ca", keys / "ca.pem"]

    return team(RUN, broker.url, client=more)


def rounds(found) -> int:
    return found.log("server").count(" answered")


def test_after_kills_of_everybody_the_masked_sums_give_the_model_of_the_simulation(
    masked, tmp_path
):
    found = masked
    everybody = ["server", *range(5)]
    for who in everybody:
        found.start(who)
    for who in (1, "server"):
        reached = rounds(found)
        wait_for(lambda reached=reached: rounds(found) > reached + 2)
        found.kill(who)
        found.start(who)
    wait_for(lambda: found.running["server"].poll() is not None, 60)
    found.stop()
    plan = deployment.read(tmp_path / "run.toml")
    server, local = deployed(plan, tmp_path / "server", [tmp_path / str(k) for k in range(5)])
    w, expected = simulate(plan, 20)
    assert server.n == 20
    assert np.abs(server.model - w).max() <= 1e-12
    assert np.abs(local - expected).max() <= 1e-12

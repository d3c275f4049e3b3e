"""kill -9 of real processes: a mosquitto, a server and ten clients, beside the engine."""

from __future__ import annotations

import random
import re
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from helpers.devices import Mosquitto, Team, mosquitto, wait_for
from psofed.protocol import deployment as plans
from psofed.verify.twin import deployed, simulate

SETTING = """
clients = 10
rounds = ROUNDS
cohort = 4
dtype = "float64"
test_samples = 100
[[methods]]
name = "psofed"
shared = 40
[deploy]
wire = "float64"
"""


def kills(count: int, seed: int = 1) -> tuple[int, int, float]:
    """Kill server and clients in turn; how often each, and the largest difference to the engine."""
    if not mosquitto():
        raise FileNotFoundError("mosquitto is not installed")
    rounds = max(10 * count, 100)
    with tempfile.TemporaryDirectory() as name:
        folder, chance = Path(name), random.Random(seed)
        file = folder / "run.toml"
        file.write_text(SETTING.replace("ROUNDS", str(rounds)))
        broker = Mosquitto(folder)
        team = Team(folder, file, broker.url, serve=("--every", "0.05"))
        try:
            done = _disturb(team, count, chance)
        finally:
            team.stop()
            broker.stop()
        plan = plans.read(file)
        server, local = deployed(plan, folder / "server", [folder / str(k) for k in range(10)])
        w, expected = simulate(plan, rounds)
        off = max(np.abs(server.state["w"] - w).max(), np.abs(local - expected).max())
        seen = [int(n) for n in re.findall(r"^round (\d+)", team.log("server"), re.M)]
        if server.n != rounds or seen != sorted(set(seen)):
            off = np.inf
        return *done, float(off)


def _disturb(team: Team, count: int, chance: random.Random) -> tuple[int, int]:
    for who in ("server", *range(10)):
        team.start(who)
    wait_for(lambda: "round 2" in team.log("server"))
    servers = clients = 0
    while servers + clients < count and team.running["server"].poll() is None:
        for who in ("server", chance.randrange(10)):
            team.kill(who)
            team.start(who)
        servers, clients = servers + 1, clients + 1
        time.sleep(chance.uniform(0.0, 1.2))
    wait_for(lambda: team.running["server"].poll() is not None, seconds=3600)
    return servers, clients

"""The state folders of one version, made by that version: a server and two clients in three runs.

    git archive COMMIT src | tar x -C TREE
    PYTHONPATH=TREE/src python tests/legacy_states/make.py tests/legacy_states/DATE-TIME-COMMIT.zip

It uses only what every version since 98181dc has. Each run stops after ROUNDS[0] rounds, and its
folders are kept as they are then; the version itself goes on to ROUNDS[1] and says where it ends.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

from psofed.deploy.samples import replay
from psofed.protocol import deployment
from psofed.protocol.client import Member
from psofed.protocol.coordinator import Coordinator
from psofed.protocol.store import StateFolder

ROUNDS = 5, 12
SAMPLES = 3  # of each client before each round, on the live clock
FILES = {
    "psofed": ('name = "psofed"\nshared = 2', "lockstep"),
    "memofed": ('name = "memofed"\nbudget = 80.0\nsize = 4', "lockstep"),
    "live": ('name = "fedavg"', "live"),
}
TEXT = """clients = 2
cohort = 2
rounds = 12
seed = 7
dtype = "float64"

[features]
dim = 6

[[methods]]
{method}

[deploy]
run = "old"
clock = "{clock}"
wire = "float64"
"""


class Fleet:
    """A server and its clients on state folders, without a network."""

    def __init__(self, folder):
        self.plan = plan = deployment.read(folder / "run.toml")
        self.live = plan.deploy.clock == "live"
        self.disks = [StateFolder(folder / who) for who in ("server", "0", "1")]
        self.streams = [replay(plan.experiment, k) for k in range(2)]
        sources = [None, None] if self.live else self.streams
        self.server = Coordinator(plan, self.disks[0])
        self.members = [Member(plan, k, self.disks[k + 1], sources[k]) for k in range(2)]
        for disk in self.disks:
            plan.keep(disk)

    def play(self, rounds):
        while self.server.n < rounds:
            if self.live:
                for member, stream in zip(self.members, self.streams, strict=True):
                    n = SAMPLES * self.server.n
                    member.client.learn(*stream(n, n + SAMPLES))
            for k, frame in self.server.frames().items():
                answer, said = self.members[k].take(frame)
                if answer is None or self.server.take(k, answer) != "accepted":
                    raise RuntimeError(f"client {k} in round {self.server.n}: {said}")
            self.server.commit()

    def models(self):
        """The global model and those of the clients, as they are."""
        local = [m.client.method.own(m.client.state) for m in self.members]
        return {
            "n": self.server.n,
            "incarnation": self.server.incarnation,
            "w": self.server.server.model.tolist(),
            "local": [None if w is None else np.asarray(w).tolist() for w in local],
        }

    def close(self):
        for disk in self.disks:
            disk.close()


def main(out):
    with tempfile.TemporaryDirectory() as here:
        for name, (method, clock) in FILES.items():
            folder, kept = Path(here, "work", name), Path(here, "kept", name)
            folder.mkdir(parents=True)
            (folder / "run.toml").write_text(TEXT.format(method=method, clock=clock))
            fleet = Fleet(folder)
            fleet.play(ROUNDS[0])
            expected = {"then": fleet.models()}
            shutil.copytree(folder, kept, ignore=shutil.ignore_patterns("lock", "model*"))
            fleet.play(ROUNDS[1])
            expected["end"] = fleet.models()
            fleet.close()
            (kept / "expected.json").write_text(json.dumps(expected) + "\n")
        shutil.make_archive(str(out.with_suffix("")), "zip", Path(here, "kept"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

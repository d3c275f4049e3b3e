"""What a client costs its flash: bytes written and fsyncs an hour, on a real folder.

    python benchmarks/flash.py [--hours 24]

A client with D = 200, with and without a mix, gets samples and takes part in rounds at the times of
a day that passes in a moment; what it hands to its folder, and each fsync, is counted. A file
system adds what it needs for names and blocks.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from time import monotonic
from typing import Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from helpers.loopback import Line, connect, disk
from psofed.experiment import Experiment, Features
from psofed.fleet import client_loop
from psofed.fleet.mqtt import Event
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.member import Member
from psofed.fleet.protocol.store import StateFolder
from psofed.fleet.samples import Sample
from psofed.fleet.server_loop import ServerLoop
from psofed.methods import psofed
from psofed.stages.mix import MixOptions

CASES = [(60, 0), (60, 6), (60, 60), (1, 0), (1, 60)]  # seconds between samples, rounds an hour


class Counted(StateFolder):
    """A folder that counts what is written into it."""

    written = 0

    def write(self, name: str, data: bytes) -> None:
        """Count, and write."""
        self.written += len(data)
        super().write(name, data)


def cost(mix: bool, interval: int, rounds: int, hours: int) -> tuple[float, float]:
    """MB and fsyncs an hour of a client with a sample each `interval` seconds."""
    world = Experiment(
        clients=1, cohort=1, features=Features(dim=200), methods=(psofed.Options(shared=5),),
        mix=MixOptions() if mix else None,
    )  # fmt: skip
    plan, now, syncs = Deployment(world, Deploy(clock="live")), [monotonic()], [0]
    begin, real = now[0], {name: getattr(os, name) for name in ("fsync", "fdatasync")}

    def counted(name: str) -> Any:
        def sync(handle: Any) -> None:
            syncs[0] += 1
            real[name](handle)

        return sync

    with (
        tempfile.TemporaryDirectory() as name,
        mock.patch.object(client_loop, "monotonic", side_effect=lambda: now[0]),
    ):
        folder = Counted(Path(name) / "s")
        device = client_loop.Device(Member(plan, 0, folder), Line())
        server, rng = Coordinator(plan, disk()), np.random.default_rng(0)
        connect(ServerLoop(server, Line()), {0: device})
        with mock.patch.multiple(os, **{name: counted(name) for name in real}):
            for second in range(0, hours * 3600, interval):
                now[0] = begin + second
                x = rng.normal(size=4)
                device._waiting.put(Sample(x, float(np.sin(x.sum()))))
                device._step()
                if rounds and second % (3600 // rounds) < interval:
                    for frame in server.frames().values():
                        device._network(Event("message", "p/0/d", frame))
                    assert server.commit().accepted == 1
        folder.close()
    return folder.written / hours / 1e6, syncs[0] / hours


def measure(quick: bool, hours: int = 24) -> dict[str, float]:
    """MB and fsyncs an hour with a sample a minute and a mix, by rounds an hour."""
    found = {}
    for interval, rounds in CASES[: 2 if quick else None]:
        for mix in (True, False):
            mb, syncs = cost(mix, interval, rounds, hours if interval > 1 else 1)
            found |= {
                f"mb {mix} {interval} {rounds}": mb,
                f"syncs {mix} {interval} {rounds}": syncs,
            }
    return found


def main() -> None:
    """Measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=24)
    found = measure(False, parser.parse_args().hours)
    print("| samples | rounds an hour | MB an hour | with a mix | fsyncs an hour | with a mix |")
    print("|---|---|---|---|---|---|")
    for interval, rounds in CASES:
        cells = [
            f"{found[f'{what} {mix} {interval} {rounds}']:.{digits}f}"
            for what, digits in (("mb", 3), ("syncs", 0))
            for mix in (False, True)
        ]
        each = "a minute" if interval == 60 else "a second"
        print(f"| one {each} | {rounds} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

"""The edge client: CPU and memory until it waits for its broker, and samples learned a second.

    python benchmarks/client.py [--repeats 5]

The best of some repeats, because other work on the machine can only make a time longer.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from psofed.deploy.samples import replay
from psofed.experiment import Experiment
from psofed.methods import psofed
from psofed.protocol.client import Client

SETTING = '[[methods]]\nname = "psofed"\nshared = 40\n'
SAMPLES = 20_000


def start() -> tuple[float, float]:
    """CPU seconds and resident MB of `psofed client` when it has said that it waits."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "run.toml"
        file.write_text(SETTING)
        command = [sys.executable, "-m", "psofed", "client", file, "--id", "0", "--state",
                   Path(name) / "c", "--broker", "mqtt://127.0.0.1:1"]  # fmt: skip
        process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        while "no broker" not in process.stderr.readline():
            pass
        folder = Path(f"/proc/{process.pid}")
        times = (folder / "stat").read_text().rsplit(")", 1)[1].split()[11:13]
        status = (folder / "status").read_text().split()
        process.terminate()
        process.communicate()
    cpu = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
    return cpu, int(status[status.index("VmHWM:") + 1]) / 1024


def learn(dtype: str) -> float:
    """Samples a second (CPU time) of a client that catches up, D = 200."""
    experiment = Experiment(dtype=dtype, methods=(psofed.Options(shared=40),))  # type: ignore[arg-type]
    x, y = replay(experiment, 0)(0, SAMPLES)
    (method,) = experiment.start(experiment.task(0))
    client = Client(method, 0, lambda start, stop: (x[start:stop], y[start:stop]))
    begin = time.process_time()
    client.catch_up(SAMPLES)
    return SAMPLES / (time.process_time() - begin)


def measure(quick: bool, repeats: int = 5) -> dict[str, float]:
    """CPU seconds and MB of the start, samples learned a second."""
    times = range(2 if quick else repeats)
    starts = [start() for _ in times]
    found = {"cpu": min(s[0] for s in starts), "mb": max(s[1] for s in starts)}
    return found | {dtype: max(learn(dtype) for _ in times) for dtype in ("float64", "float32")}


def main() -> None:
    """Measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    found = measure(False, parser.parse_args().repeats)
    print("| | measured | wanted |\n|---|---|---|")
    print(f"| CPU until it waits for its broker | {found['cpu']:.2f} s | 0.5 s |")
    print(f"| resident memory | {found['mb']:.0f} MB | 60 MB |")
    for dtype in ("float64", "float32"):
        best = round(found[dtype], -3)
        print(f"| samples learned a second, {dtype} | {best:,.0f} | 20,000 |")


if __name__ == "__main__":
    main()

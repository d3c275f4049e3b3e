"""The edge client: CPU and memory until it waits for its broker, and samples learned a second.

MEMO-Fed's client is timed beside PSO-Fed's, in turns: a sample at a time, as on the live clock, and
when it catches up, where it adds up 32 samples at once.

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
from dataclasses import replace
from pathlib import Path

from psofed.experiment import Experiment
from psofed.federation.contract import Common
from psofed.fleet.protocol.client import Client
from psofed.fleet.samples import replay
from psofed.methods import memofed, psofed

SETTING = '[[methods]]\nname = "psofed"\nshared = 40\n'
SAMPLES = 20_000
PSO, MEMO = psofed.Options(shared=40), memofed.Options()
SIZES = (40, 80)  # of MEMO-Fed's basis


def start() -> tuple[float, float]:
    """CPU seconds and resident MB of `psofed deploy client` when it has said that it waits."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "run.toml"
        file.write_text(SETTING)
        command = [sys.executable, "-m", "psofed", "deploy", "client", file, "--id", "0", "--state",
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


def learn(dtype: str, options: Common = PSO, each: bool = False) -> float:
    """Samples a second (CPU time) of a client that catches up or gets one at a time, D = 200."""
    experiment = Experiment(dtype=dtype, methods=(options,))  # type: ignore[arg-type]
    count = SAMPLES // 10 if each else SAMPLES
    x, y = replay(experiment, 0)(0, count)
    (method,) = experiment.start(experiment.task(0))
    client = Client(method, 0, None if each else lambda start, stop: (x[start:stop], y[start:stop]))
    begin = time.process_time()
    if each:
        for n in range(count):
            client.learn(x[n : n + 1], y[n : n + 1])
    else:
        client.catch_up(count)
    return count / (time.process_time() - begin)


def measure(quick: bool, repeats: int = 5) -> dict[str, float]:
    """CPU seconds and MB of the start, samples learned a second."""
    times = range(2 if quick else repeats)
    starts = [start() for _ in times]
    found = {"cpu": min(s[0] for s in starts), "mb": max(s[1] for s in starts)}
    found |= {dtype: max(learn(dtype) for _ in times) for dtype in ("float64", "float32")}
    return found | beside(len(times))


def beside(repeats: int) -> dict[str, float]:
    """CPU time of MEMO-Fed's client for a sample over PSO-Fed's, in float32: the best of each."""
    found = {}
    for each, name in ((False, "catching up"), (True, "one at a time")):
        forms = [PSO, *(replace(MEMO, size=size) for size in SIZES)]
        turns = [[learn("float32", options, each) for options in forms] for _ in range(repeats)]
        best, *others = map(max, zip(*turns, strict=True))
        found |= {f"d = {d}, {name}": best / o for d, o in zip(SIZES, others, strict=True)}
    return found


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
    for name, ratio in found.items():
        if name.startswith("d ="):
            print(f"| MEMO-Fed's time a sample over PSO-Fed's, {name} | {ratio:.2g} | |")


if __name__ == "__main__":
    main()

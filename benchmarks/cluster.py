"""A Dask cluster on this machine: wall time, idle workers, bytes and the scheduler's load.

    python benchmarks/cluster.py [--workers 1,2,4] [--repeats 3] [--quick]     (extra `cluster`)

A scheduler and workers in processes of their own do three jobs: `run` (the paper's seven curves),
`compare` (the methods of a comparison, several runs in a task) and `sweep` (short experiments one
after the other, each of which waits for its last run). Efficiency is the time with one worker over
that with n, divided by n, each the least of some repeats in turn; it needs n cores with little
other work. Computing is the share of the workers' time in which they computed: scheduling loses the
rest. The tail is from the first worker without work to the end. Bytes are the pickled experiment of
a task and its results. CPU seconds are those of the workers, of the scheduler's process, and of
this one, which adds up the results. What memory costs under Dask's own settings is seen with
MALLOC_TRIM_THRESHOLD_=65536 MALLOC_MMAP_THRESHOLD_=131072 python benchmarks/cluster.py.
"""

from __future__ import annotations

import argparse
import os
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lockstep import comparison

from psofed.experiment import Experiment
from psofed.simulate import montecarlo, pools
from psofed.simulate.onerun import some_runs

TARGET = 0.85  # efficiency with two workers
Parts = list[Experiment]


def jobs(quick: bool) -> dict[str, Parts]:
    """The experiments of each job, one after the other."""
    times = 1 if quick else 3
    run = Experiment(rounds=5000, runs=50 * times, evaluate_every=5)
    compare = replace(comparison(0.2), rounds=100, runs=32 * times)
    point = Experiment(rounds=1000, runs=10 * times)
    sweep = [replace(point, cohort=cohort) for cohort in (1, 2, 4, 8)]
    return {"run": [run], "compare": [compare], "sweep": sweep}


@contextmanager
def started(words: list[str], says: str) -> Iterator[tuple[int, str]]:
    """A process of Dask's, when it has said something: its number, and what."""
    command = [sys.executable, "-m", f"distributed.cli.{words[0]}", *words[1:]]
    pipes: dict[str, Any] = {"stderr": subprocess.STDOUT, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, **pipes)
    assert process.stdout is not None
    try:
        found = next(filter(None, (re.search(says, line) for line in process.stdout)))
        yield process.pid, found[1]
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def local_cluster(count: int) -> Iterator[tuple[int, str]]:
    """A scheduler and `count` workers: the scheduler's process and address."""
    here = ["--host", "127.0.0.1", "--no-dashboard"]
    scheduler = started(["dask_scheduler", *here, "--port", "0"], r"Scheduler at:\s+(tcp://\S+)")
    with scheduler as (process, address):
        more = ["--nthreads", "1", "--nworkers", str(count)]
        with started(["dask_worker", address, *here, *more], r"Registered to:\s+(tcp)"):
            yield process, address


def cpu(process: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Done:
    """What one job took on so many workers."""

    wall: float
    busy: float  # share of the workers' time
    tail: float  # seconds, in all parts
    first: float  # seconds from the start to the first task
    tasks: int
    cpu: float  # of all workers
    scheduler: float
    client: float


def compute(parts: Parts, count: int) -> Done:
    """All parts on a new cluster, whose workers have done a little before."""
    from distributed import get_task_stream

    with local_cluster(count) as (process, address), pools.cluster(address) as pool:
        client: Any = pool.client  # type: ignore[attr-defined]
        client.wait_for_workers(count)
        pool.workers, pool.ahead = count, 3 * count
        client.run(some_runs, replace(parts[0], rounds=20), [0])  # imports, on each worker
        before, walls, spans = spent(client, process), 0.0, []
        for part in parts:
            begin = time.time()
            with get_task_stream(client=client) as stream:
                montecarlo.run(part, pool=nullcontext(pool), progress=False)
                end = time.time()
            walls += end - begin
            spans.append((begin, end, busy_times(stream.data)))
        used = [b - a for a, b in zip(before, spent(client, process), strict=True)]
    each = [(start, stop) for *_, of in spans for times in of.values() for start, stop in times]
    busy = sum(stop - start for start, stop in each) / (count * walls)
    tail = sum(end - min(max(stop for _, stop in times) for times in of.values())
               for _, end, of in spans)  # fmt: skip
    first = sum(min(start for times in of.values() for start, _ in times) - begin
                for begin, _, of in spans)  # fmt: skip
    return Done(walls, busy, tail, first, len(each), *used)


def spent(client: Any, process: int) -> list[float]:
    """CPU seconds so far: the workers', the scheduler's, this process's."""
    return [sum(client.run(time.process_time).values()), cpu(process), time.process_time()]


def busy_times(tasks: Any) -> dict[str, list[tuple[float, float]]]:
    """When each worker computed."""
    found: dict[str, list[tuple[float, float]]] = {}
    for task in tasks:
        for span in task["startstops"]:
            if span["action"] == "compute":
                found.setdefault(task["worker"], []).append((span["start"], span["stop"]))
    return found


def sizes(parts: Parts) -> tuple[int, int]:
    """Bytes of a task's experiment, and of the results of a run."""
    few = replace(parts[0], runs=1)
    sent = pools._Packing(pickle.dumps)(few)
    return len(pickle.dumps(sent)), len(pickle.dumps(some_runs(few, [20])))


def best(parts: Parts, counts: list[int], repeats: int) -> list[Done]:
    """The shortest of some, for each number of workers; in turn, as the machine has other work."""
    turns = [[compute(parts, count) for count in counts] for _ in range(repeats)]
    return [min(each, key=lambda done: done.wall) for each in zip(*turns, strict=True)]


def measure(quick: bool) -> dict[str, float]:
    """By job: the efficiency of two workers, and the share of their time in which they computed."""
    found: dict[str, float] = {}
    for name, parts in jobs(quick).items():
        one, two = best(parts, [1, 2], 1 if quick else 3)
        found |= {f"{name}_efficiency": one.wall / two.wall / 2, f"{name}_computing": two.busy}
    return found


HEAD = ("workers", "wall s", "efficiency", "computing", "tail s", "first s", "tasks",
        "workers' CPU", "scheduler's", "client's")  # fmt: skip


def show(parts: Parts, counts: list[int], repeats: int) -> float:
    """A line for each number of workers; the efficiency of two."""
    print("".join(f"{word:>13s}" for word in HEAD))
    one, two = 0.0, float("nan")
    for count, done in zip(counts, best(parts, counts, repeats), strict=True):
        one = one or count * done.wall
        speed = one / done.wall / count
        two = speed if count == 2 else two
        numbers = [f"{done.wall:.1f}", f"{speed:.0%}", f"{done.busy:.0%}"]
        numbers += [f"{done.tail:.2f}", f"{done.first:.2f}", f"{done.tasks}", f"{done.cpu:.1f}"]
        numbers += [f"{done.scheduler:.2f}", f"{done.client:.2f}"]
        print("".join(f"{word:>13s}" for word in [str(count), *numbers]), flush=True)
    return two


def main() -> None:
    """Measure and print; exit code 1 if the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--job", choices=["run", "compare", "sweep"])
    asked = parser.parse_args()
    missed = []
    for name, parts in jobs(asked.quick).items():
        if asked.job in (None, name):
            sent, results = sizes(parts)
            runs = sum(part.runs for part in parts)
            print(f"\n{name}: {runs} runs; a task gets {sent:,} bytes, a run returns {results:,}")
            if show(parts, list(map(int, asked.workers.split(","))), asked.repeats) < TARGET:
                missed.append(name)
    verdict = f"missed by {', '.join(missed)}" if missed else "met"
    print(f"\nefficiency of two workers, target >= {TARGET:.0%}: {verdict}")
    print(f"load average of the last minutes: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()

"""The engine beside its peers: the same job on the same draws, CPU seconds per Monte-Carlo run.

    python benchmarks/engine.py [--repeats 5] [--json FILE]

First every peer's curves are compared with the engine's; one that disagrees ends it with exit 1.
Then all are timed in turn, again and again, each on one thread with its draws, and the best time of
each is kept, because other work on the machine can only make a time longer.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
from job import FIRST, Array, inputs, ours, paper
from threadpoolctl import threadpool_limits

LOOP_ROUNDS = 60  # the plain loop does so many rounds, and its time is scaled to all of them
RELATIVE, DECIBELS = 1e-6, 1e-3  # how closely float64 and float32 peers must agree


@dataclass
class Row:
    """One line of the table."""

    name: str
    dtype: Literal["float32", "float64"]
    peer: str = ""  # module and function; empty for the engine itself
    tries: int = 1
    least: float | None = None  # the target: its time over psofed's
    target: str = ""
    note: str = ""
    difference: float | None = None
    seconds: float | None = None
    ratio: float | None = None
    met: bool | None = None


def rows() -> list[Row]:
    """The engine, then its peers. What is fast gets more tries: it is disturbed more easily."""
    return [
        Row("psofed", "float32", tries=5),
        Row("psofed, float64", "float64", tries=3),
        Row("plain NumPy loop", "float64", "loop.run", 1, 300, ">= 300 x"),
        Row("plain loop, method by method", "float64", "loop.run_apart"),
        Row("NumPy, all clients at once", "float64", "vectorised.run", 1, 20, ">= 20 x"),
        Row("JAX, jit and scan", "float32", "jax_peer.run", 2, 15, ">= 15 x"),
        Row("C, fused and lazy", "float32", "ckernel.run", 5, 1 / 1.05, ">= 1/1.05 x"),
    ]


def load(row: Row) -> Callable[..., Array] | None:
    """The peer's function, or None with a note why it cannot run."""
    name, _, function = row.peer.partition(".")
    try:
        module = import_module(f"peers.{name}")
    except ModuleNotFoundError as error:
        row.note = f"not installed ({error.name})"
        return None
    if not getattr(module, "available", lambda: True)():
        row.note = "no gcc"
        return None
    run: Callable[..., Array] = getattr(module, function)
    return run


def is_loop(row: Row) -> bool:
    """Whether only some rounds are done."""
    return row.peer.startswith("loop.")


def compare(row: Row, run: Callable[..., Array]) -> bool:
    """Whether the peer's curves are the engine's."""
    experiment = paper(row.dtype)
    known = ours(experiment, FIRST)
    drawn = inputs(experiment, FIRST)
    theirs = run(drawn, LOOP_ROUNDS) if is_loop(row) else run(drawn)
    known = known[:, : theirs.shape[1]]
    if row.dtype == "float64":
        row.difference = float(np.abs(theirs / known - 1).max())
        return row.difference <= RELATIVE
    row.difference = float(np.abs(10 * np.log10(theirs / known)).max())
    return row.difference <= DECIBELS


def cpu(work: Callable[[], Any]) -> float:
    """CPU seconds of this process, all its threads."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def once(row: Row, run: Callable[..., Array] | None, number: int) -> float:
    """CPU seconds of Monte-Carlo run `number`, draws included."""
    experiment = paper(row.dtype)
    if run is None:
        return cpu(lambda: ours(experiment, number))
    if not is_loop(row):
        return cpu(lambda: run(inputs(experiment, number)))
    drawn = inputs(experiment, number)
    draws = cpu(lambda: inputs(experiment, number))
    fixed = min(cpu(lambda: run(drawn, 0)) for _ in range(3))  # mostly the test set's features
    part = cpu(lambda: run(drawn, LOOP_ROUNDS)) - fixed
    return draws + fixed + part * experiment.rounds / LOOP_ROUNDS


def time_all(table: list[tuple[Row, Any]], repeats: int) -> None:
    """Best times, round-robin."""
    for repeat in range(repeats):
        for row, run in table:
            spent = min(once(row, run, FIRST + repeat) for _ in range(row.tries))
            row.seconds = min(spent, row.seconds or spent)


def rate(table: list[Row]) -> None:
    """Ratios to the engine, and whether the targets are met."""
    unit = table[0].seconds
    for row in table[1:]:
        if row.seconds is not None and unit is not None:
            row.ratio = row.seconds / unit
            row.met = None if row.least is None else row.ratio >= row.least


def add_roofline(table: list[Row]) -> dict[str, Any]:
    """Add the roofline's row; returns its parts."""
    import roofline
    from peers import ckernel

    row = Row("roofline", "float32", least=0.55, target=">= 0.55 x")
    table.append(row)
    if not ckernel.available():
        row.note = "no gcc"
        return {}
    job = inputs(paper("float32"), FIRST)
    peaks = roofline.of_job(job)
    parts = roofline.parts(job, peaks)
    row.seconds = sum(parts.values())
    roofline.show(job, peaks)
    return {"peaks": asdict(peaks), "seconds": parts}


def show(table: list[Row]) -> None:
    """Print the table."""
    print(f"\n{'':30s}{'dtype':9s}{'ms/run':>9s}{'over psofed':>13s}  {'target':20s}differs by")
    for row in table:
        spent = "-" if row.seconds is None else f"{row.seconds * 1e3:.1f}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f} x"
        verdict = {None: "", True: " met", False: " missed"}[row.met]
        unit = "" if row.dtype == "float64" else " dB"
        differs = "" if row.difference is None else f"{row.difference:.1e}{unit}"
        columns = f"{row.name:30s}{row.dtype:9s}{spent:>9s}{ratio:>13s}  "
        print(f"{columns}{row.target + verdict:20s}{differs:12s}{row.note}".rstrip())


def agreeing(table: list[Row]) -> list[tuple[Row, Any]]:
    """The rows that can run, each compared with the engine; a difference ends the program."""
    running: list[tuple[Row, Any]] = []
    for row in table:
        run = load(row) if row.peer else None
        if row.peer and run is None:
            continue
        if run is not None and not compare(row, run):
            raise SystemExit(f"{row.name} differs from psofed by {row.difference}")
        if is_loop(row):
            row.note = f"{LOOP_ROUNDS} rounds, scaled to {paper(row.dtype).rounds}"
        running.append((row, run))
    return running


def timed(repeats: int) -> tuple[list[Row], dict[str, Any]]:
    """The whole table, and the parts of the roofline."""
    table = rows()
    with threadpool_limits(1):
        running = agreeing(table)
        time_all([pair for pair in running if not is_loop(pair[0])], 1)  # warm up
        for row in table:
            row.seconds = None
        time_all(running, repeats)
        parts = add_roofline(table)
    rate(table)
    return table, parts


def measure(quick: bool) -> dict[str, float]:
    """Milliseconds of a run, and what each peer takes over it, by name."""
    table, _ = timed(3 if quick else 7)
    found = {row.name: row.ratio for row in table if row.ratio is not None}
    return found | {"ms": 1e3 * (table[0].seconds or float("nan"))}


def main() -> None:
    """Compare, time, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="rounds of timing (default 5)")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    arguments = parser.parse_args()
    table, parts = timed(arguments.repeats)
    show(table)
    if arguments.json:
        found = {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "rows": [asdict(row) for row in table],
            "roofline": parts,
        }
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

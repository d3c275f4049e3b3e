"""How CPU time and memory grow with clients, features, rounds, methods and runs.

    python benchmarks/scaling.py [--json FILE]

Each case is one Monte-Carlo run in a process of its own, on one thread. Peak memory is the whole
process's; the last lines say what it is before the run. With many clients each is selected once
and then catches up on all rounds before, so the samples to learn from grow at first (20 times
from 10^2 to 10^6 clients at 1,000 rounds) and then no more; a client that is never selected costs
nothing.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

TIMEOUT = 180  # seconds, per case
# Few rounds where each is expensive, few clients where there are many rounds.
CASES: dict[str, list[dict[str, int]]] = {
    "clients": [{"clients": 10**power, "rounds": 1000} for power in range(2, 7)],
    "dim": [{"dim": dim, "rounds": 20} for dim in (200, 2000, 20_000)],
    "rounds": [
        {"rounds": 10**power, "clients": 10, "evaluate_every": 10 ** (power - 2)}
        for power in range(3, 7)
    ],
    "methods": [{"methods": count, "rounds": 1000} for count in (1, 7, 14, 28)],
    # Through `psofed.run`, which also computes the floors of the figures in its first 20 runs.
    "runs": [{"runs": runs, "rounds": 200} for runs in (20, 40, 80)],
}


def build(case: dict[str, int]) -> Any:
    """The experiment of a case."""
    import psofed

    options: dict[str, Any] = dict(case)
    if "dim" in options:
        options["features"] = psofed.Features(dim=options.pop("dim"))
    if "methods" in options:
        count = options.pop("methods")
        options["methods"] = tuple(psofed.PSOFed(shared=m + 1) for m in range(count))
    return psofed.Experiment(**{"runs": 1, **options})


def memory() -> float:
    """Peak memory of this process so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def measure(case: dict[str, int]) -> dict[str, float]:
    """CPU seconds and peak memory of one case, in this process."""
    from job import FIRST, ours

    import psofed

    experiment = build(case)
    with threadpool_limits(1):
        ours(psofed.Experiment(clients=5, rounds=3, runs=1, test_samples=50), FIRST)  # compile
        before, begin = memory(), time.process_time()
        if "runs" in case:
            psofed.run(experiment, jobs=1)
        else:
            ours(experiment, FIRST)
        return {"seconds": time.process_time() - begin, "peak": memory(), "before": before}


def spawn(case: dict[str, int]) -> dict[str, float] | None:
    """`measure` in a fresh process; None if it failed or took too long."""
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        print(error.stderr or error, file=sys.stderr)
        return None
    found: dict[str, float] = json.loads(done.stdout)
    return found


def sweep() -> dict[str, list[dict[str, Any]]]:
    """All cases, printed as they come."""
    found: dict[str, list[dict[str, Any]]] = {}
    for axis, cases in CASES.items():
        fixed = {k: v for k, v in cases[0].items() if k != axis and len({c[k] for c in cases}) == 1}
        note = ", ".join(f"{key} {value:,}" for key, value in fixed.items())
        print(f"\n{axis:>12s}{'CPU s':>10s}{'peak MB':>10s}   {note}")
        found[axis] = []
        for case in cases:
            result = spawn(case)
            found[axis].append(case | (result or {}))
            spent = f"{result['seconds']:10.3f}{result['peak']:10.0f}" if result else "    failed"
            print(f"{case[axis]:12,}{spent}", flush=True)
    return found


def show_ratio(cases: list[dict[str, Any]]) -> None:
    """A million clients over a hundred."""
    first, last = cases[0], cases[-1]
    if "seconds" in first and "seconds" in last:
        spent, peak = (last[key] / first[key] for key in ("seconds", "peak"))
        print(f"\n10^6 over 10^2 clients: {spent:.1f} x the CPU time, {peak:.1f} x the memory")


def main() -> None:
    """Measure one case, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(measure(arguments.case)))
        return
    found = sweep()
    before = max(case.get("before", 0) for cases in found.values() for case in cases)
    print(f"\nThe process has {before:.0f} MB before the run.")
    show_ratio(found["clients"])
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""How CPU time and memory grow with clients, features, rounds, methods and runs.

    python benchmarks/scaling.py [--json FILE] [--only clients,each_method,...]

Each case is one Monte-Carlo run in a process of its own, on one thread. Peak memory is the whole
process's; the last lines say what it is before the run. With many clients each is selected once
and then catches up on all rounds before, so the samples to learn from grow at first (20 times
from 10^2 to 10^6 clients at 1,000 rounds) and then no more; a client that is never selected costs
nothing. The last table has every method of a comparison, and some forms in which everybody
matters, so that time and memory must grow with the clients.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from functools import cache
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
# Clients and rounds of the table of every method. Where everybody matters: fewer clients, and fewer
# still where each has a D x D matrix, 0.3 MB.
MANY, SOME, METHOD_ROUNDS = 10**6, 10**4, 200


@cache
def each_method() -> tuple[Any, ...]:
    """Those of a comparison; PAO-Fed whose clients decide by themselves; a policy."""
    from psofed.compare import budget
    from psofed.methods import paofed, psofed
    from psofed.rivals.policies import importance

    asked = paofed.Options(shared=40, availability=0.05)
    chosen = psofed.Options(shared=40, policy=importance.Options())
    return (*budget.everything(200), asked, chosen)


def most(options: Any) -> tuple[int, str]:
    """How many clients a method is measured with, and why not more."""
    if options.policy is not None:
        return SOME, "the policy looks at every client"
    if options.name == "paofed" and options.all_matter:
        return SOME, "every client decides by itself"
    why = {"centralised": "all samples are used", "local": "every client is judged"}
    default = "every client learns and sends"
    return (SOME, why.get(options.name, default)) if options.all_matter else (MANY, "")


def build(case: dict[str, int]) -> Any:
    """The experiment of a case."""
    import psofed

    options: dict[str, Any] = dict(case)
    if "dim" in options:
        options["features"] = psofed.Features(dim=options.pop("dim"))
    if "methods" in options:
        count = options.pop("methods")
        options["methods"] = tuple(psofed.PSOFed(shared=m + 1) for m in range(count))
    if "method" in options:
        options["methods"] = (each_method()[options.pop("method")],)
    return psofed.Experiment(**{"runs": 1, **options})


def memory() -> float:
    """Peak memory of this process so far, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux's getrusage also counts the process that started this one
        words = status.read_text().split()
        return int(words[words.index("VmHWM:") + 1]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def one(case: dict[str, int]) -> dict[str, float]:
    """CPU seconds and peak memory of one case, in this process."""
    from job import FIRST, ours

    import psofed

    experiment = build(case)
    with threadpool_limits(1):
        ours(psofed.Experiment(clients=5, rounds=3, runs=1, test_samples=50), FIRST)  # fills caches
        before, begin = memory(), time.process_time()
        if "runs" in case:
            psofed.run(experiment, jobs=1)
        else:
            ours(experiment, FIRST)
        return {"seconds": time.process_time() - begin, "peak": memory(), "before": before}


def spawn(case: dict[str, int]) -> dict[str, float] | None:
    """`one` in a fresh process; None if it failed or took too long."""
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        print(error.stderr or error, file=sys.stderr)
        return None
    found: dict[str, float] = json.loads(done.stdout)
    return found


def sweep(wanted: list[str]) -> dict[str, list[dict[str, Any]]]:
    """The cases, printed as they come."""
    found: dict[str, list[dict[str, Any]]] = {}
    for axis, cases in CASES.items():
        if axis not in wanted:
            continue
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


def sweep_methods() -> list[dict[str, Any]]:
    """Every method with few and with many clients, a line each."""
    head = "".join(f"{f'K = {clients:,}':>19s}" for clients in (100, SOME, MANY))
    print(f"\nevery method, {METHOD_ROUNDS} rounds: CPU s, peak MB\n{'':46s}{head}")
    found = []
    for j, options in enumerate(each_method()):
        largest, why = most(options)
        line = f"{options.title():46s}"
        for clients in sorted({100, min(SOME, largest), largest}):
            case = {"method": j, "clients": clients, "rounds": METHOD_ROUNDS}
            result = spawn(case)
            found.append({"title": options.title()} | case | (result or {}))
            line += (
                f"{result['seconds']:11.2f} {result['peak']:7.0f}" if result else f"{'failed':>19s}"
            )
        print(f"{line}{f'   up to {largest:,}: {why}' if why else ''}", flush=True)
    return found


def show_ratio(cases: list[dict[str, Any]]) -> None:
    """A million clients over a hundred."""
    first, last = cases[0], cases[-1]
    if "seconds" in first and "seconds" in last:
        spent, peak = (last[key] / first[key] for key in ("seconds", "peak"))
        print(f"\n10^6 over 10^2 clients: {spent:.1f} x the CPU time, {peak:.1f} x the memory")


def measure(quick: bool) -> dict[str, float]:
    """A million clients over a hundred, the best of some; seconds and MB."""
    cases = [{"clients": clients, "rounds": 1000} for clients in (100, MANY)]
    turns = [[spawn(case) or {} for case in cases] for _ in range(3 if quick else 7)]
    few, many = (
        {key: min(each[key] for each in some) for key in ("seconds", "peak", "before")}
        for some in zip(*turns, strict=True)
    )
    return {
        "million_over_hundred": many["seconds"] / few["seconds"],
        "memory_over_hundred": many["peak"] / few["peak"],
        "million_seconds": many["seconds"],
        "million_peak_mb": many["peak"],
        "before_mb": many["before"],
    }


def main() -> None:
    """Measure one case, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    tables = [*CASES, "each_method"]
    parser.add_argument("--only", type=lambda text: text.split(","), default=tables)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(one(arguments.case)))
        return
    found = sweep(arguments.only)
    if "each_method" in arguments.only:
        found["each_method"] = sweep_methods()
    before = max(case.get("before", 0) for cases in found.values() for case in cases)
    print(f"\nThe process has {before:.0f} MB before the run.")
    if "clients" in found:
        show_ratio(found["clients"])
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

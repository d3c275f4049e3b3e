"""Everything that can go wrong, many times: "0 of n" with the bound 3/n, and planted faults first.

    python benchmarks/campaign.py                 all of it, about half an hour on two cores
    python benchmarks/campaign.py --scale 0.01    a hundredth, as the tests run it
    python benchmarks/campaign.py --only fuzz     one part

Faults: each planted mistake must be caught by the checks that the other parts use.
Schedules: random lost, late, repeated and reordered messages in the virtual network, with and
without deadlines, against the onlooker's models and counters.
Kills: the same, with crashes of server and clients at every step of writing a record (in-process;
the disk forgets what was not made durable).
Damage: files of the store changed or cut; a record is whole, the older one or refused.
Fuzz: mutated and random bytes through the real decoder and ledger.
Processes: kill -9 of real processes on a real broker (needs mosquitto).

With 0 failures in n independent trials the probability of one is below 3/n, 95 % sure.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from faults import FAULTS
from trials import BATCH, Tally, batch, damage, fuzz

SCHEDULES, KILL_RUNS, DAMAGES, MESSAGES = 100_000, 4_000, 20_000, 1_000_000
PROCESS_KILLS = 40
STALE = ("AttributeError", "KeyError", "NameError", "TypeError")  # the fault itself has failed
FEW = BATCH // 5  # of the dearer trials, for each fault


@contextmanager
def planted(fault: Callable[[], Any]) -> Iterator[None]:
    """A mistake in the code for a while."""
    undo = fault()
    try:
        yield
    finally:
        undo()


def caught(name: str | None) -> str:
    """What noticed a planted fault, or nothing; None plants nothing."""
    with planted(FAULTS[name] if name else lambda: lambda: None):
        for start in range(0, 1500, BATCH):
            # Most faults show in the first few runs, which cost the most: look after each five.
            runs = [lambda a=a: batch(7, a, a + 5, True) for a in range(start, start + FEW, 5)]
            for check in (
                *runs,
                lambda a=start: fuzz(7, a, a + BATCH * 4),
                lambda a=start: damage(7, a, a + FEW),
            ):
                tally = check()
                if tally.failures:
                    found = tally.first.splitlines()[-1]
                    if found.startswith(STALE):
                        raise RuntimeError(f"the fault {name!r} no longer fits the code: {found}")
                    return f"after {start + tally.trials} trials: {found}"
    return ""


def report(name: str, what: str, tally: Tally, seconds: float) -> bool:
    """One line: 0 of n, and the bound."""
    bound = f"below {3 / max(tally.trials, 1):.1e}" if not tally.failures else "-"
    kills = f", {tally.server_kills} server and {tally.client_kills} client kills"
    more = kills if tally.server_kills else ""
    print(
        f"{name}: {tally.failures} of {tally.trials} {what}{more}; {bound}; {seconds:.0f} s",
        flush=True,
    )
    if tally.first:
        print(tally.first)
    return not tally.failures


def run_faults(scale: float, jobs: int) -> bool:
    """Every planted fault is caught, and without one nothing is."""
    with ProcessPoolExecutor(jobs) as pool:
        alarm = pool.submit(caught, None).result()
        print(f"no fault: {'FALSE ALARM ' + alarm if alarm else 'no alarm'}", flush=True)
        good = not alarm
        for name, how in zip(FAULTS, pool.map(caught, FAULTS), strict=True):
            print(f"fault {name!r}: {'caught ' + how if how else 'NOT CAUGHT'}", flush=True)
            good &= bool(how)
    print(f"faults: {len(FAULTS)} planted, {'all' if good else 'NOT all'} caught")
    return good


def spread(work: Callable[..., Tally], count: int, jobs: int, *rest: Any) -> tuple[Tally, float]:
    """`count` trials in batches over processes."""
    begin, total = time.monotonic(), Tally()
    with ProcessPoolExecutor(jobs) as pool:
        starts = range(0, count, BATCH)
        for done in [pool.submit(work, *a) for a in _batches(starts, count, rest)]:
            total.add(done.result())
    return total, time.monotonic() - begin


def _batches(starts: range, count: int, rest: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    seed, *more = rest
    for start in starts:
        yield (seed, start, min(start + BATCH, count), *more)


def run_schedules(scale: float, jobs: int) -> bool:
    """Bad networks, nobody crashes."""
    tally, seconds = spread(batch, round(SCHEDULES * scale), jobs, 1, False)
    return report("schedules", "wrong", tally, seconds)


def run_kills(scale: float, jobs: int) -> bool:
    """Bad networks, and server and clients crash while they write."""
    tally, seconds = spread(batch, round(KILL_RUNS * scale), jobs, 2, True)
    return report("kills", "runs wrong", tally, seconds)


def run_damage(scale: float, jobs: int) -> bool:
    """Files that rot."""
    tally, seconds = spread(damage, round(DAMAGES * scale), jobs, 4)
    return report("damage", "damaged records believed", tally, seconds)


def run_fuzz(scale: float, jobs: int) -> bool:
    """Bytes that nobody should send."""
    tally, seconds = spread(fuzz, round(MESSAGES * scale), jobs, 3)
    return report("fuzz", "messages did harm", tally, seconds)


def run_processes(scale: float, jobs: int) -> bool:
    """kill -9 on a real broker."""
    from processes import kills

    begin, total = time.monotonic(), Tally()
    wanted = max(round(PROCESS_KILLS * scale), 2)
    try:
        total.server_kills, total.client_kills, difference = kills(wanted)
        total.trials = total.server_kills + total.client_kills
        print(f"processes: largest difference to the engine {difference:.1e}")
        total.failures = int(not difference <= 1e-12)
    except FileNotFoundError as error:
        print(f"processes: skipped, {error}")
        return True
    return report("processes", "kills did harm", total, time.monotonic() - begin)


PARTS = {
    "faults": run_faults,
    "schedules": run_schedules,
    "kills": run_kills,
    "damage": run_damage,
    "fuzz": run_fuzz,
    "processes": run_processes,
}


def main() -> int:
    """The parts that were asked for; 0 only if nothing went wrong and all faults were caught."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--jobs", type=int, default=2)
    wishes = parser.parse_args()
    good = True
    for name in wishes.only or PARTS:
        good &= PARTS[name](wishes.scale, wishes.jobs)
    print("campaign: passed" if good else "campaign: FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

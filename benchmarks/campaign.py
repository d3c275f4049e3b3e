"""Everything that can go wrong, many times: "0 of n" with the bound 3/n, and planted faults first.

    python benchmarks/campaign.py                 all of it, about half an hour on two cores
    python benchmarks/campaign.py --scale 0.01    a hundredth, as the tests run it
    python benchmarks/campaign.py --only fuzz     one part

Faults: each planted mistake must be caught by the checks that the other parts use.
Schedules: random lost, late, repeated and reordered messages in the virtual network, with and
without deadlines, against the oracle's models and counters.
Kills: the same, with crashes of server and clients at every step of writing a record (in-process;
the disk forgets what was not made durable).
Damage: files of the store changed or cut; a record is whole, the older one or refused.
Fuzz: mutated and random bytes through the real decoder and ledger.
Audits: the defence clip beside an oracle of its own, with attackers that come and go, and restarts.
Histories: honest clients whose signal grows, fades and falls silent, and a fifth that lied once.
Hostile: floods, forged, borrowed and reflected seals, retained messages, false starts and claims.
Fleets: the network with kills and full disks, in which at any instant members are added, removed,
excluded, readmitted or revoked, and the server is restored, or an old copy takes its place.
Masks: the network with kills and drop-outs; uploads are masked, and their twin has no masks.
Attackers: every attack on four methods through the deployed handlers, without a defence and with.
Broker: the same kinds of messages by a stranger at a real broker (needs mosquitto).
Processes: kill -9 of real processes on a real broker (needs mosquitto).

With 0 failures in n independent trials the probability of one is below 3/n, 95 % sure.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from attackers import HARM, AttackRun, attack_runs, audit
from faults import FAULTS
from faults_of_defence import DEFENCE, LINE
from faults_of_fleets import FLEET
from fleets import lives
from histories import histories
from hostile import hostile_broker, hostile_run
from masked_sums import MASKS, masked_runs
from trials import BATCH, Tally, batch, damage, fuzz

from helpers import programs
from helpers.devices import Mosquitto, Team, wait_for
from psofed.cli.laws.executors import verified

SCHEDULES, KILL_RUNS, DAMAGES, MESSAGES = 100_000, 4_000, 20_000, 1_000_000
AUDITS, HOSTILE, ACTS, FLEETS, MASKED, HISTORIES = 600, 5_000, 60, 10_000, 20_000, 300
PROCESS_KILLS = 40
ALL = {**FAULTS, **DEFENCE, **LINE, **FLEET, **MASKS}
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
    with planted(ALL[name] if name else lambda: lambda: None):
        for trials, check in looks(name):
            tally = check()
            if tally.failures:
                found = tally.first.splitlines()[-1]
                if found.startswith(STALE):
                    raise RuntimeError(f"the fault {name!r} no longer fits the code: {found}")
                return f"after {trials + tally.trials} trials: {found}"
    return ""


def looks(name: str | None) -> Iterator[tuple[int, Callable[[], Tally]]]:
    """The checks that must notice a fault, with the trials before each; without one, all."""
    if name is None or name in DEFENCE:
        yield from ((a, partial(audit, 7, a, a + 1)) for a in range(8 if name else 1))
    if name is None or name in LINE:
        yield from (
            (a, partial(hostile_run, 7, a, a + 2)) for a in range(0, FEW if name else 10, 2)
        )
    if name is None or name in FLEET:
        yield from ((a, partial(lives, 7, a, a + 5)) for a in range(0, 300 if name else 10, 5))
    if name is None or name in MASKS:
        yield from (
            (a, partial(masked_runs, 7, a, a + 5)) for a in range(0, 200 if name else 10, 5)
        )
    if name is None or name in FAULTS:
        starts = range(0, 1500 if name else BATCH, BATCH)
        yield 0, partial(batch, 7, 0, 5, True)  # most faults show in the first few runs
        for start in starts:
            yield start, partial(fuzz, 7, start, start + BATCH * 4)
            yield start, partial(damage, 7, start, start + FEW)
        for start in starts:
            yield from (
                (start, partial(batch, 7, a, a + 5, True)) for a in range(start, start + FEW, 5)
            )


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
        for name, how in zip(ALL, pool.map(caught, ALL), strict=True):
            print(f"fault {name!r}: {'caught ' + how if how else 'NOT CAUGHT'}", flush=True)
            good &= bool(how)
    print(f"faults: {len(ALL)} planted, {'all' if good else 'NOT all'} caught")
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


def run_audits(scale: float, jobs: int) -> bool:
    """The defence beside its oracle, with attackers that come and go, and restarts."""
    tally, seconds = spread(audit, round(AUDITS * scale), jobs, 5)
    return report("audits", "federations wrong", tally, seconds)


def run_histories(scale: float, jobs: int) -> bool:
    """The defence and honest clients that are not stationary."""
    tally, seconds = spread(histories, round(HISTORIES * scale), jobs, 10)
    return report("histories", "federations wrong", tally, seconds)


def run_hostile(scale: float, jobs: int) -> bool:
    """Floods, forged and reflected seals, retained messages, false starts and claims."""
    tally, seconds = spread(hostile_run, round(HOSTILE * scale), jobs, 6)
    return report("hostile", "deployments wrong", tally, seconds)


def run_fleets(scale: float, jobs: int) -> bool:
    """Members come and go, servers go back and come back, disks are full; all in bad weather."""
    tally, seconds = spread(lives, round(FLEETS * scale), jobs, 8)
    return report("fleets", "fleets wrong", tally, seconds)


def run_masks(scale: float, jobs: int) -> bool:
    """Masked sums with drop-outs and kills are those of the twin without masks."""
    tally, seconds = spread(masked_runs, round(MASKED * scale), jobs, 9)
    return report("masks", "runs wrong", tally, seconds)


def run_attackers(scale: float, jobs: int) -> bool:
    """Every attack on every method through the deployed handlers, without and with clip."""
    begin, total, worst = time.monotonic(), Tally(), {}
    played = attack_runs(scale)
    with ProcessPoolExecutor(jobs) as pool:
        for one, (bare, kept) in zip(played, pool.map(AttackRun.costs, played), strict=True):
            key = one.method, "adaptive" if one.attack.adapts else "fixed"
            before = worst.get(key, (-inf, -inf))
            worst[key] = max(before[0], bare), max(before[1], kept)
            total.trials += 1
            if not kept <= one.limit:
                total.failures += 1
                total.first = total.first or f"{one} costs {kept:.2f} dB"
    for (method, kind), (bare, kept) in worst.items():
        most = f"at most {bare:.2f} dB without, {kept:.2f} dB with clip"
        print(f"attackers: {method}, {kind}: {most}")
        if kind == "fixed" and not bare >= HARM:
            total.failures += 1
            total.first = total.first or f"no attack on {method} does harm: nothing was tested"
    return report("attackers", "beyond their bound", total, time.monotonic() - begin)


def run_broker(scale: float, jobs: int) -> bool:
    """A stranger at a real broker."""
    begin, total = time.monotonic(), Tally()
    try:
        total.trials, alarms = hostile_broker(max(round(ACTS * scale), 6))
    except FileNotFoundError as error:
        print(f"broker: skipped, {error}")
        return True
    print(f"broker: {alarms} alarms were told")
    return report("broker", "acts did harm", total, time.monotonic() - begin)


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
    mosquitto = programs.find("mosquitto")
    rounds = max(10 * count, 100)
    with tempfile.TemporaryDirectory() as name:
        folder, chance = Path(name), random.Random(seed)
        file = folder / "run.toml"
        file.write_text(SETTING.replace("ROUNDS", str(rounds)))
        broker = Mosquitto(mosquitto, folder)
        team = Team(folder, file, broker.url, serve=("--set", "every=0.05"))
        try:
            done = _disturb(team, count, chance)
        finally:
            team.stop()
            broker.stop()
        found = verified(folder / "server", [folder / str(k) for k in range(10)])
        off = max(found.differences.values())
        seen = [int(n) for n in re.findall(r"^round (\d+)", team.log("server"), re.M)]
        if found.n != rounds or found.absent or seen != sorted(set(seen)):
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


def run_processes(scale: float, jobs: int) -> bool:
    """kill -9 on a real broker."""

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
    "audits": run_audits,
    "histories": run_histories,
    "hostile": run_hostile,
    "fleets": run_fleets,
    "masks": run_masks,
    "attackers": run_attackers,
    "broker": run_broker,
    "processes": run_processes,
}


def main() -> int:
    """The parts that were asked for; 0 only if nothing went wrong and all faults were caught."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    good = True
    for name in args.only or PARTS:
        good &= PARTS[name](args.scale, args.jobs)
    print("campaign: passed" if good else "campaign: FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

"""The tables of docs/real_data.md: psofed on real measurements, next to what people use instead.

    PSOFED_DATA=FOLDER python benchmarks/real_tables.py --seeds 5 --out results/real_tables.csv

Every number is the mean squared error over the variance of the target, on the same samples for all
models of a table. Prints Markdown. What the CSV file has already (a set with a seed) is not
computed again. --quick takes 4,000 rounds of each set and no River.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import real_rivals
import real_sets
from real_sets import ALONE, OURS, OURS_ALONE, SETS, SHARED, SINGLE, Played, Samples
from threadpoolctl import threadpool_limits

EARLY, AFTER = 0.05, 2000  # share of a client's samples that the rule sees; samples it speaks of
DIVERGED = 1e3  # times the variance
CLOSE = 1.01  # the mix is as good as the best single model
TITLES = {
    "1": "prequential: the mix and each single model",
    "2a": "last quarter, models frozen, no labels any more",
    "2b": "last quarter, models frozen, labels keep coming",
    "3": f"prequential, every {real_rivals.EVERY}rd client",
    "4": "newcomers in their first week, prequential",
    "5": f"who gains from the federation, foretold from {EARLY:.0%} of the samples",
}


@dataclass(frozen=True)
class Row:
    """One figure."""

    table: str
    set: str
    seed: int
    what: str
    value: float


def main() -> int:
    """All sets with all seeds, then the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", type=lambda text: text.split(","), default=list(SETS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args()
    # Figures of short sets are kept apart: they would pass for those of whole ones.
    usual = Path("results", "real_tables_quick.csv" if given.quick else "real_tables.csv")
    out = given.out or usual
    unknown = set(given.sets) - set(SETS)
    if unknown or not real_sets.folder().is_dir():
        print(f"no such sets: {unknown or real_sets.folder()}; {', '.join(SETS)}", file=sys.stderr)
        return 2
    rows = read(out)
    for name in given.sets:
        done = {row.seed for row in rows if row.set == name}
        rows += measured(name, set(range(given.seeds)) - done, given.quick, out)
    rows.sort(key=lambda row: list(SETS).index(row.set))
    for key, title in TITLES.items():
        found = [row for row in rows if row.table == key and row.set in given.sets]
        if found:
            print(f"\n{key}. {title}\n\n{markdown(found)}")
    return 0


def read(path: Path) -> list[Row]:
    """What was measured before."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Row(row["table"], row["set"], int(row["seed"]), row["what"], float(row["value"]))
            for row in csv.DictReader(file)
        ]


def write(path: Path, rows: Iterable[Row]) -> None:
    """Add to what was measured before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        if new:
            lines.writerow(("table", "set", "seed", "what", "value"))
        lines.writerows((r.table, r.set, r.seed, r.what, f"{r.value:.6g}") for r in rows)


def measured(name: str, seeds: set[int], quick: bool, out: Path) -> list[Row]:
    """All figures of a set; those of other libraries with seed 0 only."""
    found: list[Row] = []
    if not seeds:
        return found
    frame = SETS[name].load()
    if quick:
        frame = real_sets.shortened(frame, real_sets.QUICK)
    data = real_sets.samples(SETS[name], frame)
    for seed in sorted(seeds):
        begin = time.process_time()
        with threadpool_limits(1):
            played, still = (real_sets.play(data, seed, use) for use in ("live", "frozen"))
            figures = [*alike(data, played), *gains(data, played)]
            figures += newcomers(name, frame, seed)
        if seed == 0:
            figures += rivals(data, played, still, river=not quick)
        else:
            figures += ours_frozen(data, played, still)
        rows = [Row(table, name, seed, what, value) for table, what, value in figures]
        write(out, rows)
        found += rows
        took = f"{time.process_time() - begin:.0f} s of CPU time"
        print(f"{name}, seed {seed}: {played.settings}, {took}", file=sys.stderr, flush=True)
    return found


Figure = tuple[str, str, float]  # table, what, value


def alike(data: Samples, played: Played) -> Iterator[Figure]:
    """Table 1: the mix, each single model, and the best of them for each client in hindsight."""
    assert played.bytes[OURS] == played.bytes[SHARED], "a mix costs what its method costs"
    where, said = data.judged, played.prequential
    for name in (OURS, *SINGLE):
        yield "1", name, data.error(said[name], where)
    mix = data.by_client(said[OURS], where)
    single = np.array([data.by_client(said[name], where) for name in SINGLE])
    best = single.min(axis=0)
    count = where.sum(axis=0)
    hindsight = float((best * count).sum() / count.sum())
    yield "1", "each client's best, in hindsight", hindsight
    yield "1", "mix / best", float((mix * count).sum() / (best * count).sum())
    yield "1", f"share of clients with mix <= {CLOSE} best", float((mix <= CLOSE * best).mean())
    yield "1", "worst client, mix / best", float((mix / best).max())
    yield "1", "share of clients with own w_k < KLMS alone", float((single[1] < single[2]).mean())


def ours_frozen(data: Samples, played: Played, still: Played) -> Iterator[Figure]:
    """Ours in tables 2a and 2b."""
    for name in (OURS, SHARED, "ridge"):
        yield "2a", f"psofed, {name}", data.error(still.frozen[name], data.last)
    yield "2b", f"psofed, {OURS} live", data.error(played.frozen[OURS], data.last)


def rivals(data: Samples, played: Played, still: Played, river: bool) -> Iterator[Figure]:
    """Tables 2a, 2b and 3: ours and others'."""
    yield from ours_frozen(data, played, still)
    for table, live in (("2a", False), ("2b", True)):
        for name, guess in real_rivals.frozen(data, live).items():
            yield table, name, data.error(guess, data.last)
    if river:
        online = real_rivals.online(data)
        where = data.judged & np.isfinite(next(iter(online.values())))
        yield "3", "psofed, mix", data.error(played.prequential[OURS], where)
        for name, guess in online.items():
            yield "3", name, data.error(guess, where)


def newcomers(name: str, frame: Any, seed: int) -> Iterator[Figure]:
    """Table 4: a third of the clients begin half-way; another third with another seed."""
    later, new = real_sets.late(frame, seed)
    data = real_sets.samples(SETS[name], later)
    played = real_sets.play(data, seed)
    n = np.arange(len(data.y))[:, None]
    first, week = data.rounds.first, data.each.week
    mine = np.array([client in new for client in data.clients])
    for length, label in ((week // 7, "first day"), (week, "first week")):
        where = data.judged & mine & (n >= first) & (n < first + length)
        for model in (OURS, OURS_ALONE, SHARED, "own w_k", ALONE, "ridge", "line", "last"):
            if length > 1:
                yield "4", f"{label}, {model}", data.error(played.prequential[model], where)


def gains(data: Samples, played: Played) -> Iterator[Figure]:
    """Table 5: does the sign of the difference in the first samples say that of the next ones?"""
    early, later = [], []
    for k in range(len(data.clients)):
        some = np.flatnonzero(data.judged[:, k])
        known = max(int(EARLY * len(some)), 1)
        after = some[some > some[known - 1] + data.each.delay][:AFTER]  # labels are known by then
        gap = [(played.prequential[name][:, k] - data.y[:, k]) ** 2 for name in (OURS_ALONE, OURS)]
        gained = gap[0] - gap[1]
        early.append(np.mean(gained[some[:known]]) > 0)
        later.append(np.mean(gained[after]) > 0)
    right = np.array(early) == np.array(later)
    everywhere = [data.error(played.prequential[m], data.judged) for m in (OURS, OURS_ALONE)]
    yield "5", "the rule was right", float(right.mean())
    yield "5", "the rule said: gains", float(np.mean(early))
    yield "5", "clients that gained", float(np.mean(later))
    yield "5", "error of the mix with PSO-Fed, all rounds", everywhere[0]
    yield "5", "error of the mix with KLMS alone, all rounds", everywhere[1]


def markdown(rows: list[Row]) -> str:
    """Figures by set: means over the seeds, with standard errors."""
    sets = list(dict.fromkeys(row.set for row in rows))
    lines = [f"| | {' | '.join(sets)} |", "|---" * (len(sets) + 1) + "|"]
    for what in dict.fromkeys(row.what for row in rows):
        cells = [
            spread([r.value for r in rows if r.what == what and r.set == name]) for name in sets
        ]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def spread(values: list[float]) -> str:
    """Mean and standard error."""
    if not values:
        return "-"
    if max(values) > DIVERGED:
        return "diverges"
    mean = f"{np.mean(values):.3f}"
    if len(values) == 1:
        return mean
    return f"{mean} ±{np.std(values, ddof=1) / len(values) ** 0.5:.3f}"


if __name__ == "__main__":
    sys.exit(main())

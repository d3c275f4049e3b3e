"""Reading one table in several forms: CPU time as a ratio to sorted CSV, and peak memory.

    python benchmarks/tables.py --rows 320000

Each form is read in a process of its own, so that its peak is its own; the ratio is the median over
--repeat rounds, in each of which every form is read once.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

HEAD = "time,sensor,a,b,c,d,e,f,wind,y"
READ = """
import json, re, sys, time
from psofed.data import reading
from psofed.data.columns import Columns
begin = time.process_time()
table = reading.read(sys.argv[1], Columns("y", ("time",), "sensor"))
took = time.process_time() - begin
peak = int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) / 1024
print(json.dumps([took, peak, table.rows, int(table.counts.sum())]))
"""


def lines(rows: int, clients: int, dice: random.Random) -> list[str]:
    """Made-up readings of many sensors, every ten minutes."""
    made = []
    for i in range(rows):
        n, k = divmod(i, clients)
        time = (datetime(2023, 1, 1) + timedelta(minutes=10 * n)).isoformat(timespec="minutes")
        values = ",".join(f"{dice.gauss(0, 1):.3f}" for _ in range(6))
        made.append(f"{time},s{k:02d},{values},{'NESW'[n // 50 % 4]},{dice.gauss(0, 1):.4f}")
    return made


def write(folder: Path, rows: int, clients: int) -> dict[str, Path]:
    """The same table in several files."""
    dice = random.Random(0)
    made = lines(rows, clients, dice)
    shuffled = made.copy()
    dice.shuffle(shuffled)
    forms = {"sorted": made, "newest first": made[::-1], "shuffled": shuffled}
    forms["semicolons, decimal commas"] = [
        line.replace(",", ";").replace(".", ",") for line in made
    ]
    paths = {}
    for name, text in forms.items():
        paths[name] = folder / (name.replace(",", "").replace(" ", "_") + ".csv")
        head = HEAD.replace(",", ";") if "semicolons" in name else HEAD
        paths[name].write_text("\n".join([head, *text]) + "\n", encoding="utf-8")
    try:
        import pandas
    except ImportError:
        return paths
    paths["Parquet"] = folder / "table.parquet"
    pandas.read_csv(paths["sorted"], parse_dates=["time"]).to_parquet(paths["Parquet"])
    return paths


def main() -> int:
    """Write, read and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=320_000)
    parser.add_argument("--clients", type=int, default=30)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        paths = write(Path(name), given.rows, given.clients)
        found: dict[str, list[list[float]]] = {form: [] for form in paths}
        for _ in range(given.repeat):
            for form, path in paths.items():
                command = [sys.executable, "-c", READ, str(path)]
                found[form].append(json.loads(subprocess.check_output(command)))
    plain = [took for took, *_ in found["sorted"]]
    for form, each in found.items():
        assert all(rows == kept == given.rows for _, _, rows, kept in each), "rows were lost"
        ratio = statistics.median(took / base for (took, *_), base in zip(each, plain, strict=True))
        took, peak = min(t for t, *_ in each), max(p for _, p, *_ in each)
        print(f"{form:28} {ratio:5.2f} x  {took:6.2f} s CPU  {peak:5.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())

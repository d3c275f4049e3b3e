"""`psofed fit` and `psofed advise` on a large table, and reading one table in several forms.

    python benchmarks/tables.py --folder FOLDER
    python benchmarks/tables.py --forms --rows 320000
    python benchmarks/tables.py --rounds --rows 200000 --clients 12

The table is that of docs/tables.md, 12 stations with 35,064 rows each, if FOLDER has it (see
fetch_air_quality.py); else one of the same shape is made up. Each command is a process of its own:
seconds of CPU and by the clock, the least of --repeat.

With --forms: CPU time as a ratio to sorted CSV, and peak memory. Each form is read in a process of
its own, so that its peak is its own; the ratio is the median over --repeat rounds, in each of which
every form is read once.

With --rounds: CPU seconds of `psofed fit` if the rounds of a table are compiled
(core/native/stretch.h) and if they are played by NumPy, alternately.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from fetch_air_quality import HEADER, ROWS, STATIONS

HEAD = "time,sensor,a,b,c,d,e,f,wind,y"
READ = """
import json, re, sys, time
from psofed.streams.data import reading
from psofed.streams.data.columns import Columns
begin = time.process_time()
table = reading.read(sys.argv[1], Columns("y", ("time",), "sensor"))
took = time.process_time() - begin
peak = int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) / 1024
print(json.dumps([took, peak, table.rows, int(table.counts.sum())]))
"""


FIT = """
import sys
from psofed.cli.main import main
from psofed.tables import player
if sys.argv.pop(1) == "NumPy":
    player.supports = lambda method: False
main(["fit", *sys.argv[1:]])
"""
INPUTS = "PM2.5,PM10,SO2,NO2,CO,TEMP,PRES,DEWP,RAIN,wd,WSPM"
OPTIONS = [
    "--client", "station", "--time", "year,month,day,hour", "--target", "O3",
    "--set", f"inputs={INPUTS}", "--set", "calendar=hour,yearday", "--set", "label_delay=24",
]  # fmt: skip
COMMANDS = {"fit": ["fit"], "fit_compared": ["fit", "--set", "compare=true"], "advise": ["advise"]}
WINDS = ("N", "NE", "E", "SE", "S", "SW", "W", "NW")
FEW = 6_000  # rows of a station where it has to be quick


def like_air_quality(folder: Path, rows: int = ROWS) -> Path:
    """Twelve files of the shape of the air-quality data: the same columns, some values missing."""
    g = np.random.default_rng(0)
    hours = np.arange(rows)
    times = [datetime(2013, 3, 1) + timedelta(hours=int(h)) for h in hours]
    sun = np.sin(2 * np.pi * (hours - 8) / 24) + 2 * np.sin(2 * np.pi * (hours - 700) / 8766)
    for k in range(STATIONS):
        base = np.cumsum(g.normal(0, 0.1, (rows, 11)), axis=0) % 3 + g.random((rows, 11))
        base[:, 6] += sun
        ozone = 30 + 20 * np.tanh(base[:, 6]) + 10 * np.cos(base[:, 3]) + g.normal(0, 5, rows)
        cells = [[f"{v:.1f}" for v in column] for column in (10 * base).T]
        cells[9] = [WINDS[i % len(WINDS)] for i in (base[:, 9] * 3).astype(int)]
        cells.insert(5, [f"{v:.4f}" for v in ozone])
        for column in cells:
            for i in np.flatnonzero(g.random(rows) < 0.03).tolist():
                column[i] = "NA"
        body = [
            f"{i},{t.year},{t.month},{t.day},{t.hour},{','.join(row)},s{k:02d}"
            for i, (t, row) in enumerate(zip(times, zip(*cells, strict=True), strict=True), 1)
        ]
        with gzip.open(folder / f"s{k:02d}.csv.gz", "wt", compresslevel=1) as file:
            file.write("\n".join([",".join(HEADER), *body]) + "\n")
    return folder


def took(arguments: list[str]) -> tuple[float, float]:
    """Seconds of CPU and by the clock of Python with these arguments."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def measure(quick: bool, folder: Path | None = None, repeat: int = 1) -> dict[str, float]:
    """Seconds of each command, CPU and wall; on fewer rows if it has to be quick."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        if folder is None or quick:
            data = Path(name) / "data"
            data.mkdir()
            folder = like_air_quality(data, FEW if quick else ROWS)
        for title, command in COMMANDS.items():
            verb, *more = command
            run = ["-m", "psofed", verb, str(folder), *OPTIONS, *more, "--out"]
            each = [took([*run, f"{name}/{title}-{i}"]) for i in range(1 if quick else repeat)]
            for clock, seconds in zip(("cpu", "wall"), zip(*each, strict=True), strict=True):
                found[f"{title}_{clock}"] = min(seconds)
    return found


def beside() -> Path | None:
    """The real table, if PSOFED_DATA names the folder that has it."""
    path = Path(os.environ.get("PSOFED_DATA", ""), "beijing_air_quality")
    return path if "PSOFED_DATA" in os.environ and path.is_dir() else None


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


def forms(rows: int, clients: int, repeat: int) -> None:
    """Write one table in several forms, read each, and compare."""
    with tempfile.TemporaryDirectory() as name:
        paths = write(Path(name), rows, clients)
        found: dict[str, list[list[float]]] = {form: [] for form in paths}
        for _ in range(repeat):
            for form, path in paths.items():
                command = [sys.executable, "-c", READ, str(path)]
                found[form].append(json.loads(subprocess.check_output(command)))
    plain = [cpu for cpu, *_ in found["sorted"]]
    for form, each in found.items():
        assert all(read == kept == rows for _, _, read, kept in each), "rows were lost"
        ratio = statistics.median(cpu / base for (cpu, *_), base in zip(each, plain, strict=True))
        cpu, peak = min(t for t, *_ in each), max(p for _, p, *_ in each)
        print(f"{form:28} {ratio:5.2f} x  {cpu:6.2f} s CPU  {peak:5.0f} MB")


def rounds(rows: int, clients: int, repeat: int) -> None:
    """Fit the same table with compiled rounds and without, alternately."""
    columns = ["--client", "sensor", "--time", "time", "--target", "y", "--set", "force=true"]
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "table.csv")
        path.write_text("\n".join([HEAD, *lines(rows, clients, random.Random(0))]) + "\n")
        seconds: dict[str, list[float]] = {"compiled": [], "NumPy": []}
        for i in range(repeat):
            for kind, found in seconds.items():
                out = ["--out", f"{name}/{kind}-{i}"]
                found.append(took(["-c", FIT, kind, str(path), *columns, *out])[0])
    ratio = statistics.median(b / a for a, b in zip(*seconds.values(), strict=True))
    fast, slow = map(min, seconds.values())
    print(f"compiled {fast:.1f} s, NumPy {slow:.1f} s: {ratio:.2f} x")


def main() -> int:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=beside())
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--forms", action="store_true")
    parser.add_argument("--rounds", action="store_true")
    parser.add_argument("--rows", type=int, default=320_000)
    parser.add_argument("--clients", type=int, default=30)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    if given.forms:
        forms(given.rows, given.clients, given.repeat)
        return 0
    if given.rounds:
        rounds(given.rows, given.clients, given.repeat)
        return 0
    for name, seconds in measure(given.quick, given.folder, given.repeat).items():
        print(f"{name:15} {seconds:6.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

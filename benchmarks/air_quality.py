"""The tables of docs/tables.md: `python benchmarks/air_quality.py FOLDER --seeds 3`.

FOLDER holds the 12 files of "Beijing Multi-Site Air Quality" (UCI data set 501, CC BY 4.0), as CSV
or .csv.gz; --download fetches them into it. O3 is estimated from the other columns, labels come
24 h late; then O3 is forecast an hour ahead from its own past, while labels keep coming. Prints
Markdown; --figure writes how the error falls and the model of each station.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields, replace
from pathlib import Path

import fetch_air_quality
import numpy as np

from psofed.methods import fedavg, onlinefed, psofed
from psofed.report import fits
from psofed.report.figures import draw, to_bytes
from psofed.streams.data import reading as tables
from psofed.streams.data.columns import Columns
from psofed.tables import fitting
from psofed.tables.plan import Plan

INPUTS = ("PM2.5", "PM10", "SO2", "NO2", "CO", "TEMP", "PRES", "DEWP", "RAIN", "wd", "WSPM")
SENSOR = Columns(
    target="O3", time=("year", "month", "day", "hour"), client="station", inputs=INPUTS,
    calendar=("hour", "yearday"),
)  # fmt: skip
FORECAST = replace(SENSOR, inputs=("TEMP", "WSPM"), target_lags=(1, 2, 3, 24))
METHODS = (
    psofed.Options(40), psofed.Options(5), psofed.Options(40, "coordinated"), onlinefed.Options(),
    fedavg.Options(local_steps=5),
)  # fmt: skip


def main() -> int:
    """Both tasks, with all seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--download", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    if given.download and fetch_air_quality.main([str(given.folder)]):
        return 2
    sensor = runs(given.folder, Plan(SENSOR, label_delay=24, methods=METHODS), given.seeds)
    print(scores(sensor))
    print(clients(sensor))
    print(intervals(sensor))
    print(next_year(given.folder))
    if given.figure:
        given.figure.write_bytes(
            to_bytes(draw(fits.sheet(sensor[0], fits.summary(sensor[0], ""))), "png")
        )
    methods = (psofed.Options(40), onlinefed.Options())
    forecast = Plan(FORECAST, label_delay=1, methods=methods, use="live")
    print(scores(runs(given.folder, forecast, 1)))
    return 0


def runs(folder: Path, plan: Plan, seeds: int) -> list[fitting.Fit]:
    """A fit for each feature seed, each tuned on the warm-up by its first method."""
    done = []
    table = tables.read(folder, plan.columns)
    for seed in range(seeds):
        done.append(fitting.fit(table, replace(plan, seed=seed)))
        plan_of = done[-1].plan
        print(f"seed {seed}: width {plan_of.width}, step {plan_of.step}", file=sys.stderr)
    return done


def scores(done: list[fitting.Fit]) -> str:
    """Errors over the target's variance: mean and standard deviation over the seeds."""
    rows = [each.scores.rows(each.unit) for each in done]
    full = next(row for row in rows[0] if row["method"] == "Online-Fed")
    lines = [
        "",
        "| | prequential | frozen | frozen, own model | traffic |",
        "|---|---|---|---|---|",
    ]
    # The best mix comes first, which may be another one with another seed.
    order = [row["method"] for row in rows[0]]
    by_name = [{row["method"]: row for row in each} for each in rows]
    for same in ([each[name] for each in by_name] for name in order):
        sent = (same[0]["up_bytes"] + same[0]["down_bytes"]) / (
            full["up_bytes"] + full["down_bytes"]
        )
        keys = ("prequential", "frozen", "frozen_own")
        cells = [_spread([row[key] for row in same]) for key in keys]
        lines.append(f"| {same[0]['method']} | {' | '.join(cells)} | {100 * sent:.3g} % |")
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    if not np.isfinite(values).all():
        return "-"
    spread = f" ±{np.std(values, ddof=1) / len(values) ** 0.5:.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{spread}"


def clients(done: list[fitting.Fit]) -> str:
    """Frozen errors of each client, mean over the seeds; how often something else was better."""
    keys = ("model", *fits.INSTEAD.values())
    lines = ["", f"| station | {' | '.join(keys)} | better |", "|---" * (len(keys) + 2) + "|"]
    for same in zip(*(fits.client_rows(each) for each in done), strict=True):
        means = [f"{np.mean([row[key] for row in same]):.3f}" for key in keys]
        better = sum(bool(row["better"]) for row in same)
        lines.append(f"| {same[0]['client']} | {' | '.join(means)} | {better} |")
    return "\n".join(lines)


def intervals(done: list[fitting.Fit]) -> str:
    """What was promised and kept in the last part, by level; ranges over all seeds."""
    lines = ["", "| level | all | by station | by station and quarter | width | best constant |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    tables = [fits.interval_table(each) for each in done]
    for same in zip(*(table["levels"] for table in tables), strict=True):
        last = [entry["by_part"][1] for entry in same]
        quarters = [part for entry in same for part in entry["by_part"][2:]]
        ranges = [f"{min(p['lowest_client'] for p in parts):.3f} to"
                  f" {max(p['highest_client'] for p in parts):.3f}"
                  for parts in (last, quarters)]  # fmt: skip
        inside = f"{np.mean([part['coverage'] for part in last]):.3f}"
        widths = [f"{np.mean([part['width'] for part in last]):.1f}",
                  f"{np.mean([entry['constant_width'] for entry in same]):.1f}"]  # fmt: skip
        cells = [f"{same[0]['level']:g}", inside, *ranges, *widths]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def next_year(folder: Path) -> str:
    """The frozen intervals of a model of the first three years, on the fourth: coverage."""
    import pandas as pd

    whole = pd.concat(pd.read_csv(file) for file in sorted(folder.glob("*.csv*")))
    whole = whole.reset_index(drop=True)
    late = (whole.year > 2016) | ((whole.year == 2016) & (whole.month >= 3))
    columns = {f.name: getattr(SENSOR, f.name) for f in fields(SENSOR) if f.init}
    columns["time"] = list(SENSOR.time)
    done = fitting.fit_table(
        whole[~late], **columns, label_delay=24, methods=(psofed.Options(40),), compare=False
    )
    new = whole[late & whole.O3.notna()]
    found = done.predict(whole[late], interval=0.9).loc[new.index]
    inside = (found.low <= new.O3) & (found.high >= new.O3)
    parts = [inside.groupby(by).mean() for by in (new.station, new.month % 12 // 3)]
    ranges = ", ".join(f"{part.min():.3f} to {part.max():.3f}" for part in parts)
    seasons = parts[1].round(3).tolist()
    return (f"\nfrozen intervals, next year: {inside.mean():.3f}; by station and by season"
            f" {ranges}; {seasons} from winter on")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())

"""The synthetic table that ships with the package, made by docs/_tools/example_table.py."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

from psofed.streams.data.columns import Columns

PATH = Path(__file__).with_name("example_synthetic.csv.gz")
COLUMNS = Columns(
    target="pollutant", time=("time",), client="station", calendar=("hour",),
    categorical=("wind_from",),
)  # fmt: skip


def rows() -> list[dict[str, str]]:
    """The table, row by row."""
    with gzip.open(PATH, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))

"""Small tables: written, read and turned into samples."""

import csv

import numpy as np

from psofed.streams.data import reading
from psofed.streams.data import recipe as recipes
from psofed.streams.data.columns import Columns
from psofed.streams.data.rounds import Rounds

LONG = Columns(target="y", time=("t",), client="who")
ALONE = Columns(target="y", time=("t",))
WIDE = (-(3.0**0.5), 3.0**0.5)  # a range that scales by one


def write(path, text):
    path.write_text(text.strip().replace(" ", "") + "\n")
    return path


def write_rows(path, rows):
    """Rows by column."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def read(tmp_path, text, columns=LONG):
    return reading.read(write(tmp_path / "table.csv", text), columns)


def samples(table, stop=None):
    rounds = Rounds(table, recipes.learn(table, stop or table.rounds))
    return rounds, list(rounds.blocks())


def table_of(tmp_path, x, y, columns=None):
    """A table of x [K, N, L] and y [K, N]; rows with a y of infinity are left out."""
    names = [f"x{i}" for i in range(x.shape[2])]
    path = tmp_path / "made.csv"
    with open(path, "w", encoding="utf-8") as file:
        file.write(",".join(["t", "who", *names, "y"]) + "\n")
        for n in range(x.shape[1]):
            for k in range(len(x)):
                if y[k, n] != np.inf:
                    cells = ["" if np.isnan(v) else repr(float(v)) for v in (*x[k, n], y[k, n])]
                    file.write(",".join([str(n), f"c{k}", *cells]) + "\n")
    ranges = dict.fromkeys([*names, "y"], WIDE)
    wanted = columns or Columns("y", ("t",), "who", ranges=ranges, tick_unit="s")
    return reading.read(path, wanted)

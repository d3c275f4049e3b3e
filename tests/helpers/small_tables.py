"""Small tables: written, read and turned into samples."""

import csv

from psofed.streams.data import reading
from psofed.streams.data import recipe as recipes
from psofed.streams.data.columns import Columns
from psofed.streams.data.rounds import Rounds

LONG = Columns(target="y", time=("t",), client="who")
ALONE = Columns(target="y", time=("t",))


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

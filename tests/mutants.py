"""Tables and plans with something wrong in them, each a function of its number."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import numpy as np

from psofed import experiment as experiments
from psofed.errors import InputError
from psofed.rows import table as tables
from psofed.rows import warmup
from psofed.rows.columns import Columns
from psofed.rows.rounds import Rounds
from psofed.tables import fit, plan
from psofed.tables.plan import Plan

NASTY = (
    "", "NA", "nan", "NaN", "inf", "-inf", "1e308", "-1e308", "1e30", "1e-320", "abc", "0x10", "1_0",
    '"', '""', "'", ",", "\x00", "\xff", "é", "9" * 400, "-999", "2024-13-01", "1970-01-01T00:00",
    "9999-12-31", "0", "-0.0", "1,2", "\t", " 7 ", "=1+1", "None", "true", "2024-03-01T00:00+14:00",
)  # fmt: skip
RULES = ("hold", "skip", "indicator")


def base(dice: random.Random) -> list[list[str]]:
    """A small table: several clients, numbers, a category, gaps."""
    dates = dice.random() < 0.3
    rows = [["t", "who", "a", "b", "wind", "y"]]
    for n in range(dice.choice((1, 3, 20, 40))):
        for who in "pqr"[: dice.choice((1, 3))]:
            time = f"2024-03-{1 + n // 24:02d}T{n % 24:02d}:00" if dates else str(n)
            values = [f"{dice.gauss(0, 3):.2f}" for _ in range(2)]
            rows.append([time, who, *values, dice.choice("NESW"), f"{dice.gauss(5, 2):.2f}"])
    return rows


def mutate(dice: random.Random, rows: list[list[str]]) -> list[list[str]]:
    """One to a few things go wrong."""
    for _ in range(dice.choice((1, 1, 2, 5))):
        if not rows:
            break
        i = dice.randrange(len(rows))
        kind = dice.randrange(9)
        if kind == 0 and rows[i]:
            rows[i][dice.randrange(len(rows[i]))] = dice.choice(NASTY)
        elif kind == 1:
            rows[i] = rows[i][: dice.randrange(len(rows[i]) + 1)]
        elif kind == 2:
            rows[i] = [*rows[i], dice.choice(NASTY)]
        elif kind == 3:
            rows.insert(i, list(rows[dice.randrange(len(rows))]))
        elif kind == 4:
            dice.shuffle(rows)
        elif kind == 5:
            del rows[i]
        elif kind == 6 and rows[0]:
            j = dice.randrange(len(rows[0]))
            value = dice.choice(NASTY)
            rows = [[*row[:j], value, *row[j + 1 :]] if n else row for n, row in enumerate(rows)]
        elif kind == 7:
            rows[i] = []
        elif kind == 8 and len(rows[i]) > 1:
            rows[i][0], rows[i][-1] = rows[i][-1], rows[i][0]
    return rows


def spoil(dice: random.Random, data: bytes) -> bytes:
    """Bytes go wrong."""
    broken = bytearray(data)
    for _ in range(dice.choice((0, 0, 0, 1, 4))):
        if broken:
            broken[dice.randrange(len(broken))] = dice.randrange(256)
    return bytes(broken[: dice.randrange(len(broken) + 1)] if dice.random() < 0.05 else broken)


def table(number: int, folder: Path, learn: bool = False) -> str:
    """Read mutant `number`; what came of it. Anything but an InputError with its place is a bug."""
    dice = random.Random(number)
    rows = mutate(dice, base(dice))
    data = spoil(dice, "\n".join(",".join(row) for row in rows).encode("utf-8", "surrogatepass"))
    packed = dice.random() < 0.1
    path = folder / ("mutant.csv.gz" if packed else "mutant.csv")
    path.write_bytes(spoil(dice, gzip.compress(data)) if packed else data)
    lag = dice.choice(((), (1, 3)))
    columns = Columns(
        target="y", time=("t",), client=dice.choice(("who", None)), lags=lag, target_lags=lag,
        missing={"*": dice.choice(RULES)}, drop=(),
    )  # fmt: skip
    try:
        read = tables.read(path, columns)
    except InputError as error:
        return _placed(str(error), "mutant.csv", ("row ", "cannot be read"))
    try:
        return _use(read, columns, learn)
    finally:
        read.spool.close()


def _use(read: tables.Table, columns: Columns, learn: bool) -> str:
    """Every row is a sample or counted among the dropped."""
    try:
        rounds = Rounds(read, warmup.learn(read, max(read.rounds // 3, 1)))
        values = [block.x[block.has] for block in rounds.blocks()]
        assert all(np.isfinite(v).all() for v in values)
        dropped = sum(read.drops.counts.values()) + sum(rounds.drops.counts.values())
        assert read.rows == rounds.samples + dropped, (read.rows, rounds.samples, dropped)
        if learn:
            fit.fit(read, Plan(columns, dim=8, width=1.0, step=0.3, warmup=0.3))
    except InputError:
        return "refused later"
    return "used"


PLAN = """
label_delay = 3
step = 0.4
dim = 50
[columns]
target = "y"
time = ["t"]
client = "who"
lags = [1, 2]
calendar = ["hour"]
missing = { a = "skip", "*" = "hold" }
ranges = { a = [0, 1] }
[[methods]]
name = "psofed"
shared = 10
"""
WORDS = (
    "nan",
    "inf",
    "-1",
    "1e400",
    "[]",
    "{}",
    '"x"',
    "true",
    "99999999999999999999",
    "=",
    "[[",
    "\x00",
)


def toml(number: int, folder: Path) -> str:
    """Read mutated plan `number`, as a plan and as an experiment."""
    dice = random.Random(number)
    text = PLAN
    for _ in range(dice.choice((1, 2, 4))):
        i = dice.randrange(len(text))
        pieces = (dice.choice(WORDS), "", text[i : i + 9] * 2)
        text = text[:i] + dice.choice(pieces) + text[i + dice.randrange(8) :]
    path = folder / "mutant.toml"
    path.write_bytes(spoil(dice, text.encode()))
    outcomes = [_toml(read, path) for read in (experiments.read, plan.read)]
    return outcomes[1]


def _toml(read: Any, path: Path) -> str:
    try:
        read(path)
    except InputError as error:
        return _placed(str(error), "mutant.toml", ("",))
    return "used"


def _placed(line: str, file: str, places: tuple[str, ...]) -> str:
    """An error that names the file, and the row where there is one."""
    if file not in line or not any(place in line for place in places):
        raise AssertionError(line)
    return "refused"

"""Tables and plans with something wrong in them, each a function of its number."""

from __future__ import annotations

import gzip
import random
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import tomli_w

from psofed import experiment as experiments
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.fleet.protocol import deployment as plans
from psofed.fleet.samples import MalformedError, NamedCells, lines
from psofed.methods import psofed
from psofed.streams.data import reading as tables
from psofed.streams.data import recipe as recipes
from psofed.streams.data.columns import Columns
from psofed.streams.data.recipe import Recipe
from psofed.streams.data.rounds import Rounds
from psofed.streams.table import Live, Options
from psofed.tables import fitting, plan
from psofed.tables.plan import Plan

NASTY = (
    "", "NA", "nan", "NaN", "inf", "-inf", "1e308", "-1e308", "1e30", "1e-320", "abc", "0x10", "1_0",
    '"', '""', "'", ",", "\x00", "\xff", "é", "9" * 400, "-999", "2024-13-01", "1970-01-01T00:00",
    "9999-12-31", "0", "-0.0", "1,2", "\t", " 7 ", "=1+1", "None", "true", "2024-03-01T00:00+14:00",
)  # fmt: skip
RULES = ("hold", "skip", "indicator")
BEGIN = datetime(2024, 3, 13)
ENCODINGS = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1")


def base(dice: random.Random) -> list[list[str]]:
    """A small table: several clients, numbers, a category, gaps."""
    dates = dice.choice((None, None, "%Y-%m-%dT%H:%M", "%d.%m.%Y %H:%M", "%m/%d/%Y %I:%M %p"))
    rows = [["t", "who", "a", "b", "wind", "y"]]
    for n in range(dice.choice((1, 3, 20, 40))):
        for who in "pqr"[: dice.choice((1, 3))]:
            time = (BEGIN + timedelta(hours=n)).strftime(dates) if dates else str(n)
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


def written(dice: random.Random, rows: list[list[str]]) -> bytes:
    """The table as some program exports it: in any order, separated and encoded in its way."""
    head, body = rows[:1], rows[1:]
    if dice.random() < 0.3:
        dice.shuffle(body)
    elif dice.random() < 0.3:
        body.reverse()
    sep = dice.choice((",", ",", ";", "\t", "|"))
    if sep == ";" and dice.random() < 0.7:
        body = [[cell.replace(".", ",") if cell[-3:-2] == "." else cell for cell in row]
                for row in body]  # fmt: skip
    text = "\n".join(sep.join(row) for row in (*head, *body))
    return text.encode(dice.choice(ENCODINGS), "replace")


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
    data = spoil(dice, written(dice, rows))
    packed = dice.random() < 0.1
    path = folder / ("mutant.csv.gz" if packed else "mutant.csv")
    path.write_bytes(spoil(dice, gzip.compress(data)) if packed else data)
    lag = dice.choice(((), (1, 3)))
    columns = Columns(
        target="y", time=("t",), client=dice.choice(("who", None)), lags=lag, target_lags=lag,
        missing={"*": dice.choice(RULES)}, markers=dice.choice(((), ("-999",), ("x", "7"))),
    )  # fmt: skip
    try:
        read = tables.read(path, columns)
    except InputError as error:
        return _placed(str(error), "mutant.csv", ("row ", "cannot be read"))
    try:
        return _use(read, columns, learn, path)
    finally:
        read.spool.close()


def _use(read: tables.Table, columns: Columns, learn: bool, path: Path) -> str:
    """Every row is a sample or counted among the dropped."""
    try:
        rounds = Rounds(read, recipes.learn(read, max(read.rounds // 3, 1)))
        values = [block.x[block.has] for block in rounds.blocks()]
        assert all(np.isfinite(v).all() for v in values)
        dropped = read.drops.total + rounds.drops.total
        assert read.rows == rounds.samples + dropped, (read.rows, rounds.samples, dropped)
        _one_by_one(rounds.recipe, path)
        if learn:
            plan = Plan(columns, allow_loss=True, dim=8, width=1.0, step=0.3, warmup=0.3)
            done = fitting.fit(read, plan)
            made = done.plan.experiment(rounds, done.span, path)
            drawn = made.stream.samples(Seeds(0), np.arange(made.clients), 0, made.rounds)
            assert np.isfinite(drawn.x).all()
            known = ~np.isnan(drawn.y)
            assert known.any()
            assert np.isfinite(drawn.y[known]).all()
    except InputError as error:
        return _placed(str(error), "mutant.csv", (": row ", "last part", "between warm-up"))
    return "used"


def _one_by_one(recipe: Recipe, path: Path) -> None:
    """The same bytes as lines of a device: each is a sample, or is told why it is none."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for sample in lines(data.split(b"\n"), NamedCells(Live(recipe))):
        assert isinstance(sample, MalformedError) or np.isfinite(sample.x).all()


PLAN = tomli_w.dumps(Plan(
    Columns(
        target="y", time=("t",), client="who", lags=(1, 2), lags_of={"a": (24,)}, calendar=("hour",),
        missing={"a": "skip", "*": "hold"}, ranges={"a": (0.0, 1.0)},
    ),
    label_delay=3, step=0.4, dim=50, methods=(psofed.Options(10),),
).to_table())  # fmt: skip
STREAM = Options(
    Columns(target="y", time=("t",), client="who", inputs=("a", "wind"), lags=(1,), lags_of={"a": (24,)}),
    {"a": (0.5, 2.0), "y": (10.0, 3.0)}, ("p", "q"), "readings.csv", label_delay=3, first=10, frozen=90,
    categories={"wind": ("N", "S")}, tick=3600.0, start=1709251200.0, calendar=True,
)  # fmt: skip
RUN = experiments.Experiment(
    clients=2, rounds=20, cohort=2, stream=STREAM, features=experiments.Features(dim=50, width=2.0),
    methods=(psofed.Options(10),),
).to_toml() + '[deploy]\nrun = "p"\nclock = "live"\nmethod = 0\n'  # fmt: skip
WORDS = ("nan", "inf", "-1", "1e400", "[]", "{}", '"x"', "true", "9" * 20, "=", "[[", "\x00")


def toml(number: int, folder: Path) -> str:
    """Read mutated file `number`, as a plan of a fit, an experiment and a deployment."""
    dice = random.Random(number)
    text = dice.choice((PLAN, RUN))
    own = plans.read if text is RUN else plan.read
    for _ in range(dice.choice((1, 2, 4))):
        i = dice.randrange(len(text))
        pieces = (dice.choice(WORDS), "", text[i : i + 9] * 2)
        text = text[:i] + dice.choice(pieces) + text[i + dice.randrange(8) :]
    path = folder / "mutant.toml"
    path.write_bytes(spoil(dice, text.encode()))
    outcomes = dict.fromkeys((experiments.read, plan.read, plans.read), "used")
    for read in outcomes:
        try:
            read(path)
        except InputError as error:
            outcomes[read] = _placed(str(error), "mutant.toml", ("",))
    return outcomes[own]


def _placed(line: str, file: str, places: tuple[str, ...]) -> str:
    """An error that names the file, and the row where there is one."""
    if file not in line or not any(place in line for place in places):
        raise AssertionError(line)
    return "refused"

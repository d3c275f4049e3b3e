"""Real measurements at many sites, and psofed's back-test over them with every guess kept.

Sets are in the folder that PSOFED_DATA names, else in ../shared/data from the project's root.
Sources and licences are in docs/real_data.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from psofed.methods import local
from psofed.streams.data import reading
from psofed.streams.data.columns import Columns
from psofed.streams.data.recipe import forward
from psofed.streams.data.rounds import Rounds
from psofed.tables import backtest, experts, fitting
from psofed.tables.experts import Mixture
from psofed.tables.plan import Plan, Span
from psofed.tables.player import Contender, Guesses, Lot
from psofed.tables.scores import Score

Array = Any
Use = Literal["frozen", "live"]
ROOT = Path(__file__).parent.parent
GASES = ("PM2.5", "PM10", "SO2", "NO2", "CO", "TEMP", "PRES", "DEWP", "RAIN", "WSPM")
HOME = ("temperature", "humidity", "diffuse", "direct", "hour_of_day", "day_type")
WIND = ("U10", "V10", "U100", "V100")
QUICK = 4000  # rounds
OURS, OURS_ALONE = "mix", "mix alone"
SHARED, ALONE = "shared w", "KLMS alone"
SINGLE = (SHARED, "own w_k", ALONE, "line", "ridge", "last", "season")


def folder() -> Path:
    """Where the sets are."""
    return Path(os.environ.get("PSOFED_DATA") or ROOT.parent / "shared" / "data")


def _files(name: str) -> Any:
    """All files of a set as one frame; `client` is the name of the file."""
    import pandas as pd

    files = sorted((folder() / name).glob("*.csv.gz"))
    frames = [pd.read_csv(file).assign(client=file.name.split(".")[0]) for file in files]
    return pd.concat(frames, ignore_index=True)


def wind() -> Any:
    """Ten wind farms; two inputs more, the speeds of the wind that is forecast."""
    import pandas as pd

    frame = _files("gefcom2014_wind")
    time = pd.to_datetime(frame.TIMESTAMP, format="%Y%m%d %H:%M")
    speeds = {f"speed{m}": np.hypot(frame[f"U{m}"], frame[f"V{m}"]) for m in (10, 100)}
    return frame.assign(time=time, **speeds)


def homes() -> Any:
    """Seventeen homes, whose hours are counted."""
    return _files("citylearn_2022").rename(columns={"hour": "time"})


def air() -> Any:
    """Twelve stations, hour by hour."""
    import pandas as pd

    frame = _files("beijing_air_quality")
    return frame.assign(time=pd.to_datetime(frame[["year", "month", "day", "hour"]]))


def days() -> Any:
    """The means of each day; without the wind's direction, which has none."""
    frame = air()
    frame["time"] = frame.time.dt.floor("D")
    return frame.groupby(["client", "time"], as_index=False)[["O3", *GASES]].mean()


@dataclass(frozen=True)
class Set:
    """A table, and what is to be predicted."""

    load: Callable[[], Any]
    target: str
    inputs: tuple[str, ...]
    delay: int  # rounds until a label is known
    calendar: tuple[str, ...] = ()
    season: int | None = None
    week: int = 168  # rounds

    @property
    def columns(self) -> Columns:
        """What the columns of the frame mean."""
        return Columns(self.target, ("time",), "client", inputs=self.inputs, calendar=self.calendar)


_WHEN = ("hour", "yearday")
SETS = {
    "wind": Set(wind, "TARGETVAR", (*WIND, "speed10", "speed100"), 24),
    "solar": Set(homes, "solar", HOME, 24, season=24),
    "load": Set(homes, "load", HOME, 24, season=24),
    "ozone": Set(air, "O3", (*GASES, "wd"), 24, _WHEN),
    "load-1h": Set(homes, "load", HOME, 0, season=24),
    "ozone-1h": Set(air, "O3", (*GASES, "wd"), 0, _WHEN),
    "ozone-daily": Set(days, "O3", GASES, 1, ("yearday",), week=7),
}


def shortened(frame: Any, rounds: int) -> Any:
    """The first rounds of a frame."""
    times = np.unique(frame.time)
    return frame if len(times) <= rounds else frame[frame.time < times[rounds]]


def late(frame: Any, which: int) -> tuple[Any, list[str]]:
    """Without the first half of every third client; the names of these newcomers."""
    names, times = sorted(frame.client.unique()), np.unique(frame.time)
    new = names[which % 3 :: 3]
    return frame[~frame.client.isin(new) | (frame.time >= times[len(times) // 2])], new


@dataclass(eq=False)
class Recorder(Contender):
    """A contender that says nothing and writes down what the others say."""

    heard: dict[str, tuple[Any, str]]  # a contender and which of its models
    clients: int
    first: list[int] = field(default_factory=list)
    written: dict[tuple[str, str], list[Array]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.score = Score("recorder", self.clients, "free")

    def play(self, lot: Lot, span: Span) -> Guesses:
        """Listen: the others have played, as this one comes first in the list."""
        self.first.append(lot.first)
        here = span.overlap(lot.first, len(lot.y))
        for name, (contender, model) in self.heard.items():
            for part in ("prequential", *(p for p in here if p == "frozen")):
                models = contender.answers[part]
                guess = models.get(model, models["global"]).astype(np.float32)
                self.written.setdefault((part, name), []).append(guess)
        return {"prequential": {"global": np.zeros(lot.y.shape)}}

    def guesses(self, part: str, name: str, stop: int) -> Array:
        """By round and client, [N, K]; NaN where there is none."""
        found, blocks = np.full((stop, self.clients), np.nan, np.float32), self.written[part, name]
        for first, block in zip(self.first[-len(blocks) :], blocks, strict=True):
            found[first : first + len(block)] = block
        return found


@dataclass(frozen=True, eq=False)
class Samples:
    """All rounds of a table: what every model, ours and others', learns from and is judged on."""

    each: Set
    table: Any
    span: Span
    rounds: Rounds
    x: Array  # [N, K, L]
    y: Array  # [N, K]; NaN: no label
    known: Array  # [N, K, 2]: the last known label, and that of a season ago
    clients: list[str]

    @property
    def judged(self) -> Array:
        """Samples after the warm-up."""
        n = np.arange(len(self.y))[:, None]
        return np.isfinite(self.y) & (n >= self.span.first)

    @property
    def last(self) -> Array:
        """Samples of the last quarter."""
        return self.judged & (np.arange(len(self.y))[:, None] >= self.span.frozen)

    @property
    def learned(self) -> Array:
        """Samples whose labels are known before the last quarter, with those of the warm-up."""
        n = np.arange(len(self.y))[:, None]
        return np.isfinite(self.y) & (n < self.span.frozen - self.each.delay)

    def error(self, guess: Array, where: Array) -> float:
        """Mean squared error over the variance of the same samples."""
        y = self.y[where].astype(np.float64)
        return float(np.mean((guess[where] - y) ** 2) / y.var())

    def by_client(self, guess: Array, where: Array) -> Array:
        """The same for each client, over the variance of all."""
        gaps = np.where(where, guess - self.y, 0).astype(np.float64)
        return (gaps**2).sum(axis=0) / where.sum(axis=0) / self.y[where].astype(float).var()


def samples(each: Set, frame: Any) -> Samples:
    """Read a frame, encode it, and lay out its rounds."""
    table = reading.read(frame, each.columns)
    plan = Plan(each.columns, label_delay=each.delay, season=each.season)
    span = fitting.spans(table, plan)
    rounds = fitting.sampled(table, plan, span)
    x = np.zeros((span.stop, rounds.clients, rounds.recipe.taps), np.float32)
    y = np.full(x.shape[:2], np.nan, np.float32)
    for block in rounds.blocks(span.stop):
        here = slice(block.first, block.first + len(block.y))
        x[here], y[here] = block.x, block.y
    held = np.nan_to_num(forward(y))  # 0 is the mean of the warm-up
    lags = max(each.delay, 1), fitting.season(table, plan)
    known = np.stack([np.pad(held, ((lag, 0), (0, 0)))[: len(y)] for lag in lags], axis=-1)
    return Samples(each, table, span, rounds, x, y, known, list(table.clients))


@dataclass(frozen=True, eq=False)
class Played:
    """What psofed's models said of all rounds: [N, K] by name."""

    prequential: dict[str, Array]
    frozen: dict[str, Array]
    bytes: dict[str, int]
    settings: str


def play(data: Samples, seed: int, use: Use = "live") -> Played:
    """Tune on the warm-up, then all models side by side, as `psofed fit` does it for this use."""
    rounds, span, each = data.rounds, data.span, data.each
    plan = Plan(each.columns, label_delay=each.delay, season=each.season, seed=seed, use=use)
    plan = fitting.tuned(rounds, plan, span, fitting.silent)
    waves = fitting.draw(plan, rounds.recipe)
    shared, alone = (
        fitting.contender(rounds, plan, options, waves, span.first)
        for options in (*plan.methods, local.Options())
    )
    free = experts.free(rounds.clients, waves, rounds.recipe.taps, use)
    mixes = [Mixture(player, free, each.delay, use) for player in (shared, alone)]
    heard = dict(zip((OURS, OURS_ALONE), ((m, "global") for m in mixes), strict=True))
    heard |= {SHARED: (shared, "global"), "own w_k": (shared, "own"), ALONE: (alone, "global")}
    single = {"line": free.line} | free.others
    heard |= {name: (single[name], "global") for name in SINGLE[3:]}
    recorder = Recorder(heard, rounds.clients)
    line_up: Sequence[Any] = (recorder, *mixes, shared, alone, *reversed(free.all))
    season = fitting.season(data.table, plan)
    backtest.run(rounds, line_up, each.delay, span, season=season)
    found = {
        part: {name: recorder.guesses(part, name, span.stop) for name in heard}
        for part in ("prequential", "frozen")
    }
    sent = {name: contender.score.bytes for name, (contender, _) in heard.items()}
    return Played(**found, bytes=sent, settings=f"width {plan.width}, step {plan.step}")

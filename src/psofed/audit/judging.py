"""How much of the truth an attack has read: the only place that sees both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psofed.audit.curious import Spoils
from psofed.audit.reader import Recovered
from psofed.audit.server_view import TrueSamples
from psofed.streams.contract import Stream
from psofed.streams.table import Options as TableStream

Array = NDArray[Any]
Gauge = Literal["readable", "partly", "not by our attacks"]
WITHIN = 0.05  # standard deviations, in every input: a sample that is that near is read
MOST_OF = 0.9  # of the samples: a method of which so many are read is readable
SHOWN = 3  # samples that are shown beside the truth


@dataclass(frozen=True)
class ReadColumn:
    """One input, or y: how far what was read is off, in the units of the table."""

    name: str
    error: float  # median of |read - true| over samples that were read
    spread: float  # standard deviation of the true values
    read: tuple[float, ...]  # some of those that were read
    true: tuple[float, ...]


@dataclass(frozen=True)
class MethodAudit:
    """What a curious server reads of a method's messages."""

    title: str
    name: str
    attack: str  # in words; empty: not attacked
    note: str
    read: float  # share of samples whose x and y are both read
    inputs: float  # share of samples whose x is read
    error: float  # median over what was read of the largest error of x, in standard deviations
    chance: float  # `inputs` of a server that guesses the mean
    samples: int
    contacts: int
    equations: float  # numbers that come up in a contact
    unknowns: float  # numbers that are new to the server in a contact
    fresh: float  # of the equations, those of one round's samples alone
    bytes_up: float  # in a round
    columns: tuple[ReadColumn, ...] = ()
    searches: int = 0  # 0: what was seen left nothing to try

    @property
    def margin(self) -> float:
        """Equations over unknowns: from 1 on everything can be read, by the counting rule."""
        return self.equations / self.unknowns if self.unknowns else 0.0

    @property
    def gauge(self) -> Gauge:
        """In words."""
        if self.read >= MOST_OF:
            return "readable"
        return "partly" if self.inputs > 2 * self.chance else "not by our attacks"


@dataclass(frozen=True, eq=False)
class Hits:
    """Of all samples [N, L + 1]: the truth, what the attack says, and which are read."""

    true: Array
    found: Array
    x: Array  # [N] whether all inputs are near
    y: Array  # and y
    scale: Array


def judge(
    spoils: Spoils, truth: TrueSamples, title: str, name: str, bytes_up: float, stream: Stream
) -> MethodAudit:
    """The shares, over the samples that messages depend on."""
    hits = compared(spoils, truth)
    count = len(hits.true)
    both, x = hits.x & hits.y, hits.x
    worst = np.abs(hits.found - hits.true)[x, :-1] / hits.scale[:-1]
    middle = np.abs(hits.true - hits.true.mean(axis=0))[:, :-1] if count else hits.true[:, :-1]
    guessed = (middle <= WITHIN * hits.scale[:-1]).all(axis=1)
    return MethodAudit(
        title, name, spoils.attack, spoils.why,
        read=float(both.mean()) if count else 0.0,
        inputs=float(x.mean()) if count else 0.0,
        error=float(np.median(worst.max(axis=1))) if x.any() else float("nan"),
        chance=float(guessed.mean()) if count else 0.0,
        samples=count, contacts=spoils.contacts, equations=spoils.equations,
        unknowns=spoils.unknowns, fresh=spoils.fresh, bytes_up=bytes_up,
        columns=columns(hits, stream), searches=spoils.searches,
    )  # fmt: skip


def compared(spoils: Spoils, truth: TrueSamples) -> Hits:
    """Each true sample beside the nearest of what was said of its round."""
    rows = [
        (k, n, np.append(truth.samples[k][0][n], truth.samples[k][1][n]))
        for k in truth.samples
        for n in spoils.learned.get(k, [])
        if n < len(truth.samples[k][1]) and np.isfinite(truth.samples[k][1][n])
    ]
    size = next(x.shape[1] for x, _ in truth.samples.values()) + 1
    true = np.array([row for _, _, row in rows], np.float64).reshape(len(rows), size)
    scale = true.std(axis=0) if len(rows) else np.ones(size)
    scale = np.where(scale > 1e-9, scale, 1.0)
    said: dict[tuple[int, int], list[Recovered]] = {}
    for k, some in spoils.samples.items():
        for sample in some:
            said.setdefault((k, sample.n), []).append(sample)
    found = np.full_like(true, np.nan)
    for i, (k, n, row) in enumerate(rows):
        of = said.get((k, n), []) + said.get((-1, n), [])
        options = np.array([np.append(sample.x, sample.y) for sample in of])
        if len(options):
            away = np.abs(options[:, :-1] - row[:-1]) / scale[:-1]
            found[i] = options[away.max(axis=1).argmin()]
    with np.errstate(invalid="ignore"):
        near: Array = np.abs(found - true) <= WITHIN * scale
    return Hits(true, found, np.all(near[:, :-1], axis=1), near[:, -1], scale)


def columns(hits: Hits, stream: Stream) -> tuple[ReadColumn, ...]:
    """For tables, what was read in the units of their columns."""
    if not isinstance(stream, TableStream):
        return ()
    encoder = stream.recipe.encoder
    pairs = {name: stream.recipe.scaling[name] for name in encoder.numeric}
    target = encoder.columns.target
    pairs[target] = float(encoder.centre[-1]), float(encoder.scale[-1])
    some = []
    for j, name in enumerate([*encoder.names, target]):
        centre, scale = pairs.get(name.partition("[")[0], (0.0, 1.0))
        which = hits.x if j < len(encoder.names) else hits.x & hits.y
        true, found = (scale * each[:, j] + centre for each in (hits.true, hits.found))
        error = float(np.median(np.abs(found - true)[which])) if which.any() else float("nan")
        shown = tuple(tuple(each[which][:SHOWN].tolist()) for each in (found, true))
        some.append(ReadColumn(name, error, float(true.std()) if len(true) else 0.0, *shown))
    return tuple(some)

"""A model as other programs need it: every input with its origin, the features, the weights.

A recipe has parts that remember (held values, lags) and parts that know the time (calendar). A
format without memory cannot have them: there they are inputs that the caller gives.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psofed.core.features import Cosines
from psofed.core.native import Array
from psofed.errors import InputError
from psofed.extras import versions
from psofed.streams.data.columns import CALENDAR
from psofed.streams.data.recipe import FARTHEST_LABEL, Recipe

Kind = Literal["number", "lag", "missing", "category", "calendar", "target lag", "scaled"]
SCALED = ("number", "lag", "target lag")  # (value - centre) / scale, clipped


@dataclass(frozen=True)
class InputEntry:
    """One entry of x: what it is made from, and how."""

    name: str
    kind: Kind
    column: str = ""
    centre: float = 0.0
    scale: float = 1.0
    clip: float = 0.0  # where the scaled value is clipped
    rule: str = ""  # what a missing value is: hold, skip or indicator
    lag: int = 0  # ticks
    text: str = ""  # of a category: x is 1 where the column has it
    wave: str = ""  # of a calendar entry: sin or cos of 2 pi time / period
    period: float = 0.0  # seconds

    @property
    def blank(self) -> float:
        """What x is where the value is missing: the mean, or nothing to predict from."""
        return 0.0 if self.rule == "indicator" else float("nan")


@dataclass(frozen=True)
class Argument:
    """What a caller gives: a number, or the text of a category."""

    name: str
    meaning: str
    is_text: bool


@dataclass(frozen=True, eq=False)
class Portable:
    """y = centre + scale (w^T z(x) + v^T (x, 1)), z = sqrt(2/D) cos(W x + b); and what x is."""

    whose: str  # which model it is, in words
    entries: tuple[InputEntry, ...]
    features: Cosines  # float32
    w: Array
    line: Array  # v [L + 1]
    target: str
    centre: float
    scale: float
    label_delay: int = 0
    tick: float | None = None  # the length of a tick; None: there is no table
    tick_unit: str = ""  # of the tick; empty: not known
    absent: tuple[str, ...] = ()  # texts that mean "missing"
    markers: tuple[float, ...] = ()  # numbers that do, such as -999
    command: str = ""

    @property
    def made(self) -> str:
        """How the file was made."""
        made = f"psofed {versions()['psofed']}"
        return f"{made}: {self.command}" if self.command else made

    @property
    def output(self) -> str:
        """The name of the answer."""
        return f"predicted {self.target}"

    @property
    def raw(self) -> bool:
        """Whether inputs are values of a table; otherwise they are x itself."""
        return all(entry.kind != "scaled" for entry in self.entries)

    @property
    def arguments(self) -> list[Argument]:
        """What a caller gives, in order; a category and an indicator are no values of their own."""
        found: dict[str, Argument] = {}
        for entry in self.entries:
            if entry.kind != "missing":
                is_text = entry.kind == "category"
                name = entry.column if is_text else entry.name
                found.setdefault(name, Argument(name, self._meaning(entry), is_text))
        return list(found.values())

    def _meaning(self, entry: InputEntry) -> str:
        """One line about an argument."""
        unit = self.tick_unit or "of time"
        back = f"{entry.lag} ticks ({entry.lag * (self.tick or 1):g} {unit}) ago"
        rule = {"hold": "; if missing, the last known one", "": ""}.get(
            entry.rule, "; NaN if missing"
        )
        if entry.kind == "calendar":
            return f"{entry.wave} of 2 pi t / {entry.period:g} s, t in seconds since 1970 (UTC)"
        if entry.kind == "category":
            return "text" + ("; empty if missing" if entry.rule == "indicator" else rule)
        if entry.kind == "scaled":
            return "as the stream gives it"
        if entry.kind == "target lag":
            return f"{entry.column} {back}, the last label known then"
        if entry.kind == "lag":
            return f"{entry.column} {back}, in its units{rule}"
        return f"in its units{rule}"

    @property
    def about(self) -> str:
        """The model in a few sentences."""
        lines = [
            f"{self.whose}: {self.output}, {len(self.entries)} inputs, D = {self.features.dim}.",
            f"Made by {self.made}",
        ]
        if self.raw:
            lines += [
                "Inputs are scaled, and clipped, inside.",
                "A missing value gives NaN, unless the rule of its column is indicator.",
                "The model has no memory: hold values and give older ones yourself.",
            ]
        return "\n".join(lines)


def entries(recipe: Recipe) -> tuple[InputEntry, ...]:
    """The inputs x of a recipe, in their order."""
    e, columns = recipe, recipe.columns
    pairs = dict(zip((*e.numeric, columns.target), zip(e.centre, e.scale, strict=True),
                     strict=True))  # fmt: skip
    clips = dict(zip(e.numeric, e.limits.tolist(), strict=True))

    def scaled(kind: Kind, column: str, lag: int = 0) -> InputEntry:
        name, rule = f"{column}[-{lag}]" if lag else column, columns.rule(column)
        centre, scale = map(float, pairs[column])
        if kind == "target lag":
            return InputEntry(name, kind, column, centre, scale, FARTHEST_LABEL, lag=lag)
        return InputEntry(name, kind, column, centre, scale, clips[column], rule, lag)

    found = [scaled("number", name) for name in e.numeric]
    found += [scaled("lag", e.numeric[j], lag) for lag, js in e.lagged.items() for j in js]
    found += [InputEntry(f"{n}?", "missing", n, rule="indicator") for n in e.flagged]
    found += [InputEntry(f"{n}={text}", "category", n, rule=columns.rule(n), text=text)
              for n, texts in e.hot.items() for text in texts]  # fmt: skip
    found += [InputEntry(f"{wave} {c}", "calendar", wave=wave, period=CALENDAR[c])
              for c in columns.calendar for wave in ("sin", "cos")]  # fmt: skip
    found += [scaled("target lag", columns.target, lag) for lag in columns.target_lags]
    assert [entry.name for entry in found] == e.names
    return tuple(found)


def plain_entries(taps: int) -> tuple[InputEntry, ...]:
    """x1..xL, where no recipe says what they are."""
    return tuple(InputEntry(f"x{i}", "scaled") for i in range(1, taps + 1))


def check(model: Portable, where: str) -> None:
    """Refuse a model that cannot be used, and inputs that one name would mix up."""
    dim, taps = model.features.W.shape
    if model.w.shape != (dim,) or not len(model.entries) == taps == len(model.line) - 1:
        found = f"has {model.w.shape} weights and {taps} inputs for {dim} features"
        raise InputError("", found, "give a model with one weight for each feature", where)
    if not (np.isfinite(model.w).all() and np.isfinite(model.line).all()):
        raise InputError("", "has values that are not finite", "fit it with a smaller step", where)
    names = [*(a.name for a in model.arguments), model.output]
    # Two entries of one name became one argument: count what callers have to tell apart.
    made = Counter(e.name for e in model.entries if e.kind not in ("missing", "category"))
    texts = {e.column for e in model.entries if e.kind == "category"}
    for name in names:
        if made[name] + (name in texts) > 1 or names.count(name) > 1:
            right = "rename the column of that name, and fit again"
            raise InputError(f"input {name!r}", "has the name of another one", right, where)


def render(model: Portable, name: str = "model") -> bytes:
    """As JSON: all that a prediction needs, and what it means."""
    table: dict[str, Any] = {
        "format": "psofed-model-2", "made_by": model.made, "model": model.whose,
        "target": {"column": model.target, "centre": model.centre, "scale": model.scale},
        "label_delay": model.label_delay, "tick": model.tick, "tick_unit": model.tick_unit,
        "missing_texts": list(model.absent),
        "missing_numbers": list(model.markers),
        "inputs": [entry(one) for one in model.entries],
        "D": model.features.dim, "L": len(model.entries),
        "w": short(model.w), "line": short(model.line),
        "b": short(model.features.b), "W": short(model.features.W),
    }  # fmt: skip
    lines = (f"{json.dumps(key)}: {json.dumps(v, allow_nan=False)}" for key, v in table.items())
    return ("{" + ",\n".join(lines) + "}\n").encode()


def entry(one: InputEntry) -> dict[str, Any]:
    """An input; keys that say nothing about its kind are left out."""
    table = dataclasses.asdict(one)
    if one.kind not in SCALED:
        del table["centre"], table["scale"]
    return {key: value for key, value in table.items() if value not in ("", 0) or key == "centre"}


def short(values: NDArray[Any]) -> Any:
    """The shortest decimals that are these float32 numbers.

    >>> short(np.array([0.1, 1 / 3], np.float32))
    [0.1, 0.33333334]
    """
    if values.ndim > 1:
        return [short(row) for row in values]
    return [float(np.format_float_scientific(v)) for v in values.astype(np.float32)]

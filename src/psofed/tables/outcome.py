"""A finished fit: what to do with it, and its tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed import extras
from psofed.core.conformal import LEVELS
from psofed.core.features import Waves
from psofed.extras import need
from psofed.federation.options import Options
from psofed.streams.data.recipe import Recipe
from psofed.streams.data.table import Drops, Table
from psofed.tables import model as models
from psofed.tables.intervals import Intervals
from psofed.tables.model import Model
from psofed.tables.plan import Plan, Span
from psofed.tables.scores import Scores

Array = NDArray[Any]
HEAD = ("error / variance", "prequential", "frozen", "RMSE", "MAE", "bytes/device/day")
MARGIN = 0.02  # relative: less is called the same
SHOWN = 0.9  # the level of the intervals in tables of one line


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """A finished fit: the plan with its tuned numbers, the scores and the models.

    `predict` uses the model of the first method, `save` writes it to a file, `summary` is text and
    `to_frame` the scores as a pandas frame. It can be pickled; the rows of the table do not come
    along, so that what reads them again (`table.read`) works only where it was made.
    """

    plan: Plan
    table: Table
    recipe: Recipe  # how a row becomes the inputs of the model
    features: Waves
    scores: Scores
    span: Span
    settings: list[Options]  # of the methods that have scores, in their order
    shared: Array  # the model of the first method, after the last label
    own: Array | None
    later: Drops  # rows that were read but gave no sample
    notes: list[str]
    averaged: bool = False  # whether `shared` is the mean of models of which each client has one

    @property
    def portrait(self) -> dict[str, Any]:
        """How the frozen model errs."""
        return self.scores.portrait

    @cached_property
    def model(self) -> Model:
        """The model of the first method, as `save` saves it."""
        own = self.own if self.own is not None and self.own.nbytes <= models.OWN else None
        learned = self.scores.intervals
        radii: dict[str, Array] = {}
        if learned is not None and learned.radii.nbytes <= models.OWN:
            radii = dict(zip(learned.models, learned.radii, strict=True))
        for model, gone in (("own", own is None), ("global", self.averaged)):
            if gone:
                radii.pop(model, None)
        names = tuple(self.scores.clients) if own is not None or radii else ()
        title, delay = self.plan.methods[0].title(), self.plan.label_delay
        return Model(self.recipe, self.features, self.shared, names, own, title, delay,
                     radii.get("global"), radii.get("own"))  # fmt: skip

    def predict(
        self, source: Any, client: str | None = None, interval: float | None = None,
        own: bool = False,
    ) -> Any:  # fmt: skip
        """The prediction for each row of a frame or file: see `Model.predict`."""
        return self.model.predict(source, client, interval, own, self.plan.form)

    def save(self, path: str | Path) -> None:
        """Write the file that `psofed.load_model` and `psofed predict` read."""
        self.model.save(path)

    def to_frame(self) -> Any:
        """The scores as a pandas frame, one row per method."""
        return need("pandas", "frame", "frames").DataFrame(score_rows(self)).set_index("method")

    def summary(self) -> str:
        """The scores, the settings and what was left out, as text."""
        rows = [HEAD, *self._cells()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
            for row in rows
        ]
        return "\n".join([repr(self)[1:-1], "", *lines, "", *self._remarks()])

    def _cells(self) -> list[tuple[str, ...]]:
        keys = ("prequential", "frozen", "frozen_rmse", "frozen_mae")
        return [
            (row["method"], *(_show(row[key]) for key in keys),
             f"{row['bytes_per_device_and_day']:,.0f}")
            for row in score_rows(self)
        ]  # fmt: skip

    def _remarks(self) -> list[str]:
        plan = self.plan
        settings = f"D = {plan.dim}, width {plan.width:g}, step {plan.step:g}"
        line = interval_line(self)
        return [settings, *([line] if line else []), *self.notes]

    def __repr__(self) -> str:
        count, target = len(self.scores.clients), self.plan.columns.target
        whose = "1 client" if count == 1 else f"{count} clients"
        frozen = _show(self.scores.error(0, "frozen"))
        return (
            f"<Fit of {target!r}: {self.scores.scores[0].title}, {whose}, {self.table.rows:,} rows,"
            f" frozen error {frozen} of the variance>"
        )

    def _repr_html_(self) -> str:
        """For notebooks."""
        return extras.table(repr(self)[1:-1], HEAD, self._cells(), " ".join(self._remarks()))

    def __getstate__(self) -> dict[str, Any]:
        """Without the spool, which is a temporary file of this process."""
        state = {k: v for k, v in self.__dict__.items() if k != "model"}
        return state | {"table": replace(self.table, spool=None)}  # type: ignore[arg-type]


def _show(value: float) -> str:
    if np.isnan(value):
        return "-"
    return f"{value:.4g}" if value < 1e6 else "diverged"


def score_rows(fit: Fit) -> list[dict[str, Any]]:
    """One entry per contender: errors over the target's variance and in its units, and bytes."""
    scores, unit = fit.scores, float(fit.recipe.scale[-1])
    rows: list[dict[str, Any]] = []
    for j, score in enumerate(scores.scores):
        rows.append({
            "method": score.title,
            "prequential": scores.error(j, "prequential"),
            "frozen": scores.error(j, "frozen"),
            "prequential_rmse": scores.rmse(j, "prequential") * unit,
            "prequential_mae": scores.mae(j, "prequential") * unit,
            "frozen_rmse": scores.rmse(j, "frozen") * unit,
            "frozen_mae": scores.mae(j, "frozen") * unit,
            "prequential_own": scores.error(j, "prequential", "own"),
            "frozen_own": scores.error(j, "frozen", "own"),
            **_promise(scores.intervals if j == 0 else None, unit),
            "up_bytes": score.up, "down_bytes": score.down, "largest_message": score.largest,
            "bytes_per_device_and_day": scores.per_day(j), "setup_bytes_per_device": score.setup,
        })  # fmt: skip
    return rows


def _promise(learned: Intervals | None, unit: float) -> dict[str, float]:
    """Coverage and width in the last part; the width that is best in hindsight, if constant."""
    keys = ("coverage_90", "width_90", "constant_width_90")
    if learned is None:
        return dict.fromkeys(keys, float("nan"))
    last = _part(learned, "last", "global", SHOWN, unit)
    best = learned.together(learned.constant("global", SHOWN)) * unit
    return dict(zip(keys, (last["coverage"], last["width"], best), strict=True))


def client_rows(fit: Fit) -> list[dict[str, Any]]:
    """One entry per client: frozen errors of the shared, its own and a model learned alone."""
    scores = fit.scores
    alone = next((j for j, options in enumerate(fit.settings) if options.alone), None)
    errors = {
        "shared": scores.by_client(0, "frozen", "global"),
        "own": scores.by_client(0, "frozen", "own"),
        "alone": np.full(len(scores.clients), np.nan) if alone is None
        else scores.by_client(alone, "frozen", "own"),
    }  # fmt: skip
    sure, learned = {}, scores.intervals
    for model in () if learned is None else learned.models:
        assert learned is not None
        name, unit = "" if model == "global" else "own_", float(fit.recipe.scale[-1])
        sure[f"{name}coverage_90"] = learned.coverage("last", model, SHOWN)
        sure[f"{name}width_90"] = learned.width("last", model, SHOWN) * unit
    rows: list[dict[str, Any]] = []
    for k, name in enumerate(scores.clients):
        mine, kept = ({key: float(v[k]) for key, v in some.items()} for some in (errors, sure))
        count = int(scores.truths["frozen"].count[k])
        rows.append({"client": name, "samples": count, **mine, "sharing": verdict(mine)} | kept)
    return rows


def verdict(errors: dict[str, float]) -> str:
    """Whether the better of shared and own model beats a model that was learned alone."""
    known = [e for e in (errors["shared"], errors["own"]) if np.isfinite(e)]
    if not known or not np.isfinite(errors["alone"]):
        return "unknown"
    best, alone = min(known), errors["alone"]
    if abs(best - alone) <= MARGIN * alone:
        return "same"
    return "gains" if best < alone else "loses"


def interval_table(fit: Fit) -> dict[str, Any]:
    """What was promised and what was kept, by model and level; widths in the target's units."""
    learned, unit = fit.scores.intervals, float(fit.recipe.scale[-1])
    if learned is None:
        return {}
    table: dict[str, Any] = {"method": fit.scores.scores[0].title, "parts": list(learned.parts)}
    for m, model in enumerate(learned.models):
        entries = []
        for j, level in enumerate(LEVELS):
            hits, widths = learned.curve[:, :, m, j]
            count = np.maximum(fit.scores.counts, 1)
            entries.append({
                "level": level,
                "constant_width": learned.together(learned.constant(model, level)) * unit,
                "by_part": [_part(learned, part, model, level, unit) for part in learned.parts],
                "over_time": {
                    "round": fit.scores.marks.tolist(), "coverage": (hits / count).tolist(),
                    "width": (widths / count * unit).tolist(),
                },
            })  # fmt: skip
        table["shared" if model == "global" else model] = entries
    return table


def _part(learned: Intervals, part: str, model: str, level: float, unit: float) -> dict[str, Any]:
    """One part of the rounds: all clients together, and those that differ most."""
    coverage, width = (f(part, model, level) for f in (learned.coverage, learned.width))
    known = coverage[~np.isnan(coverage)]
    return {
        "part": part,
        "coverage": learned.together(coverage, part),
        "lowest_client": float(known.min()) if len(known) else float("nan"),
        "highest_client": float(known.max()) if len(known) else float("nan"),
        "width": learned.together(width, part) * unit,
        "by_client": coverage.tolist(),
    }


def interval_line(fit: Fit) -> str:
    """One line about the intervals of the first method; empty if there is nothing to say."""
    learned, unit = fit.scores.intervals, float(fit.recipe.scale[-1])
    if learned is None or not learned.count[learned.parts.index("last")].any():
        return ""
    last = _part(learned, "last", "global", SHOWN, unit)
    seasons = [_part(learned, part, "global", SHOWN, unit) for part in learned.parts[2:]]
    known = [part for part in seasons if part["coverage"] == part["coverage"]]
    low, high = min(p["lowest_client"] for p in known), max(p["highest_client"] for p in known)
    best = learned.together(learned.constant("global", SHOWN)) * unit
    what = "in each season" if learned.parts[2] == "Dec-Feb" else "in each of its quarters"
    return (
        f"intervals of {SHOWN:g}, last part: {last['coverage']:.3f} of the labels are inside"
        f" ({last['lowest_client']:.3f} to {last['highest_client']:.3f} by client, {low:.3f} to"
        f" {high:.3f} {what}), mean width {last['width']:.4g} (best constant {best:.4g})"
    )

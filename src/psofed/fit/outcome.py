"""A finished fit: what to do with it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed import notebook
from psofed.core.features import Waves
from psofed.data import recipe as recipes
from psofed.data.encoder import Encoder
from psofed.data.reading import Drops, Table
from psofed.data.recipe import Recipe
from psofed.extras import need
from psofed.fit import model as models
from psofed.fit.federation import Span
from psofed.fit.model import Model
from psofed.fit.plan import Plan
from psofed.fit.rows import interval_line, score_rows
from psofed.fit.scores import Scores
from psofed.methods.contract import Options

Array = NDArray[Any]
HEAD = ("error / variance", "prequential", "frozen", "RMSE", "MAE", "bytes/device/day")


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """A finished fit: the plan with its tuned numbers, the scores and the models.

    `predict` uses the model of the first method, `save` writes it to a file, `summary` is text and
    `to_frame` the scores as a pandas frame. It can be pickled; the rows of the table do not come
    along, so that what reads them again (`table.read`) works only where it was made.
    """

    plan: Plan
    table: Table
    encoder: Encoder
    features: Waves
    scores: Scores
    span: Span
    settings: list[Options]  # of the methods that have scores, in their order
    shared: Array  # the model of the first method, after the last label
    own: Array | None
    later: Drops  # rows that were read but gave no sample
    notes: list[str]
    averaged: bool = False  # whether `shared` is the mean of models of which each client has one
    portrait: dict[str, Any] = field(default_factory=dict)  # how the frozen model errs

    @property
    def recipe(self) -> Recipe:
        """How a row becomes the inputs of the model."""
        return recipes.of(self.table, self.encoder)

    @cached_property
    def model(self) -> Model:
        """The model of the first method, as `save` saves it."""
        return models.of(self)

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
        return notebook.table(repr(self)[1:-1], HEAD, self._cells(), " ".join(self._remarks()))

    def __getstate__(self) -> dict[str, Any]:
        """Without the spool, which is a temporary file of this process."""
        state = {k: v for k, v in self.__dict__.items() if k != "model"}
        return state | {"table": replace(self.table, spool=None)}  # type: ignore[arg-type]


def _show(value: float) -> str:
    if np.isnan(value):
        return "-"
    return f"{value:.4g}" if value < 1e6 else "diverged"

"""A model with every kind of input, and what the product says to the rows of a table."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from helpers.raw_rows import Asked, asked
from helpers.small_tables import write_rows
from psofed.tables import example, fitting
from psofed.tables import model as models
from psofed.tables.model import Model

RULES = {"temperature": "hold", "wind": "indicator", "traffic": "skip"}
LAGS = {"temperature": [1, 24], "wind": [1], "traffic": [1]}
LABELS = {"frozen": [24], "live": [24, 3, 5]}  # lags of the target, by use of the model


@dataclass(frozen=True)
class Fitted:
    path: Path
    model: Model
    asked: Asked
    mean: np.ndarray  # by row, as to a client that is not known; NaN: there is no answer
    own: np.ndarray  # the same with the model of each client

    @property
    def scale(self):
        return float(self.model.recipe.scale[-1])

    def said_by(self, found):
        """Whether these are the answers of the product, and there is none where it has none."""
        np.testing.assert_array_equal(np.isnan(found), np.isnan(self.mean))
        return np.nanmax(np.abs(found - self.mean)) < 1e-5 * self.scale


@pytest.fixture(scope="package", params=LABELS)
def fitted(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("fitted")
    table = folder / "table.csv"
    rows = [r for r in example.rows() if r["station"] in ("market", "hill")][:700]
    for i, row in enumerate(rows):
        side = "NE" if i > 600 and i % 9 == 0 else row["wind_from"]  # not in the warm-up
        row["wind_from"] = "" if i % 50 == 49 else side
        row["temperature"] = "900.5" if i % 97 == 96 else row["temperature"]  # to be clipped
        row["wind"] = "-999.9" if i % 41 == 40 else row["wind"]  # means that it is missing
    write_rows(table, rows)
    done = fitting.fit_table(
        table, target="pollutant", time="time", client="station", calendar=("hour",), lags=(1,),
        lags_of={"temperature": (24,)}, target_lags=(24,), missing=RULES, markers=("-999.9",), label_delay=3,
        warmup=0.3, dim=60, width=3.0, step=0.4, compare=False, use=request.param, season=5,
    )  # fmt: skip
    model = done.model
    path = folder / "model.psofed"
    path.write_bytes(model.to_bytes())
    wanted = asked(table, RULES, LAGS | {"pollutant": LABELS[request.param]})
    stranger = replace(model, own=np.tile(model.w, (len(model.clients), 1)))
    by_row = [np.full(len(rows), np.nan) for _ in range(2)]
    for one, values in zip((stranger, model), by_row, strict=True):
        for numbers, found, _ in models.answered(one, table)[0]:
            values[numbers] = found[:, 0]
    assert 400 < np.isfinite(by_row[0]).sum() < len(wanted.keys) - 50  # both kinds occur
    return Fitted(path, model, wanted, *by_row)

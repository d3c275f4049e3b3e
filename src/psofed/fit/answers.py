"""Predictions of a model for the rows of a table: row by row, or aligned with the table.

Nothing is learned. With an interval, each prediction has a low and a high end: the radius that the
client's errors needed when the model was judged, which does not change any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psofed.core import conformal
from psofed.data.form import UNKNOWN, Form
from psofed.data.rounds import Block, Rounds
from psofed.data.sources import RowSource
from psofed.errors import InputError, nearest
from psofed.extras import need

if TYPE_CHECKING:
    from psofed.fit.model import Model

Array = NDArray[Any]
COLUMNS = ("predicted", "low", "high")


@dataclass(frozen=True)
class Answer:
    """One row of predictions; the target where the table has it, the interval if it was wanted."""

    client: str
    time: float
    value: float
    target: float
    low: float = float("nan")
    high: float = float("nan")

    @property
    def inside(self) -> bool:
        """Whether the target is in the interval."""
        return self.low <= self.target <= self.high


def predict(
    model: Model, source: Any, own: bool = False, form: Form = UNKNOWN,
    interval: float | None = None,
) -> tuple[Iterator[Answer], Rounds]:  # fmt: skip
    """The model's predictions for the rows of a table, in time order.

    With `own`, clients that have their own model in the file get its prediction.
    """
    labelled = bool(model.recipe.columns.target_lags)
    check_level(model, interval, own)
    rounds = model.recipe.rounds(source, labelled, form=form)
    return _rows(_Answering(model, rounds.table.clients, own, interval), rounds), rounds


def check_level(model: Model, interval: float | None, own: bool) -> None:
    """Refuse a level for which there is no radius."""
    if interval is None:
        return
    conformal.which(interval)
    if model.radius is None and own and model.own_radius is not None:
        return
    if model.radius is None and model.own_radius is not None:
        found = f"is wanted, but {model.title} has radii for the clients' own models only"
        raise InputError("interval", found, "use own models too, or leave it out")
    if model.radius is None:
        found = "is wanted, but the model has no radii: it was saved without, by an earlier version"
        raise InputError("interval", found, "fit it again, or leave it out")


class _Answering:
    """The model, and the radius, with which each client of a table is answered."""

    def __init__(self, model: Model, clients: list[str], own: bool, interval: float | None) -> None:
        self.model, self.encoder = model, model.recipe.encoder
        known = {name: k for k, name in enumerate(model.clients)}
        places = np.array([known.get(name, -1) for name in clients])
        ours = places >= 0
        self.w = np.tile(model.w, (len(clients), 1))
        self.radius = np.full(len(clients), np.nan)
        self.unknown = [name for name in clients if name not in known]
        if interval is not None and model.radius is not None:
            j = conformal.which(interval)
            # Nothing is known of a new client: the largest radius of those that are known.
            self.radius[:] = model.radius[:, j].max()
            self.radius[ours] = model.radius[places[ours], j]
        if own and model.own is not None:
            self.w[ours] = model.own[places[ours]]
            if interval is not None and model.own_radius is not None:
                self.radius[ours] = model.own_radius[places[ours], conformal.which(interval)]

    def __call__(self, block: Block) -> Array:
        """Predictions, low and high ends [3, B, K], in the units of the target."""
        guesses = np.vecdot(self.model.features(block.x), self.w)
        return self.encoder.restore(
            np.stack([guesses, guesses - self.radius, guesses + self.radius])
        )


def _rows(answering: _Answering, rounds: Rounds) -> Iterator[Answer]:
    clients = rounds.table.clients
    for block in rounds.blocks():
        found = answering(block)
        targets = answering.encoder.restore(block.y.astype(np.float64))
        for i, k in zip(*np.nonzero(block.has), strict=True):
            value, low, high = found[:, i, k].tolist()
            yield Answer(
                clients[k], float(block.time[i, k]), value, float(targets[i, k]), low, high
            )


def aligned(
    model: Model, source: Any, client: str | None = None, interval: float | None = None,
    own: bool = False, form: Form = UNKNOWN,
) -> Any:  # fmt: skip
    """The prediction for every row of a frame or file, in its order; NaN where there is none.

    A pandas frame gives a Series with its index, a polars frame a Series, a file an array. With an
    interval: a frame with the columns predicted, low and high, or an array [rows, 3]. `client`
    names the client of a table that has no column for it.
    """
    check_level(model, interval, own)
    model = _of_client(model, source, client, own, form)
    columns = model.recipe.columns
    if columns.wide is not None:
        found = "is wide: its rows have several clients"
        raise InputError("table", found, "give one row per client and time, or use psofed predict")
    rounds = model.recipe.rounds(source, bool(columns.target_lags), form=form)
    clients = [client] if client is not None else rounds.table.clients
    if own and model.own is not None and not set(clients) & set(model.clients):
        found = f"is wanted, but the model has none of {', '.join(clients[:5])}"
        raise InputError("own", found, nearest(clients[0], list(model.clients)))
    answering = _Answering(model, clients, own, interval)
    values = np.full((rounds.table.rows, 3), np.nan)
    for block in rounds.blocks():
        values[block.row[block.has]] = answering(block)[:, block.has].T
    return _like(source, values if interval is not None else values[:, :1])


def _of_client(model: Model, source: Any, client: str | None, own: bool, form: Form) -> Model:
    """The model for a table of one client, which is named beside it."""
    recipe = model.recipe
    column = recipe.columns.client
    if recipe.columns.wide is not None:
        return model
    if column is not None:
        there = column in RowSource(source, recipe.columns, form).header()
        if there and client is not None:
            found = f"is given, but the table has the column {column!r}"
            raise InputError("client", found, "leave one of them out")
        if not there and client is None:
            right = f"name the client of all rows: client={_some(model)}"
            raise InputError(f"column {column!r}", "is not there", right)
        if there:
            return model
        recipe = replace(recipe, columns=replace(recipe.columns, client=None))
    if client is not None and isinstance(source, str | Path) and Path(source).is_dir():
        raise InputError("client", "is given for a folder", "give one file")
    return replace(model, recipe=recipe)


def _some(model: Model) -> str:
    return repr(model.clients[0]) if model.clients else "'NAME'"


def _like(source: Any, values: Array) -> Any:
    """In the form of the source."""
    if isinstance(source, str | Path):
        return values if values.shape[1] > 1 else values[:, 0]
    if hasattr(source, "iloc"):
        pandas = need("pandas", "frame", "frames")
        if values.shape[1] > 1:
            return pandas.DataFrame(values, index=source.index, columns=list(COLUMNS))
        return pandas.Series(values[:, 0], index=source.index, name=COLUMNS[0])
    polars = need("polars", "frame", "frames")
    if values.shape[1] > 1:
        return polars.DataFrame(dict(zip(COLUMNS, values.T, strict=True)))
    return polars.Series(COLUMNS[0], values[:, 0])

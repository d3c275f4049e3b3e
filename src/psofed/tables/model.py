"""A saved model: one small file of JSON, raw numbers and a digest. Loading it runs no code.

    PSOFED MODEL 1\\n | length of the header, 8 bytes | header, JSON | arrays, float32 | SHA-256

The header names the arrays with their shapes, and holds the recipe: columns, scaling, tick and
categories, all that is needed to turn a row of a table into the inputs of the model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.features import Waves
from psofed.errors import InputError
from psofed.rows import recipe as recipes
from psofed.rows.recipe import Recipe
from psofed.rows.rounds import Rounds
from psofed.tables.fit import Fit

Array = NDArray[Any]
MAGIC = b"PSOFED MODEL 1\n"
OWN = 1_000_000  # bytes of the clients' own models that are worth saving
LARGEST = 256_000_000


@dataclass(frozen=True, eq=False)
class Model:
    """y = w^T z(x), with what makes x of a row. Clients may have models of their own."""

    recipe: Recipe
    features: Waves
    w: Array
    clients: tuple[str, ...]
    own: Array | None
    title: str
    label_delay: int

    def to_bytes(self) -> bytes:
        """The file."""
        arrays = {"W": self.features.W, "b": self.features.b, "w": self.w}
        if self.own is not None:
            arrays["own"] = self.own
        header = {
            "title": self.title, "label_delay": self.label_delay, "recipe": self.recipe.to_table(),
            "clients": list(self.clients),
            "arrays": {name: list(array.shape) for name, array in arrays.items()},
        }  # fmt: skip
        text = json.dumps(header, ensure_ascii=True, allow_nan=False).encode()
        body = MAGIC + len(text).to_bytes(8, "little") + text
        body += b"".join(np.ascontiguousarray(a, "<f4").tobytes() for a in arrays.values())
        return body + hashlib.sha256(body).digest()


def of(fit: Fit) -> Model:
    """The model of a fit."""
    own = fit.own if fit.own is not None and fit.own.nbytes <= OWN else None
    names = tuple(fit.table.clients) if own is not None else ()
    recipe = recipes.of(fit.table, fit.encoder)
    title = fit.plan.methods[0].title()
    return Model(recipe, fit.features, fit.shared, names, own, title, fit.plan.label_delay)


def load(path: str | Path) -> Model:
    """The model in a file; every damage to it is an InputError."""
    try:
        if Path(path).stat().st_size > LARGEST:
            raise InputError("", "is too large for a model", "give another file", str(path))
        data = Path(path).read_bytes()
    except OSError as error:
        found = f"cannot be read: {error.strerror}"
        raise InputError("", found, "give a model that `psofed fit` has saved", str(path)) from None
    if not data.startswith(MAGIC):
        right = "give a file that `psofed fit` has saved"
        raise InputError("", "is not a psofed model", right, str(path))
    body, digest = data[:-32], data[-32:]
    if hashlib.sha256(body).digest() != digest:
        found = "is damaged: its digest does not match"
        raise InputError("", found, "save or fetch it again", str(path))
    try:
        return _parse(body[len(MAGIC) :])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        found = f"has a header that makes no sense ({type(error).__name__})"
        raise InputError("", found, "save it again with this version", str(path)) from None


def _parse(body: bytes) -> Model:
    length = int.from_bytes(body[:8], "little")
    header, raw = json.loads(body[8 : 8 + length]), body[8 + length :]
    arrays, place = {}, 0
    for name, shape in header["arrays"].items():
        size = 4 * prod(int(s) for s in shape)
        arrays[name] = np.frombuffer(raw[place : place + size], "<f4").reshape(shape)
        place += size
    model = Model(
        recipes.parse(header["recipe"]), Waves(arrays["W"], arrays["b"]), arrays["w"],
        tuple(header["clients"]), arrays.get("own"), str(header["title"]),
        int(header["label_delay"]),
    )  # fmt: skip
    _check(model)
    return model


def _check(model: Model) -> None:
    """Refuse arrays that do not fit each other."""
    dim, taps = model.features.W.shape
    encoder = model.recipe.encoder
    fits = model.w.shape == (dim,) == model.features.b.shape and taps == encoder.taps
    if model.own is not None:
        fits = fits and model.own.shape == (len(model.clients), dim)
    arrays = (model.w, model.features.W, model.features.b)
    if not fits or not all(np.isfinite(a).all() for a in arrays):
        raise ValueError("arrays do not fit")


@dataclass(frozen=True)
class Prediction:
    """One row of the answer; the target where the table has it."""

    client: str
    time: float
    value: float
    target: float


def predict(model: Model, source: Any, own: bool = False) -> tuple[Iterator[Prediction], Rounds]:
    """The model's estimates for the rows of a table, in time order; nothing is learned.

    With `own`, clients that the model knows get their own model's estimate.
    """
    labelled = bool(model.recipe.columns.target_lags)
    rounds = model.recipe.rounds(source, labelled)
    return _rows(model, rounds, own), rounds


def _rows(model: Model, rounds: Rounds, own: bool) -> Iterator[Prediction]:
    table, encoder = rounds.table, model.recipe.encoder
    models = np.tile(model.w, (len(table.clients), 1))
    if own and model.own is not None:
        for k, name in enumerate(table.clients):
            if name in model.clients:
                models[k] = model.own[model.clients.index(name)]
    for block in rounds.blocks():
        guesses = encoder.restore(np.vecdot(model.features(block.x), models))
        targets = encoder.restore(block.y.astype(np.float64))
        for i, k in zip(*np.nonzero(block.has), strict=True):
            yield Prediction(
                table.clients[k],
                float(block.time[i, k]),
                float(guesses[i, k]),
                float(targets[i, k]),
            )

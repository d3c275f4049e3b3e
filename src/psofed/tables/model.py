"""A saved model: one small record of float32 arrays, and its predictions for the rows of a table.

It is about the recipe: columns, scaling, tick and categories, all that is needed to turn a row of a
table into the inputs of the model. Loading it runs no code, and predicting learns nothing. With an
interval, each prediction has a low and a high end: the radius that the client's errors needed when
the model was judged, which does not change any more.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from psofed.core import conformal
from psofed.core.conformal import LEVELS
from psofed.core.features import LINE, Cosines, WithLine
from psofed.core.native import Array
from psofed.errors import InputError, PsofedWarning, written
from psofed.extras import need
from psofed.federation import schema
from psofed.federation.records import DamagedError, Record, VersionError, pack, unpack
from psofed.streams.data import recipe as recipes
from psofed.streams.data.recipe import Recipe
from psofed.streams.data.rounds import LOUD, Block, Rounds, sampled
from psofed.streams.data.textfile import UNKNOWN, Form

KIND = "model"
LARGEST = 256_000_000
COLUMNS = ("predicted", "low", "high")


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """y = w_k^T z(x), with the recipe from a row to x; z has cosines, then x and 1.

    Each client has its own w_k, which is its whole mix; others get w, the mean of these.
    """

    recipe: Recipe
    features: WithLine
    w: Array
    clients: tuple[str, ...]
    own: Array
    title: str
    label_delay: int
    radius: Array  # [K, levels], in scaled units
    shared: Array  # [D]: the server's model alone, with which another federation may begin

    def predict(self, source: Any, interval: float | None = None, form: Form = UNKNOWN) -> Any:
        """The prediction for each row of a frame or file, in its order; NaN where there is none.

        A pandas frame gives a Series with the same index, a polars frame a Series, all else an
        array; with `interval` (0.9, say) a frame, or three columns: predicted, low and high.
        """
        if self.recipe.columns.wide is not None:
            right = "give one row per client and time, or use psofed predict"
            raise InputError("table", "is wide: its rows have several clients", right)
        parts, rounds = answered(self, source, form, interval)
        values = np.full((rounds.table.rows, 3), np.nan)
        for rows, answers, _ in parts:
            values[rows] = answers
        for line in rounds.notes():
            if line.startswith(LOUD):
                warnings.warn(line.removeprefix(LOUD), PsofedWarning, stacklevel=2)
        return _like(source, values if interval is not None else values[:, :1])

    def rounds(self, source: Any, form: Form = UNKNOWN) -> Rounds:
        """The samples of a table as the model takes them; with labels if their lags are inputs."""
        return sampled(self.recipe, source, bool(self.recipe.columns.target_lags), form=form)

    def save(self, path: str | Path) -> None:
        """Write the file that `psofed.load_model` and `psofed predict` read."""
        with written(path, "give another file"):
            Path(path).write_bytes(self.to_bytes())

    def __repr__(self) -> str:
        """In a line."""
        target, inputs = self.recipe.columns.target, f"{self.recipe.taps} inputs"
        return f"<Model of {target!r}: {self.title}, {inputs}, {len(self.clients)} clients>"

    def to_bytes(self) -> bytes:
        """The file."""
        cosines = self.features.cosines
        arrays = {"W": cosines.W, "b": cosines.b, "w": self.w, "own": self.own,
                  "radius": self.radius, "shared": self.shared}  # fmt: skip
        about = {
            "kind": KIND, "title": self.title, "label_delay": self.label_delay,
            "recipe": self.recipe.to_table(), "clients": list(self.clients),
            "levels": list(LEVELS),
        }  # fmt: skip
        return pack(Record(about, {name: np.asarray(a, "<f4") for name, a in arrays.items()}))


def lagged(
    recipe: Recipe, cosines: Cosines, w: Array, lags: Mapping[int, Array]
) -> tuple[Recipe, Cosines, Array]:
    """Models w [K, D + L + 1] that also weigh older labels: these become inputs of the recipe."""
    known = recipe.columns.target_lags
    more = tuple(lag for lag in lags if lag not in known)
    columns = replace(recipe.columns, target_lags=(*known, *more))
    recipe = replace(recipe, columns=columns)
    wide = Cosines(np.pad(cosines.W, ((0, 0), (0, len(more)))), cosines.b)
    w = np.concatenate([w[:, :-1], np.zeros((len(w), len(more))), w[:, -1:]], axis=1)
    for lag, weight in lags.items():
        w[:, wide.dim + recipe.names.index(f"{columns.target}[-{lag}]")] += weight / LINE
    return recipe, wide, w


def load(path: str | Path) -> Model:
    """The model in a file; a damaged file is an InputError."""
    try:
        if Path(path).stat().st_size > LARGEST:
            raise InputError("", "is too large for a model", "give another file", str(path))
        data = Path(path).read_bytes()
    except OSError as error:
        found = f"cannot be read: {error.strerror}"
        raise InputError("", found, "give a model that `psofed fit` has saved", str(path)) from None
    try:
        return _of(unpack(data))
    except VersionError as error:
        raise error.inside(where=str(path)) from None
    except DamagedError as error:
        found = f"is not a psofed model, or is damaged: {error}"
        right = "give a file that `psofed fit` has saved"
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
            ValueError) as error:  # fmt: skip
        found = f"has a header that makes no sense ({type(error).__name__})"
        right = "save it again with this version"
    raise InputError("", found, right, str(path))


def _of(record: Record) -> Model:
    about, arrays = record.about, record.arrays
    if about.get("kind") != KIND or any(a.dtype != np.float32 for a in arrays.values()):
        raise DamagedError("it is a record of something else")
    model = Model(
        recipes.parse(about["recipe"]), WithLine(Cosines(arrays["W"], arrays["b"])), arrays["w"],
        schema.convert("clients", about["clients"], tuple[str, ...]), arrays["own"],
        schema.convert("title", about["title"], str),
        schema.convert("label_delay", about["label_delay"], int), arrays["radius"],
        arrays["shared"],
    )  # fmt: skip
    if about["levels"] != list(LEVELS):
        raise ValueError("other levels")
    (dim, taps), names = arrays["W"].shape, len(model.clients)
    shapes = {"b": (dim,), "w": (dim + taps + 1,), "own": (names, dim + taps + 1),
              "radius": (names, len(LEVELS)), "shared": (dim,)}  # fmt: skip
    fits = all(arrays[name].shape == shape for name, shape in shapes.items())
    finite = all(np.isfinite(array).all() for array in arrays.values())
    if not (fits and finite and taps == model.recipe.taps and names):
        raise ValueError("arrays do not fit")
    return model


def answered(
    model: Model, source: Any, form: Form = UNKNOWN, interval: float | None = None
) -> tuple[Iterator[tuple[Array, Array, Array]], Rounds]:
    """Parts of a table in time order: numbers of rows, predictions with their ends, targets."""
    rounds = model.rounds(source, form)
    answers = _Answers(model, rounds.table.clients, interval)

    def parts() -> Iterator[tuple[Array, Array, Array]]:
        for block in rounds.blocks():
            here = block.has
            targets = model.recipe.restore(block.y[here].astype(np.float64))
            yield block.row[here], answers(block)[:, here].T, targets

    return parts(), rounds


class _Answers:
    """The model, and the radius, with which each client of a table is answered."""

    def __init__(self, model: Model, clients: list[str], interval: float | None) -> None:
        self.model = model
        known = {name: k for k, name in enumerate(model.clients)}
        places = np.array([known.get(name, -1) for name in clients])
        ours = places >= 0
        self.w, self.radius = np.tile(model.w, (len(clients), 1)), np.full(len(clients), np.nan)
        self.w[ours] = model.own[places[ours]]
        if interval is not None:
            j = conformal.which(interval)
            # Nothing is known of a new client: the largest radius of those that are known.
            self.radius[:] = model.radius[:, j].max()
            self.radius[ours] = model.radius[places[ours], j]

    def __call__(self, block: Block) -> Array:
        """Predictions, low and high ends [3, B, K], in the units of the target."""
        guesses = np.vecdot(self.model.features(block.x), self.w)
        ends = [guesses, guesses - self.radius, guesses + self.radius]
        return self.model.recipe.restore(np.stack(ends))


def _like(source: Any, values: Array) -> Any:
    """In the form of the source."""
    polars = type(source).__module__.startswith("polars")
    if not (polars or hasattr(source, "iloc")):
        return values if values.shape[1] > 1 else values[:, 0]
    names = COLUMNS[: values.shape[1]]
    if hasattr(source, "iloc"):
        frame = need("pandas", "frame", "frames").DataFrame(values, source.index, names)
    else:
        columns = dict(zip(names, values.T, strict=True))
        frame = need("polars", "frame", "frames").DataFrame(columns)
    return frame if len(names) > 1 else frame[names[0]]

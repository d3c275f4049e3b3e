"""A saved model: one small record of float32 arrays. Loading it runs no code.

It is about the recipe: columns, scaling, tick and categories, all that is needed to turn a row of a
table into the inputs of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psofed import records_legacy, schema
from psofed.core.conformal import LEVELS
from psofed.core.features import Waves
from psofed.data import recipe as recipes
from psofed.data.columns import texts
from psofed.data.form import UNKNOWN, Form
from psofed.data.recipe import Recipe
from psofed.errors import InputError
from psofed.fit.answers import Answer as Answer
from psofed.fit.answers import aligned
from psofed.fit.answers import predict as predict
from psofed.records import DamagedError, NewerError, Record, pack, unpack

if TYPE_CHECKING:
    from psofed.fit.outcome import Fit

Array = NDArray[Any]
KIND = "model"
OWN = 1_000_000  # bytes of the clients' own models that are worth saving
LARGEST = 256_000_000


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """y = w^T z(x), with the recipe from a row to x. Clients may have their own models."""

    recipe: Recipe
    features: Waves
    w: Array
    clients: tuple[str, ...]
    own: Array | None
    title: str
    label_delay: int
    radius: Array | None = None  # [K, levels], for the shared model, in scaled units
    own_radius: Array | None = None  # the same for the own models

    def predict(
        self, source: Any, client: str | None = None, interval: float | None = None,
        own: bool = False, form: Form = UNKNOWN,
    ) -> Any:  # fmt: skip
        """The prediction for each row of a frame or file, in its order; NaN where there is none.

        A pandas frame gives a Series with the same index, a polars frame a Series, a file an array;
        with `interval` (0.9, say) a frame with the columns predicted, low and high. `client` names
        the client if the table has no column for it. With `own`, clients that have their own
        models are predicted by them.
        """
        return aligned(self, source, client, interval, own, form)

    def save(self, path: str | Path) -> None:
        """Write the file that `psofed.load_model` and `psofed predict` read."""
        try:
            Path(path).write_bytes(self.to_bytes())
        except OSError as error:
            found = f"cannot be written: {error.strerror}"
            raise InputError("", found, "give another file", str(path)) from None

    def __repr__(self) -> str:
        """In a line."""
        target, whose = self.recipe.columns.target, len(self.clients)
        own = f", own models of {whose} clients" if self.own is not None else ""
        sure = ", with intervals" if self.radius is not None else ""
        inputs = f"{self.recipe.encoder.taps} inputs"
        return f"<Model of {target!r}: {self.title}, {inputs}{own}{sure}>"

    def to_bytes(self) -> bytes:
        """The file."""
        arrays = {"W": self.features.W, "b": self.features.b, "w": self.w}
        more = {"own": self.own, "radius": self.radius, "own_radius": self.own_radius}
        arrays |= {name: array for name, array in more.items() if array is not None}
        about = {
            "kind": KIND, "title": self.title, "label_delay": self.label_delay,
            "recipe": self.recipe.to_table(), "clients": list(self.clients),
        }  # fmt: skip
        if self.radius is not None or self.own_radius is not None:
            about["levels"] = list(LEVELS)
        return pack(Record(about, {name: np.asarray(a, "<f4") for name, a in arrays.items()}))


def of(fit: Fit) -> Model:
    """The model of a fit."""
    own = fit.own if fit.own is not None and fit.own.nbytes <= OWN else None
    learned = fit.scores.intervals
    radii: dict[str, Array] = {}
    if learned is not None and learned.radii.nbytes <= OWN:
        radii = dict(zip(learned.models, learned.radii, strict=True))
    for model, gone in (("own", own is None), ("global", fit.averaged)):
        if gone:
            radii.pop(model, None)
    names = tuple(fit.scores.clients) if own is not None or radii else ()
    title, delay = fit.plan.methods[0].title(), fit.plan.label_delay
    return Model(fit.recipe, fit.features, fit.shared, names, own, title, delay,
                 radii.get("global"), radii.get("own"))  # fmt: skip


def load(path: str | Path) -> Model:
    """The model in a file; a damaged file is an InputError."""
    try:
        if Path(path).stat().st_size > LARGEST:
            raise InputError("", "is too large for a model", "give another file", str(path))
        data = Path(path).read_bytes()
    except OSError as error:
        found = f"cannot be read: {error.strerror}"
        raise InputError("", found, "give a model that `psofed fit` has saved", str(path)) from None
    old = data.startswith(records_legacy.MODEL)
    try:
        return _of((records_legacy.model if old else unpack)(data))
    except NewerError as error:
        raise error.inside(where=str(path)) from None
    except DamagedError as error:
        found = f"is not a psofed model, or is damaged: {error}"
        right = "give a file that `psofed fit` has saved"
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        found = f"has a header that makes no sense ({type(error).__name__})"
        right = "save it again with this version"
    raise InputError("", found, right, str(path))


def _of(record: Record) -> Model:
    about, arrays = record.about, record.arrays
    if about.get("kind") != KIND or any(a.dtype != np.float32 for a in arrays.values()):
        raise DamagedError("it is a record of something else")
    model = Model(
        recipes.parse(about["recipe"]), Waves(arrays["W"], arrays["b"]), arrays["w"],
        texts("clients", about["clients"]), arrays.get("own"),
        schema.convert("title", about["title"], str),
        schema.convert("label_delay", about["label_delay"], int),
        arrays.get("radius"), arrays.get("own_radius"),
    )  # fmt: skip
    if {"radius", "own_radius"} & arrays.keys() and about["levels"] != list(LEVELS):
        raise ValueError("other levels")
    _check(model)
    return model


def _check(model: Model) -> None:
    """Refuse arrays that do not fit each other."""
    dim, taps = model.features.W.shape
    encoder = model.recipe.encoder
    fits = model.w.shape == (dim,) == model.features.b.shape and taps == encoder.taps
    if model.own is not None:
        fits = fits and model.own.shape == (len(model.clients), dim)
    arrays = [model.w, model.features.W, model.features.b]
    for radii in (model.radius, model.own_radius):
        if radii is not None:
            fits = fits and radii.shape == (len(model.clients), len(LEVELS)) and len(radii) > 0
            arrays.append(radii)
    if not fits or not all(np.isfinite(a).all() for a in arrays):
        raise ValueError("arrays do not fit")

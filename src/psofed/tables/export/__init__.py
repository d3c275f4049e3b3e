"""A trained model for other programs: from a file or a state folder to ONNX, a C header, JSON."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from psofed.core.features import LINE, Cosines, FeatureMap, Whitened
from psofed.core.native import Array
from psofed.errors import InputError, nearest
from psofed.federation.schema import inside
from psofed.fleet.protocol import deployment as plans
from psofed.fleet.protocol import store
from psofed.fleet.protocol.client import Client
from psofed.fleet.protocol.deployment import Deployment
from psofed.fleet.protocol.server import Server
from psofed.streams import table
from psofed.streams.contract import about
from psofed.streams.data.columns import Missing
from psofed.streams.data.recipe import Recipe
from psofed.tables import model as models
from psofed.tables.export import portable
from psofed.tables.export.portable import Portable

FORMATS = {"onnx": "onnx_graph", "c": "c_header", "json": "portable"}
SUFFIXES = {"onnx": ".onnx", "c": ".h", "json": ".json"}
SERVER = "server"
CLOSE = 1e-5  # W and b in float32, as files have them, differ from ours by less


def load(
    path: str | Path, client: str | None = None, plan: str | Path | None = None, command: str = ""
) -> Portable:
    """The model in a file or a state folder; a client's own one, if `client` names it.

    A state folder has the file of its run next to the numbers; `plan` may name another.
    """
    path = Path(path)
    if not path.is_dir():
        if plan is not None:
            right = "leave --plan out: the file of a fit has all that is needed"
            raise InputError("--plan", "is given, but MODEL is not a state folder", right)
        made = _fitted(path, client)
    else:
        made = _deployed(path, client, plans.kept(path, None if plan is None else Path(plan)))
    portable.check(made, str(path))
    return replace(made, command=command)


def unfolded(features: FeatureMap, w: Array) -> tuple[FeatureMap, Array]:
    """A model c in a basis as one of the features themselves: c^T (T^T z) = (T c)^T z."""
    if not isinstance(features, Whitened):
        return features, w
    return features.base, features.T.astype(np.float64) @ w


def _fitted(path: Path, client: str | None) -> Portable:
    model = models.load(path)
    w, whose = model.w, "mean of all clients"
    if client is not None:
        w, whose = model.own[_position(client, model.clients, str(path))], f"model of {client}"
    whose, cosines = f"{model.title}, {whose}", model.features.cosines
    line = LINE * w[cosines.dim :]
    return with_recipe(model.recipe, whose, cosines, w[: cosines.dim], line, model.label_delay)


def _position(client: str, names: tuple[str, ...], where: str) -> int:
    if client not in names:
        raise InputError("--client", f"is {client!r}", nearest(client, list(names)), where)
    return names.index(client)


def with_recipe(
    recipe: Recipe, whose: str, features: Cosines, w: Array, line: Array, label_delay: int
) -> Portable:
    """A model of the inputs that a recipe makes of a table."""
    missing = Missing(recipe.columns.markers)
    centre, scale = float(recipe.centre[-1]), float(recipe.scale[-1])
    return Portable(
        whose, portable.entries(recipe), features.astype(np.float32), w.astype(np.float32),
        line.astype(np.float32), recipe.columns.target, centre, scale, label_delay, recipe.tick,
        recipe.ticks.known_unit, tuple(sorted(missing.texts)), tuple(missing.values),
    )  # fmt: skip


def _number(role: str, where: str) -> int:
    """Whose state it is."""
    kind, _, k = role.partition(" ")
    if kind != "client" or not (k.isascii() and k.isdecimal() and len(k) < 10):
        right = "give the state folder of a server or a client"
        raise InputError("", f"holds the state of {role!r}", right, where)
    return int(k)


def _deployed(path: Path, client: str | None, plan: Deployment) -> Portable:
    """Read while a process may run: records are replaced in one step."""
    record = store.newest(store.reader(path), str(path))[0]
    if record is None:
        right = "give a file that `psofed fit` has saved, or a state folder"
        raise InputError("", "is a folder without a model", right, str(path))
    role = str(record.about.get("role"))
    store.check_owner(record.about, plan.about(role), str(path))
    stream, method = plan.experiment.stream, plan.method()
    names = about(stream).clients_named() or tuple(map(str, range(plan.experiment.clients)))
    if role == SERVER:
        if client is not None:
            _position(client, names, str(path))
            right = "leave --client out, or give the state folder of that client"
            raise InputError("", "is of a server, which has no client's own model", right,
                             str(path))  # fmt: skip
        server = Server(method, plan.deploy.bound, plan.bind)
        with inside(where=str(path)):
            server.restore(record.arrays)
        rounds, w, whose = server.n, server.model, f"shared model after {server.n} rounds"
    else:
        k = _number(role, str(path))
        name = names[k] if k < len(names) else str(k)  # who has joined later has no other name
        if client not in (None, name):
            found = f"is {client!r}, but the state is of {name!r}"
            raise InputError("--client", found, "give the folder of that client", str(path))
        one = Client(method, k, bound=plan.deploy.bound)
        with inside(where=str(path)):
            one.restore(record.arrays)
        own = one.model
        if own is None:
            raise InputError("", "is of a client without a model", "give the server's", str(path))
        rounds, w, whose = one.position + one.last_round + 1, own, f"own model of {name}"
    if not rounds:
        raise InputError("", "has learned nothing yet", "wait for the first round", str(path))
    mix = None if role == SERVER else one.mix
    features, w = unfolded(method.task.features, w)
    learner = method.task.learner
    if not (learner.linear and learner.featured):
        found = f"has the learner {plan.world.learner.name}, which cannot be exported"
        raise InputError("", found, "export LMS on random features, normalised or not", str(path))
    if not isinstance(features, Cosines):
        found = f"has {plan.world.features.title} features, which cannot be exported"
        raise InputError("", found, "use cosine or exponential ones", str(path))
    whose = f"{plan.experiment.methods[plan.deploy.method or 0].title()}, {whose}"
    line: Array = np.zeros(stream.taps + 1, np.float32)
    if isinstance(stream, table.Options):
        recipe = stream.recipe
        if mix is not None and w.shape == (features.dim,):
            vector, lags = mix.collapsed(one.state, w, max(stream.label_delay, 1))
            recipe, features, vectors = models.lagged(recipe, features, vector, lags)
            w, line = vectors[0, : features.dim], LINE * vectors[0, features.dim :]
        return with_recipe(recipe, whose, features, w, line, stream.label_delay)
    single = features.astype(np.float32)
    entries = portable.plain_entries(stream.taps)
    with np.errstate(over="ignore"):  # what does not fit is refused as not finite
        return Portable(whose, entries, single, w.astype(np.float32), line, "y", 0.0, 1.0)


def weights(plan: Deployment, path: Path) -> Array:
    """w of a model with the same features, as the first one of a server; else what differs."""
    features: Any = plan.method().task.features
    if not isinstance(features, Cosines):
        found = "needs features of cosines as they were drawn, without a basis"
        raise InputError("deploy.origin", found, "leave it out")
    saved = None if path.is_dir() else models.load(path)
    model = load(path)
    W, b = model.features.W, model.features.b
    taps = features.W.shape[1]
    W = W if W[:, taps:].any() else W[:, :taps]  # labels of a live model are inputs of no cosine
    if W.shape != features.W.shape:
        found = f"has {W.shape[0]} features of {W.shape[1]} inputs"
        right = f"give one of {features.W.shape[0]} of {features.W.shape[1]}, as the file says"
        raise InputError(str(path), found, right)
    if not (np.allclose(W, features.W, 0, CLOSE) and np.allclose(b, features.b, 0, CLOSE)):
        right = "use the seed, the width and the inputs with which that model was learned"
        raise InputError(str(path), "was learned with other features", right)
    return model.w if saved is None else saved.shared


def render(model: Portable, format: str, name: str = "model") -> bytes:
    """The file of a model in a format. In C, identifiers begin with `name`.

    >>> render(None, "xml")
    Traceback (most recent call last):
    psofed.errors.InputError: format is 'xml'; use one of c, json, onnx
    """
    if format not in FORMATS:
        raise InputError("format", f"is {format!r}", nearest(format, list(FORMATS)))
    return import_module(f"psofed.tables.export.{FORMATS[format]}").render(model, name)


def default_name(path: Path, format: str, client: str | None = None) -> Path:
    """The file for a model, in the current folder.

    >>> str(default_name(Path("fit/model.psofed"), "c", "my mill"))
    'model-my_mill.h'
    """
    stem = path.resolve().name.removesuffix(".psofed")
    if client is not None:
        stem += "-" + "".join(c if c.isalnum() or c in "-." else "_" for c in client)
    return Path(stem + SUFFIXES[format])

"""A warm start: the model of another run, of a fit or of an export as the first one of a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.whitening import Whitened
from psofed.errors import InputError
from psofed.export import json_text, origin
from psofed.protocol.deployment import Deployment

Array = NDArray[Any]
CLOSE = 1e-5  # W and b in float32, as files have them, differ from ours by less


def weights(plan: Deployment, path: Path) -> Array:
    """w of a model with the same features, or an InputError that says what differs."""
    features: Any = plan.method().task.features
    if isinstance(features, Whitened) or not hasattr(features, "W"):
        found = "needs features of cosines as they were drawn, without a basis"
        raise InputError("--from", found, "leave it out")
    where, size = str(path), plan.world.dim
    if path.suffix == ".npy":
        return _checked(_array(path), size, where)
    W, b, w = _parts(path)
    if W.shape != features.W.shape:
        found = f"has {W.shape[0]} features of {W.shape[1]} inputs"
        right = f"give one of {features.W.shape[0]} of {features.W.shape[1]}, as the file says"
        raise InputError(where, found, right)
    if not (np.allclose(W, features.W, 0, CLOSE) and np.allclose(b, features.b, 0, CLOSE)):
        right = "use the seed, the width and the inputs with which that model was learned"
        raise InputError(where, "was learned with other features", right)
    return _checked(w, size, where)


def _parts(path: Path) -> tuple[Array, Array, Array]:
    """W, b and w."""
    if path.suffix != ".json":
        model = origin.load(path)
        return model.features.W, model.features.b, model.w
    right = "give a JSON file of `psofed export`"
    try:
        table = json.loads(path.read_bytes())
        W, b, w = (np.array(table[name], np.float64) for name in ("W", "b", "w"))
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}", right) from None
    except (ValueError, TypeError, KeyError):
        raise InputError(str(path), "is no exported model", right) from None
    if table.get("format") != json_text.FORMAT or W.ndim != 2:
        raise InputError(str(path), "is no exported model", right)
    return W, b, w


def _array(path: Path) -> Array:
    right = "give model.npy of a server's state folder, or the folder itself"
    try:
        return np.load(path, allow_pickle=False).astype(np.float64)
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}", right) from None
    except (ValueError, EOFError):
        raise InputError(str(path), "is no array of numbers", right) from None


def _checked(w: Array, size: int, where: str) -> Array:
    if w.shape != (size,) or not np.isfinite(w).all():
        found = f"has numbers of shape {w.shape}" if w.shape != (size,) else "is not finite"
        raise InputError(where, found, f"give a finite model of {size} entries")
    return w

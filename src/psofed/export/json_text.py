"""A model as JSON: every number that a prediction needs, and what it means (docs/export.md)."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.data.encoder import FARTHEST
from psofed.export.portable import SCALED, InputEntry, Portable

FORMAT = "psofed-model-1"


def render(model: Portable, name: str = "model") -> bytes:
    """The file. W has a line for each feature."""
    table: dict[str, Any] = {
        "format": FORMAT, "made_by": model.made, "model": model.whose,
        "target": {"column": model.target, "centre": model.centre, "scale": model.scale},
        "label_delay": model.label_delay, "tick": model.tick, "seconds": model.seconds,
        "clip": FARTHEST, "missing_texts": list(model.absent),
        "missing_numbers": list(model.markers),
        "inputs": [entry(one) for one in model.entries],
        "D": model.features.dim, "L": len(model.entries),
        "w": short(model.w), "b": short(model.features.b),
    }  # fmt: skip
    lines = [f"  {json.dumps(key)}: {_show(value)}" for key, value in table.items()]
    rows = ",\n".join("    " + json.dumps(row) for row in short(model.features.W))
    return ("{\n" + ",\n".join([*lines, f'  "W": [\n{rows}\n  ]']) + "\n}\n").encode()


def _show(value: Any) -> str:
    """Lists of inputs have a line for each."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join("    " + json.dumps(entry) for entry in value) + "\n  ]"
    return json.dumps(value, allow_nan=False)


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

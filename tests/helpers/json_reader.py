"""Predictions from an exported JSON file alone, as docs/tables.md has it."""

from __future__ import annotations

from typing import Any

import numpy as np


def predict(m: dict[str, Any], numbers: dict[str, float], texts: dict[str, str]) -> float:
    """The whole of a reader of the format: one row, held values and lags by name."""
    x = []
    for e in m["inputs"]:
        value = numbers.get(e["name"] if e["kind"] != "missing" else e["column"], np.nan)
        value = np.nan if value in m["missing_numbers"] else value
        blank = 0.0 if e.get("rule") == "indicator" else np.nan
        if "centre" in e:
            scaled = np.clip((value - e["centre"]) / e["scale"], -e["clip"], e["clip"])
            value = blank if np.isnan(value) else scaled
        elif e["kind"] == "missing":
            value = float(np.isnan(value))
        elif e["kind"] == "category":
            text = texts[e["column"]]
            value = blank if text in m["missing_texts"] else float(text == e["text"])
        x.append(value)
    z = np.sqrt(2 / m["D"]) * np.cos(np.array(m["W"]) @ x + m["b"])
    curve, line = z @ m["w"], np.append(x, 1.0) @ m["line"]
    return m["target"]["centre"] + m["target"]["scale"] * (curve + line)

"""The result of a fit as rows of plain values: by method, by client, by level of the intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from psofed.core.conformal import LEVELS

if TYPE_CHECKING:
    from psofed.fit.intervals import Intervals
    from psofed.fit.outcome import Fit

MARGIN = 0.02  # relative: less is called the same
SHOWN = 0.9  # the level of the intervals in tables of one line


def score_rows(fit: Fit) -> list[dict[str, Any]]:
    """One entry per contender: errors over the target's variance and in its units, and bytes."""
    scores, unit = fit.scores, float(fit.encoder.scale[-1])
    rows: list[dict[str, Any]] = []
    for j, score in enumerate(scores.scores):
        rows.append({
            "method": score.title,
            "prequential": scores.error(j, "prequential"),
            "frozen": scores.error(j, "frozen"),
            "prequential_rmse": scores.rmse(j, "prequential") * unit,
            "prequential_mae": scores.mae(j, "prequential") * unit,
            "frozen_rmse": scores.rmse(j, "frozen") * unit,
            "frozen_mae": scores.mae(j, "frozen") * unit,
            "prequential_own": scores.error(j, "prequential", "own"),
            "frozen_own": scores.error(j, "frozen", "own"),
            **_promise(scores.intervals if j == 0 else None, unit),
            "up_bytes": score.up, "down_bytes": score.down, "largest_message": score.largest,
            "bytes_per_device_and_day": scores.per_day(j), "setup_bytes_per_device": score.setup,
        })  # fmt: skip
    return rows


def _promise(learned: Intervals | None, unit: float) -> dict[str, float]:
    """Coverage and width in the last part; the width that is best in hindsight, if constant."""
    keys = ("coverage_90", "width_90", "constant_width_90")
    if learned is None:
        return dict.fromkeys(keys, float("nan"))
    values = (
        learned.together(learned.coverage("last", "global", SHOWN)),
        learned.together(learned.width("last", "global", SHOWN)) * unit,
        learned.together(learned.constant("global", SHOWN)) * unit,
    )
    return dict(zip(keys, values, strict=True))


def client_rows(fit: Fit) -> list[dict[str, Any]]:
    """One entry per client: frozen errors of the shared, its own and a model learned alone."""
    scores = fit.scores
    alone = next((j for j, options in enumerate(fit.settings) if options.alone), None)
    columns = {
        "shared": scores.by_client(0, "frozen", "global"),
        "own": scores.by_client(0, "frozen", "own"),
        "alone": np.full(len(scores.clients), np.nan) if alone is None
        else scores.by_client(alone, "frozen", "own"),
    }  # fmt: skip
    sure = _promises(fit)
    rows = []
    for k, name in enumerate(scores.clients):
        errors = {key: float(values[k]) for key, values in columns.items()}
        count = int(scores.truths["frozen"].count[k])
        more = {key: float(values[k]) for key, values in sure.items()}
        rows.append({"client": name, "samples": count, **errors, "sharing": verdict(errors)} | more)
    return rows


def _promises(fit: Fit) -> dict[str, Any]:
    """Coverage and mean width of each client in the last part, shared and own model."""
    learned, unit = fit.scores.intervals, float(fit.encoder.scale[-1])
    found: dict[str, Any] = {}
    for model in learned.models if learned is not None else ():
        assert learned is not None
        name = "" if model == "global" else "own_"
        found[f"{name}coverage_90"] = learned.coverage("last", model, SHOWN)
        found[f"{name}width_90"] = learned.width("last", model, SHOWN) * unit
    return found


def verdict(errors: dict[str, float]) -> str:
    """Whether the better of shared and own model beats a model that was learned alone."""
    known = [e for e in (errors["shared"], errors["own"]) if np.isfinite(e)]
    if not known or not np.isfinite(errors["alone"]):
        return "unknown"
    best, alone = min(known), errors["alone"]
    if abs(best - alone) <= MARGIN * alone:
        return "same"
    return "gains" if best < alone else "loses"


def interval_table(fit: Fit) -> dict[str, Any]:
    """What was promised and what was kept, by model and level; widths in the target's units."""
    learned, unit = fit.scores.intervals, float(fit.encoder.scale[-1])
    if learned is None:
        return {}
    table: dict[str, Any] = {"method": fit.scores.scores[0].title, "parts": list(learned.parts)}
    for m, model in enumerate(learned.models):
        entries = []
        for j, level in enumerate(LEVELS):
            hits, widths = learned.curve[:, :, m, j]
            count = np.maximum(fit.scores.counts, 1)
            entries.append({
                "level": level,
                "constant_width": learned.together(learned.constant(model, level)) * unit,
                "by_part": [_part(learned, part, model, level, unit) for part in learned.parts],
                "over_time": {
                    "round": fit.scores.marks.tolist(), "coverage": (hits / count).tolist(),
                    "width": (widths / count * unit).tolist(),
                },
            })  # fmt: skip
        table["shared" if model == "global" else model] = entries
    return table


def _part(learned: Intervals, part: str, model: str, level: float, unit: float) -> dict[str, Any]:
    """One part of the rounds: all clients together, and those that differ most."""
    coverage, width = (f(part, model, level) for f in (learned.coverage, learned.width))
    known = coverage[~np.isnan(coverage)]
    return {
        "part": part,
        "coverage": learned.together(coverage, part),
        "lowest_client": float(known.min()) if len(known) else float("nan"),
        "highest_client": float(known.max()) if len(known) else float("nan"),
        "width": learned.together(width, part) * unit,
        "by_client": coverage.tolist(),
    }


def interval_line(fit: Fit) -> str:
    """One line about the intervals of the first method; empty if there is nothing to say."""
    learned, unit = fit.scores.intervals, float(fit.encoder.scale[-1])
    if learned is None or not learned.count[learned.parts.index("last")].any():
        return ""
    last = _part(learned, "last", "global", SHOWN, unit)
    seasons = [_part(learned, part, "global", SHOWN, unit) for part in learned.parts[2:]]
    known = [part for part in seasons if part["coverage"] == part["coverage"]]
    low, high = min(p["lowest_client"] for p in known), max(p["highest_client"] for p in known)
    best = learned.together(learned.constant("global", SHOWN)) * unit
    what = "in each season" if learned.parts[2] == "Dec-Feb" else "in each of its quarters"
    return (
        f"intervals of {SHOWN:g}, last part: {last['coverage']:.3f} of the labels are inside"
        f" ({last['lowest_client']:.3f} to {last['highest_client']:.3f} by client, {low:.3f} to"
        f" {high:.3f} {what}), mean width {last['width']:.4g} (best constant {best:.4g})"
    )

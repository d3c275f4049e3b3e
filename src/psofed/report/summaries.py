"""The table of a result: MSE over the rounds, difference to Online-Fed, share of its traffic."""

from __future__ import annotations

from typing import Any

from psofed.curves import Curves, Estimate

FLOORS = {"ridge": "ridge regression on 200 D samples", "noise": "noise variance"}


def summary(curves: Curves) -> list[dict[str, Any]]:
    """One entry per method: its MSE in dB at each point, and how it compares with the base."""
    base = baseline(curves)
    return [_entry(curves, j, base) for j in range(len(curves.titles))]


def baseline(curves: Curves) -> int | None:
    """What the others are compared with: Online-Fed if it is there, else the first of many."""
    methods = curves.experiment.methods
    found = (j for j, o in enumerate(methods) if o.role == "reference" and o.policy is None)
    return next(found, 0 if len(methods) > 1 else None)


def _entry(curves: Curves, j: int, base: int | None) -> dict[str, Any]:
    points = {name: _pair(curves.point(j, name)) for name in curves.point_names}
    entry: dict[str, Any] = {"method": curves.titles[j], "mse_db": points}
    entry["bytes_per_round"] = {
        "up": float(curves.uplink[j].sum() / curves.rounds[-1]),
        "down": float(curves.downlink[j].sum() / curves.rounds[-1]),
        "multicast_down": float(curves.multicast[j].sum() / curves.rounds[-1]),
    }
    if base is not None:
        entry["difference_db"] = {
            name: _pair(curves.difference(j, base, name)) for name in curves.point_names
        }
        if curves.cumulative[base, -1] > 0:
            entry["traffic_share"] = curves.traffic_share(j, base)
    return entry


def _pair(estimate: Estimate) -> dict[str, float | None]:
    """A value with its standard error; one run has none."""
    known = abs(estimate.stderr) < float("inf")
    return {"value": estimate.value, "stderr": estimate.stderr if known else None}


def text(curves: Curves) -> str:
    """The table as aligned text."""
    entries, base = summary(curves), baseline(curves)
    head = ["test MSE in dB", *(f"n={p}" if p.isdigit() else p for p in curves.point_names)]
    if base is not None:
        head += [f"steady - {curves.titles[base]}", "traffic"]
    rows = [head]
    for entry in entries:
        row = [entry["method"], *(_show(p["value"]) for p in entry["mse_db"].values())]
        row[-1] += _plus_minus(entry["mse_db"]["steady"])
        if base is not None:
            steady = entry["difference_db"]["steady"]
            row.append(_show(steady["value"], "+") + _plus_minus(steady))
            share = entry.get("traffic_share")
            row.append("-" if share is None else f"{100 * share:.4g} %")
        rows.append(row)
    return align(rows)


def _show(value: float, sign: str = "") -> str:
    return format(value, sign + ".2f") if abs(value) < float("inf") else "diverged"


def _plus_minus(pair: dict[str, float | None]) -> str:
    return "" if pair["stderr"] is None else f" ±{pair['stderr']:.2f}"


def align(rows: list[list[str]], left: tuple[int, ...] = (0,)) -> str:
    """Columns padded to equal width: some to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        padded = enumerate(zip(row, widths, strict=True))
        cells = [c.ljust(width) if i in left else c.rjust(width) for i, (c, width) in padded]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)

"""The tables of a comparison as Markdown, from the folder that `psofed compare` has written.

python docs/_tools/comparison_tables.py results/compare
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

LIKELY = 1.96
TITLES = {"error": "Lowest error", "bytes": "Fewest bytes to {:g} dB"}


def tables(folder: Path) -> str:
    """Both tables, each with the methods that were tuned for it, the best first."""
    found = json.loads((folder / "comparison.json").read_text())
    parts = [f"`{found['command']}`, {found['runs']} runs."]
    for aim, title in TITLES.items():
        rows = [row for row in found["methods"] if aim in row["tables"]]
        rows.sort(key=(lambda row: _end(row)) if aim == "error" else _bytes)
        head = [
            "method",
            "step",
            "traffic",
            "last fifth, dB",
            f"kB to {found['target_db']:g} dB",
            "at n",
        ]
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows]
        parts.append(f"**{title.format(found['target_db'])}**\n\n" + "\n".join(lines))
    out = [f"{each['method']} ({each['why']})" for each in found["left_out"]]
    parts += [f"Left out: {'; '.join(out)}."] if out else []
    return "\n\n".join(parts) + "\n"


def _end(row: dict[str, Any]) -> float:
    value = row["steady_db"]["value"]
    return float("inf") if value is None else float(value)


def _bytes(row: dict[str, Any]) -> tuple[float, float]:
    value = row["bytes_to_target"]["bytes"]
    return float("inf") if value is None else float(value), _end(row)


def _cells(row: dict[str, Any]) -> list[str]:
    control, end = " (control)" if row["control"] else "", " \\*" * bool(row["at_the_end"])
    step = "-" if row["step"] is None else f"{row['step']:.3g}"
    reached = row["bytes_to_target"]
    kb = "-"
    if reached["bytes"] is not None:
        high = "never" if reached["high"] is None else _kb(reached["high"])
        kb = f"{_kb(reached['bytes'])} ({_kb(reached['low'])}-{high})"
    at = "-" if reached["round"] is None else f"{reached['round']:,}"
    share = f"{100 * row['traffic_share']:.3g} %"
    return [row["method"] + control + end, step, share, _interval(row["steady_db"]), kb, at]


def _interval(steady: dict[str, Any]) -> str:
    if steady["value"] is None:
        return "diverged"
    half = LIKELY * steady["stderr"]
    return f"{steady['value']:.2f} ({steady['value'] - half:.2f} to {steady['value'] + half:.2f})"


def _kb(value: float) -> str:
    return f"{value / 1000:,.0f}" if value >= 1e6 else f"{value / 1000:.3g}"


if __name__ == "__main__":
    print("\n".join(tables(Path(name)) for name in sys.argv[1:]), end="")

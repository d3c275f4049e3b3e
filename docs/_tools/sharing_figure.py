"""The picture of partial sharing: which entries travel, round by round, as an SVG.

python docs/_tools/sharing_figure.py docs/partial_sharing.svg
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from psofed.core.schedule import Rotating
from psofed.core.seeds import Seeds, subsets

CLIENTS, DIM, COHORT, ROUNDS = 4, 8, 2, 2
FIRST = np.array([0, 3])  # of the first client: scattered, as by default
CELL, GAP, LEFT, TOP = 18, 18, 84, 66
WIDTH, HEIGHT = LEFT + ROUNDS * (DIM * CELL + GAP), 394  # as wide as a phone, so it is not shrunk
DOWN, UP, PLAIN, INK, SOFT = "#2b6cb0", "#dd6b20", "#e2e8f0", "#1a202c", "#718096"
STYLE = f"""text {{ font: 13px system-ui, sans-serif; fill: {INK} }}
.small {{ font-size: 11.5px; fill: {SOFT} }} .head {{ font-weight: 600 }}
.end {{ text-anchor: end }} .cell {{ stroke: #fff; stroke-width: 1.5 }}"""


def svg() -> str:
    """The whole picture; windows and cohorts come from the functions that the simulator uses."""
    schedule = Rotating((np.arange(CLIENTS)[:, None] * 2 + FIRST) % DIM, shift=1, dim=DIM)
    cohorts = subsets(Seeds(4).uniforms("cohort", round=np.arange(ROUNDS), count=COHORT), CLIENTS)
    rounds = [_round(n, schedule, sorted(cohorts[n].tolist())) for n in range(ROUNDS)]
    parts = [_labels(), *rounds, _legend()]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" viewBox="0 0 {WIDTH} {HEIGHT}">'
    )
    paper = f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#fff"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", paper, *parts, "</svg>", ""])


def _y(row: int) -> int:
    """The top of the server's row (0) or of a client's (1, 2, ...)."""
    return TOP if row == 0 else TOP + 16 + 42 * row


def _labels() -> str:
    rows = ["server", *(f"client {k}" for k in range(CLIENTS))]
    return "\n".join(_text(LEFT - 12, _y(i) + 13, row, "end") for i, row in enumerate(rows))


def _text(x: float, y: float, words: str, style: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{style}">{words}</text>'


def _round(n: int, schedule: Rotating, cohort: list[int]) -> str:
    x = LEFT + n * (DIM * CELL + GAP)
    down = {k: set(schedule.entries(np.array([k]), n)[0].tolist()) for k in cohort}
    up = {k: set(schedule.entries(np.array([k]), n + 1)[0].tolist()) for k in cohort}
    parts = [_text(x, 28, f"round {n}", "head")]
    parts.append(_text(x, 46, f"selected: {' and '.join(map(str, cohort))}", "small"))
    parts.append(_bar(x, 0, set().union(*down.values()), set().union(*up.values())))
    for k in range(CLIENTS):
        parts.append(_bar(x, k + 1, down.get(k, set()), up.get(k, set())))
        words = "receives, learns, sends" if k in cohort else "learns alone"
        parts.append(_text(x, _y(k + 1) + CELL + 13, words, "small"))
    return "\n".join(parts)


def _bar(x: int, row: int, down: set[int], up: set[int]) -> str:
    """The D entries of a model; those that travel down are blue, up orange, both are halved."""
    cells = []
    for i in range(DIM):
        colours = [c for c, window in ((DOWN, down), (UP, up)) if i in window] or [PLAIN]
        for j, colour in enumerate(colours):
            height = CELL / len(colours)
            cells.append(
                f'<rect x="{x + i * CELL}" y="{_y(row) + j * height:g}" width="{CELL}"'
                f' height="{height:g}" fill="{colour}" class="cell"/>'
            )
    return "\n".join(cells)


def _legend() -> str:
    parts = []
    for i, (colour, words) in enumerate((
        (DOWN, "goes down: overwritten at the client"),
        (UP, "goes up: averaged at the server"),
        (PLAIN, "stays where it is"),
    )):  # fmt: skip
        y = HEIGHT - 74 + 24 * i
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{CELL}" height="{CELL}" fill="{colour}"/>')
        parts.append(_text(LEFT + CELL + 7, y + 13, words))
    return "\n".join(parts)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(svg(), encoding="utf-8")

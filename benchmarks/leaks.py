"""Which samples follow from uploads: what is determined, and what our search finds.

    python benchmarks/leaks.py [--json FILE] [--figure FILE] [--trials 20] [--only grid,...]
    python benchmarks/leaks.py --read FILE... [--figure FILE]

A trial plants T samples of each of c clients in M of D = 200 entries of a model that was known
before (cosine features of width 2, L inputs of deviation 1), rounds what is sent as the wire does,
and gives the rest to psofed.privacy. Shares are of samples:

- determined: noise and guess leave each input a deviation below 0.05 (Cramer and Rao at the truth,
  which needs no search). Another solution may exist far away;
- found: from scratch, all inputs within 0.05 of the truth, with at most STARTS x BATCHES starts.
  Not searched (-): more than MOST unknowns for an equation, or more than TERMS terms;
- sure: found, and the attacker can tell. `wrong`: the attacker was sure, and wrong.

contacts, memo: see leaks_followed.py. One core; seconds are CPU time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import leaks_followed
import numpy as np

from psofed.core.features import cosine
from psofed.core.seeds import Seeds
from psofed.privacy.inversion import (
    READ,
    Guess,
    InverseProblem,
    apart,
    delayed,
    invert,
    pose,
    spread,
)
from psofed.stages.mask import added, words
from psofed.stages.privacy import Privacy

SEED, DIM, WIDTH = 20, 200, 2.0
SIZE, ERROR = 0.3, 0.6  # deviations of the entries of a model, and of a = mu e
STARTS, BATCHES = 48, 4
MOST, TERMS = 1.3, 10
GRID = (5, 10, 20, 40, 80, 200), (1, 2, 3, 4, 6, 8, 10, 14, 18, 25, 40)


@dataclass(frozen=True)
class Cell:
    """One setting: M, T, L, clients in the sum, the wire, and whether inputs are a delay line."""

    shared: int
    terms: int
    taps: int = 4
    clients: int = 1
    wire: str = "float32"
    line: bool = False

    @property
    def layout(self) -> Any:
        """Which inputs are the same unknown."""
        one = (delayed if self.line else apart)(self.terms, self.taps)
        offsets = np.arange(self.clients) * (one.max() + 1)  # each client has inputs of its own
        return np.vstack([one + first for first in offsets])

    @property
    def unknowns(self) -> int:
        return int(self.layout.max()) + 1 + len(self.layout)

    @property
    def searched(self) -> bool:
        return self.unknowns <= MOST * self.shared and self.terms * self.clients <= TERMS


def planted(cell: Cell, trial: int) -> tuple[InverseProblem, Any, Any]:
    """A problem and its solution u, a."""
    seeds = Seeds(SEED, trial)
    luck, layout = seeds.generator("planted"), cell.layout
    features = cosine(seeds, DIM, cell.taps, WIDTH)
    u, a = luck.standard_normal(int(layout.max()) + 1), ERROR * luck.standard_normal(len(layout))
    entries = luck.permutation(DIM)[: cell.shared]
    before = SIZE * luck.standard_normal(cell.shared)
    parts = a[:, None] * features(u[layout])[:, entries]
    if cell.wire == "masked":  # a sum of whole numbers; all clients began at the same model
        privacy, own = Privacy(masks=True), parts.reshape(cell.clients, cell.terms, -1).sum(axis=1)
        scale = privacy.scale(cell.clients)
        total = added(words(before + own, scale, privacy.range)).astype(np.int32) / scale
        change, noise = total - cell.clients * before, np.sqrt(cell.clients / 12) / scale
    else:
        before = before.astype(cell.wire).astype(np.float64)
        after = (before + parts.sum(axis=0)).astype(cell.wire).astype(np.float64)
        change, noise = after - before, np.finfo(cell.wire).eps * np.abs(after) / 3 + 1e-16
    return pose(features, entries, change, layout, Guess(a=ERROR), noise), u, a


def near(x: Any, truth: Any) -> Any:
    """Which true samples [T] are among those found, and which found ones are true."""
    close = np.abs(x[:, None] - truth).max(axis=-1) <= READ
    return close.any(axis=0), close.any(axis=1)


def run(cell: Cell, trials: int) -> dict[str, Any]:
    """Shares over all trials."""
    rows, begin = [], time.process_time()
    longest = 0.0
    for i in range(trials):
        problem, u, a = planted(cell, i)
        row = [float((spread(problem, u, a) <= READ).mean())]
        if cell.searched:
            start = time.process_time()
            found = invert(problem, Seeds(SEED, i).generator("luck"), STARTS, BATCHES)
            read, true = near(found.x, u[problem.layout])
            sure = found.certain
            row += [float(read.mean()), float((sure & true).mean()), float((sure & ~true).mean())]
            longest = max(longest, time.process_time() - start)
        rows.append(row)
    shares = np.mean(rows, axis=0).tolist() + [None] * 3
    names = "determined", "found", "sure", "wrong"
    taken = (time.process_time() - begin) / trials
    return {
        **asdict(cell), "unknowns": cell.unknowns, "equations": cell.shared, "trials": trials,
        **dict(zip(names, shares, strict=False)), "seconds": taken, "longest": longest,
    }  # fmt: skip


def cells(part: str) -> Iterator[Cell]:
    """The settings of a part of the sweep."""
    if part == "grid":
        for line in (False, True):
            yield from (Cell(M, T, line=line) for M in GRID[0] for T in GRID[1])
    elif part == "taps":
        for L, terms in ((1, (4, 10, 20, 21)), (2, (4, 10, 13, 14)), (8, (2, 4, 6))):
            yield from (Cell(40, T, L) for T in terms)
        yield from (Cell(40, T, 8, line=True) for T in (4, 10, 16, 17))
    elif part == "wires":
        for wire in ("float64", "float32", "float16"):
            yield from (Cell(40, T, wire=wire) for T in (1, 2, 4, 6))
            yield from (Cell(200, T, wire=wire) for T in (4, 8, 16, 32))
            yield from (Cell(40, T, wire=wire, line=True) for T in (4, 8, 18))
    elif part == "sums":
        for c, T in ((3, 1), (4, 1), (6, 1), (12, 1), (4, 25)):
            yield from (Cell(M, T, 4, c, "masked") for M in (40, 200))
        for c, T in ((4, 2), (4, 25)):
            yield from (Cell(M, T, 4, c, "masked", line=True) for M in (40, 200))


def measured(asked: list[str], trials: int, save: Any) -> dict[str, list[dict[str, Any]]]:
    """All parts that are asked for; `save` is called after each setting."""
    found: dict[str, list[dict[str, Any]]] = {}
    for part in asked:
        found[part] = []
        measure = {"contacts": leaks_followed.contacts, "memo": leaks_followed.memo}.get(part, run)
        jobs: Any = leaks_followed.JOBS.get(part) or cells(part)
        for job in jobs:
            row = measure(job, trials)
            found[part].append(row)
            save(found)
            print(part, *(f"{key}={_text(value)}" for key, value in row.items()), flush=True)
    return found


def measure(quick: bool) -> dict[str, float]:
    """For benchmarks/all.py: shares in percent."""
    trials = 10 if quick else 20
    newest = leaks_followed.contacts(leaks_followed.Plan("subset", True, 8), trials)
    six = run(Cell(40, 6), trials)
    return {"newest": 100 * newest["found newest"], "six": 100 * six["found"]}


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f}"


def tables(found: dict[str, list[dict[str, Any]]]) -> str:
    """Everything as Markdown: the grid as a square of determined / found, in percent."""
    lines = []
    for line in (False, True) if "grid" in found else ():
        lines += ["", f"grid, {KINDS[line]}: determined / found, %", ""]
        lines += ["| M | " + " | ".join(f"T = {T}" for T in GRID[1]) + " |"]
        lines += ["|---" * (len(GRID[1]) + 1) + "|"]
        for M in GRID[0]:
            row = [one for one in found["grid"] if one["shared"] == M and one["line"] == line]
            shown = [f"{_percent(c['determined'])} / {_percent(c['found'])}" for c in row]
            lines.append(f"| {M} | " + " | ".join(shown) + " |")
    for part, rows in found.items():
        if part != "grid":
            lines += ["", part, "", "| " + " | ".join(rows[0]) + " |", "|---" * len(rows[0]) + "|"]
            lines += ["| " + " | ".join(map(_text, row.values())) + " |" for row in rows]
    every = [row for part in found.values() for row in part]
    wrong = [row["wrong"] for row in every if row.get("wrong") is not None]
    longest = max(row.get("longest", 0.0) for row in every)
    if wrong:
        said = f"sure but wrong: at most {100 * np.max(wrong):.2g} % of the samples of a setting"
        lines += ["", f"{said}; longest search {longest:.1f} s"]
    return "\n".join(lines)


def figure(rows: list[dict[str, Any]], path: Path) -> None:
    """The grid in grey: how many samples are determined, in numbers how many are found."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels, (sizes, terms) = plt.subplots(1, 2, figsize=(11, 3.8), sharey=True), GRID
    for axes, line in zip(panels[1], (False, True), strict=True):
        cells = [row for row in rows if row["line"] == line]
        shares = np.array([row["determined"] for row in cells]).reshape(len(sizes), len(terms))
        axes.imshow(shares, cmap="Greys", vmin=0, vmax=2.2, aspect="auto", origin="lower")
        for i, row in enumerate(cells):
            y, x = divmod(i, len(terms))
            text = "" if row["determined"] < READ else "?"
            text = text if row["found"] is None else _percent(row["found"])
            axes.text(x, y, text, ha="center", va="center", fontsize=9)
        for name, count, style in RULES[: 1 + line]:
            edge = [sum(count(T) <= M for T in terms) - 0.5 for M in sizes]
            rows_at = np.repeat(np.arange(len(sizes) + 1) - 0.5, 2)[1:-1]
            axes.plot(np.repeat(edge, 2), rows_at, color="black", label=name, **style)
        axes.set(xticks=range(len(terms)), xticklabels=terms, yticks=range(len(sizes)),
                 yticklabels=sizes, xlabel="T: samples in the upload", title=KINDS[line],
                 ylim=(-0.5, len(sizes) - 0.5), xlim=(-0.5, len(terms) - 0.5))  # fmt: skip
    panels[1][0].set_ylabel("M: entries of the upload")
    panels[1][1].legend(loc="upper right", bbox_to_anchor=(1, -0.14), ncol=2, frameon=False)
    words = "grey: determined by the numbers sent; numbers: % of samples found; ?: not searched"
    panels[0].text(0.08, -0.06, words, fontsize=9)
    panels[0].savefig(path, dpi=110, bbox_inches="tight")


KINDS = {False: "independent inputs", True: "a delay line"}
RULES: tuple[tuple[str, Any, dict[str, Any]], ...] = (
    ("M = (L + 1) T", lambda T: 5 * T, {"linestyle": "-"}),
    ("M = 2 T + L - 1", lambda T: 2 * T + 3, {"linestyle": "--"}),
)


def main() -> None:
    """Measure or read, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--only", default="grid,contacts,memo,wires,sums,taps")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    parser.add_argument("--figure", type=Path, help="draw the grid into this file")
    parser.add_argument("--read", type=Path, nargs="*", help="measure nothing, read these files")
    asked = parser.parse_args()

    def save(found: Any) -> None:
        if asked.json:
            asked.json.write_text(json.dumps(found, indent=1) + "\n")

    found: dict[str, list[dict[str, Any]]] = {}
    for path in asked.read or ():
        found |= json.loads(path.read_text())
    found = found or measured(asked.only.split(","), asked.trials, save)
    print(tables(found))
    if asked.figure:
        figure(found["grid"], asked.figure)


if __name__ == "__main__":
    main()

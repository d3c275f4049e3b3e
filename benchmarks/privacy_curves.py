"""Test error against epsilon: PSO-Fed with M = 1, 5, 40, D, and FedAvg at equal bytes, E = D/M.

FedAvg with E = 1 is PSO-Fed with M = D, as far as the server's model goes, so it is there once.

nice python benchmarks/privacy_curves.py [--runs 8] [--figure docs/epsilon.png] [--numbers FILE]

100 clients, 10 in a round, 2,000 rounds, D = 200 exponential features, the paper's stream. Both
levels; with self-masks a sum has at least 8 members, who share the noise where each download
overwrites the whole model (169 bytes of a client and round for these masks are not counted). Step
and clip are the best of a grid for each point, on two other runs. All are judged by the average of
the server's models, which costs no privacy. delta = 1e-5.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from psofed import Experiment, FedAvg, Privacy, PSOFed
from psofed.experiment import Features
from psofed.federation.options import Options
from psofed.simulate.onerun import some_runs

Array = NDArray[Any]
DIM, ROUNDS, LEAST = 200, 2000, 8
EPSILONS = (0.5, 1.0, 3.0, 10.0)
STEPS = (0.05, 0.15, 0.4, 1.0, 1.6)
CLIPS = {"sample": (0.1, 0.3, 1.0), "client": (0.01, 0.03, 0.1, 0.3)}
TUNED_ON = (100, 101)  # runs that are not judged
SHARED = (1, 5, 40, DIM)
BASE = Experiment(
    clients=100, cohort=10, rounds=ROUNDS, runs=1, evaluate_every=100,
    features=Features("exponential", dim=DIM),
)  # fmt: skip


def methods() -> dict[str, Options]:
    """PSO-Fed, and FedAvg with as many bytes; with E = 1 it is PSO-Fed with M = D."""
    ours = {f"PSO-Fed M = {m}": PSOFed(m, "coordinated", average=True) for m in SHARED}
    return {
        **ours,
        **{f"FedAvg E = {DIM // m}": FedAvg(DIM // m, average=True) for m in SHARED[:-1]},
    }


def settings(level: str, masks: bool, epsilon: float) -> list[Privacy]:
    """The clips of the grid."""
    field = "clip_error" if level == "sample" else "clip_change"
    plain: Any = {
        "masks": masks,
        "self_masks": masks,
        "least": LEAST,
        "epsilon": epsilon,
        "level": level,
    }
    return [Privacy(**plain, **{field: clip}) for clip in CLIPS[level]]


def errors(options: list[Options], privacy: Privacy | None, runs: Any) -> Array:
    """Final test errors [run, option]."""
    experiment = replace(BASE, methods=tuple(options), privacy=privacy)
    return np.array([found.mse[:, -1] for found in some_runs(experiment, list(runs))])


def point(options: Options, choices: list[Privacy | None], runs: int) -> dict[str, Any]:
    """The mean of the best of the grid, its standard error in dB, and the choice."""
    grid = [replace(options, step=step) for step in STEPS]
    tried = np.array([errors(grid, privacy, TUNED_ON).mean(axis=0) for privacy in choices])
    tried = np.nan_to_num(tried, nan=np.inf)
    c, s = np.unravel_index(np.argmin(tried), tried.shape)
    found = errors([grid[s]], choices[c], range(runs))[:, 0]
    error = float(10 / np.log(10) * found.std(ddof=1) / np.sqrt(runs) / found.mean())
    clip = None if choices[c] is None else choices[c].clip_error or choices[c].clip_change
    return {"db": float(10 * np.log10(found.mean())), "error": error, "step": STEPS[s],
            "clip": clip}  # fmt: skip


def study(runs: int) -> list[dict[str, Any]]:
    """All points, told as they come."""
    found = []
    for title, options in methods().items():
        whole = options.sharing[0] in (None, DIM)
        cases: list[tuple[str, bool, float, list[Privacy | None]]] = [("none", False, 0.0, [None])]
        for level in CLIPS:
            for masks in (False, True) if whole else (False,):
                cases += [(level, masks, e, [*settings(level, masks, e)]) for e in EPSILONS]
        for level, masks, epsilon, choices in cases:
            begin = time.perf_counter()
            what = {"method": title, "level": level, "masks": masks, "epsilon": epsilon}
            found.append({**what, **point(options, choices, runs)})
            print(*found[-1].values(), f"{time.perf_counter() - begin:.0f} s", flush=True)
    return found


def pick(found: list[dict[str, Any]], **what: Any) -> list[dict[str, Any]]:
    """Points with these values."""
    return [one for one in found if all(one[key] == value for key, value in what.items())]


def table(found: list[dict[str, Any]]) -> str:
    """A row for each method and level, in dB, as the page has it."""
    heads = " | ".join(f"epsilon {e:g}" for e in EPSILONS)
    lines = [f"| level | method | {heads} | no noise |", "|" + " --- |" * (len(EPSILONS) + 3)]
    for level in CLIPS:
        for masks in (False, True):
            for title in methods():
                row = pick(found, method=title, level=level, masks=masks)
                if not row:
                    continue
                row += pick(found, method=title, level="none")
                cells = " | ".join(f"{one['db']:.1f} ± {one['error']:.1f}" for one in row)
                lines.append(f"| {level}{', self-masks' * masks} | {title} | {cells} |")
    return "\n".join(lines)


def figure(found: list[dict[str, Any]], path: str) -> None:
    """A panel for each level, PSO-Fed in full lines and FedAvg in dashes."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    colours = ("#E69F00", "#009E73", "#0072B2", "#000000")
    fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), constrained_layout=True)
    for ax, level in zip(axes, CLIPS, strict=True):
        for i, title in enumerate(methods()):
            ours = title.startswith("PSO")
            for masks in (False, True):
                row = pick(found, method=title, level=level, masks=masks)
                if not row or (masks and title != "FedAvg E = 40"):
                    continue
                ax.errorbar(
                    EPSILONS, [one["db"] for one in row], [one["error"] for one in row],
                    color="#D55E00" if masks else colours[i % 4], capsize=2,
                    linestyle=":" if masks else "-" if ours else (0, (5, 2)),
                    marker="s" if masks else "o" if ours else "x", markersize=4, lw=1.4,
                    label=f"{title}, self-masks" if masks else title,
                )  # fmt: skip
        ax.set_ylim(-13, -1.5 if level == "sample" else 6)  # above it there is no model to speak of
        ax.set_xscale("log")
        ax.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
        ax.minorticks_off()
        ax.set_xlabel(f"epsilon of a {level}, delta = 1e-5")
        ax.grid(color="0.9", lw=0.6)
        best = min(one["db"] for one in pick(found, level="none"))
        ax.axhline(best, color="0.5", lw=1)
        ax.annotate(
            "best without noise", (EPSILONS[0], best - 0.1), fontsize=8, color="0.4", va="top"
        )
    axes[0].set_ylabel("test MSE in dB")
    axes[0].set_title("one sample is hidden", fontsize=10)
    axes[1].set_title("all samples of a client are hidden", fontsize=10)
    axes[0].legend(fontsize=7, frameon=False, ncol=2)
    fig.savefig(path, dpi=130)


def main() -> None:
    """The table, and the figure if it is asked for; with --numbers, from an earlier study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--figure", default="")
    parser.add_argument("--numbers", type=Path)
    asked = parser.parse_args()
    kept = asked.numbers
    if kept and kept.exists():
        found = json.loads(kept.read_text(encoding="utf-8"))
    else:
        with threadpool_limits(1):
            found = study(asked.runs)
        if kept:
            kept.write_text(json.dumps(found), encoding="utf-8")
    print(table(found))
    if asked.figure:
        figure(found, asked.figure)


if __name__ == "__main__":
    main()

"""What it costs when a fleet changes, in dB, in the paper's setting: joins, absences, a restore.

python benchmarks/fleet.py [--runs 100] [--figure docs/fleet.png]

All cases of a run have the same clients, features, masks and samples, so their differences are
paired. Errors are those of the global model on the test set of the first 100 clients.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from psofed import Experiment, PaperStream
from psofed.federation.membership import Change
from psofed.methods import onlinefed, psofed
from psofed.simulate.onerun import one_run

Array = NDArray[Any]
ROUNDS, JOIN = 2000, 1000
WINDOWS = ((1000, 1050), (1050, 1200), (1200, 1500), (1600, 2001))  # over which errors are averaged


class UnwelcomedMethod(psofed.Method):
    """PSO-Fed whose newcomers get what everybody gets: M entries, and zeros for the others."""

    stacked = entrywise = True
    _whole = False


@dataclass(frozen=True)
class Unwelcomed(psofed.Options):
    """The same options."""

    name: ClassVar[str] = "unwelcomed"
    kind: ClassVar[Any] = UnwelcomedMethod


METHODS = (psofed.Options(5), psofed.Options(40), onlinefed.Options())
BASE = Experiment(rounds=ROUNDS, runs=1, evaluate_every=1, methods=METHODS)
NEW = (Change(JOIN, add=tuple(range(100, 120))),)
BACK = {keep: (Change(JOIN, restore=500, keep=keep),) for keep in (False, True)}
ZEROS = (Unwelcomed(5, label="M = 5"), Unwelcomed(40, label="M = 40"))
CASES = {
    "nothing changes": BASE,
    "20 join, with a welcome": replace(BASE, fleet=NEW),
    "20 join, without": replace(BASE, fleet=NEW, methods=ZEROS),
    "off 10 % of the time": replace(BASE, stream=PaperStream(away=0.1)),
    "off 50 % of the time": replace(BASE, stream=PaperStream(away=0.5)),
    "back to round 500": replace(BASE, fleet=BACK[False]),
    "back to 500, clients keep": replace(BASE, fleet=BACK[True]),
}


def study(runs: int) -> dict[str, Array]:
    """Test errors [run, method, round] of every case."""
    found: dict[str, list[Array]] = {name: [] for name in CASES}
    with threadpool_limits(1):
        for number in range(runs):
            for name, experiment in CASES.items():
                found[name].append(one_run(experiment, number).mse)
    return {name: np.array(mse) for name, mse in found.items()}


def cost(changed: Array, plain: Array) -> tuple[float, float]:
    """dB between the means over the runs, and its standard error by leaving out each run."""
    ratio = 10 * np.log10(changed.mean() / plain.mean())
    n = len(changed)
    others = (changed.sum() - changed) / (plain.sum() - plain)
    spread = 10 * np.log10(others)
    return float(ratio), float(np.sqrt((n - 1) * np.var(spread)))


def table(found: dict[str, Array]) -> str:
    """One line for each case and method: the cost over the windows of rounds."""
    heads = "".join(f"{f'{a}-{b - 1}':>16}" for a, b in WINDOWS)
    lines = [f"{'dB above a fleet that does not change, rounds':48}{heads}"]
    plain = found["nothing changes"]
    for name, mse in list(found.items())[1:]:
        for j in range(mse.shape[1]):
            parts = (cost(*(m[:, j, a:b].mean(axis=1) for m in (mse, plain))) for a, b in WINDOWS)
            cells = "".join(f"{value:+9.2f} ±{error:5.2f}" for value, error in parts)
            lines.append(f"{name:28}{('M = 5', 'M = 40', 'Online-Fed')[j]:20}{cells}")
    return "\n".join(lines)


def figure(found: dict[str, Array], path: str) -> None:
    """Learning curves with M = 5, a panel for each kind of change."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    panels = {
        "20 clients join at n = 1000": ("20 join, with a welcome", "20 join, without"),
        "clients are off and on": ("off 10 % of the time", "off 50 % of the time"),
        "restore at n = 1000": ("back to round 500", "back to 500, clients keep"),
    }
    fig, axes = plt.subplots(1, 3, figsize=(10, 3.3), sharey=True, constrained_layout=True)
    for ax, (title, names) in zip(axes, panels.items(), strict=True):
        lines = zip(("nothing changes", *names), ("0.55", "black", "black"), (2.5, 1.3, 1.3),
                    ("-", "-", (0, (3, 1.5))), strict=True)  # fmt: skip
        for name, colour, width, style in lines:
            smooth = np.convolve(found[name][:, 0].mean(axis=0), np.ones(5) / 5, "valid")
            ax.plot(np.arange(len(smooth)) + 2, 10 * np.log10(smooth), color=colour, lw=width,
                    linestyle=style, label=name)  # fmt: skip
        ax.set_title(title, fontsize=10)
        ax.set_xlabel("round n")
        ax.set_ylim(-12.5, 0)
        ax.grid(color="0.9", lw=0.6)
        ax.legend(fontsize=8, frameon=False)
    axes[0].set_ylabel("test MSE in dB, PSO-Fed M = 5")
    fig.savefig(path, dpi=130)


def main() -> None:
    """The table, and the figure if it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--figure", default="")
    asked = parser.parse_args()
    found = study(asked.runs)
    print(table(found))
    if asked.figure:
        figure(found, asked.figure)


if __name__ == "__main__":
    main()

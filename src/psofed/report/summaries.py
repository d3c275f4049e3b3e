"""The table of a result: MSE over the rounds, difference to Online-Fed, share of its traffic."""

from __future__ import annotations

from typing import Any

from psofed import schema
from psofed.curves import Curves, Estimate
from psofed.experiment import Experiment
from psofed.extras import have
from psofed.report.grid import Grid
from psofed.sample_checks.contract import in_words

FLOORS = {"ridge": "ridge regression on 200 D samples", "noise": "noise variance"}
MEANS = {
    "ridge": "about the best that a model of this form can do",
    "noise": "of the samples; the test is noise-free, so an error may be below it",
}
NOISY = "of the samples and of the test, so no model is below it on average"


def summary(curves: Curves) -> list[dict[str, Any]]:
    """One entry per method: its MSE in dB at each point, and how it compares with the base."""
    base = baseline(curves)
    return [_entry(curves, j, base) for j in range(len(curves.titles))]


def baseline(curves: Curves) -> int | None:
    """What the others are compared with: Online-Fed if it is there, else the first of many."""
    methods = curves.experiment.methods
    found = [j for j, o in enumerate(methods) if o.role == "reference" and o.policy is None]
    found.sort(key=lambda j: methods[j].apart)  # rather one of the experiment's own world
    return found[0] if found else 0 if len(methods) > 1 else None


def _entry(curves: Curves, j: int, base: int | None) -> dict[str, Any]:
    points = {name: _pair(curves.point(j, name)) for name in curves.point_names}
    entry: dict[str, Any] = {"method": curves.titles[j], "mse_db": points}
    entry["bytes_per_round"] = {
        "up": float(curves.uplink[j].sum() / curves.rounds[-1]),
        "down": float(curves.downlink[j].sum() / curves.rounds[-1]),
        "multicast_down": float(curves.multicast[j].sum() / curves.rounds[-1]),
    }
    if (privacy := promise(curves.experiment, j)) is not None:
        entry["privacy"] = privacy
    if curves.checked:
        entry["samples"] = curves.checked[j]
    if base is not None:
        entry["difference_db"] = {
            name: _pair(curves.difference(j, base, name)) for name in curves.point_names
        }
        if curves.cumulative[base, -1] > 0:
            entry["traffic_share"] = curves.traffic_share(j, base)
    return entry


def promise(experiment: Experiment, j: int) -> dict[str, Any] | None:
    """What is promised to a sample or a client; of who knows little only if it can be computed."""
    if experiment.privacy is None or experiment.privacy.epsilon is None:
        return None
    noise, options = experiment.noises[j], experiment.methods[j]
    if noise is None:
        return None
    words, outside = noise.in_words(), None
    if have("dp_accounting"):
        idle = schema.beside(options, "Method")(options, experiment.task(0)).idle
        share, contacts = experiment.cohort / experiment.clients, experiment.rounds // options.pace
        outside = noise.outside(share, contacts, idle)
    if outside is not None:
        words += f"; {outside:.3g} for who sees models only, and knows neither seed nor cohorts"
    return {"epsilon": noise.planned, "delta": noise.delta, "level": noise.level,
            "sigma": noise.sigma, "uploads": noise.uploads, "epsilon_outside": outside,
            "words": words}  # fmt: skip


def _pair(estimate: Estimate) -> dict[str, float | None]:
    """A value with its standard error; one run has none."""
    known = abs(estimate.stderr) < float("inf")
    return {"value": estimate.value, "stderr": estimate.stderr if known else None}


def text(curves: Curves) -> str:
    """The whole table as text."""
    return str(grid(curves))


def grid(curves: Curves) -> Grid:
    """The table, which can be fitted to a screen."""
    entries, base = summary(curves), baseline(curves)
    noisy = " (noisy)" if curves.experiment.targets == "noisy" else ""
    head = [f"test MSE in dB{noisy}", *(f"n={p}" if p.isdigit() else p for p in curves.point_names)]
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
    # The last columns matter most; of the rounds, every other one goes first.
    inner = list(range(1, len(curves.point_names)))
    least = [*inner[1::2], *inner[2::2], *inner[:1]]
    return Grid(rows, least=tuple(least), where="report.html")


def levels(curves: Curves) -> list[str]:
    """What the errors may be compared with, a line each, and what they are."""
    lines, noisy = [], curves.experiment.targets == "noisy"
    for name, level in curves.floors.items():
        error = _plus_minus(_pair(level))
        means = NOISY if noisy and name == "noise" else MEANS[name]
        lines.append(f"{FLOORS[name]}: {level.value:.2f}{error} dB ({means})")
    for title, found in zip(curves.titles, curves.checked, strict=False):
        lines.append(f"{title}: {in_words(found)}, in all runs together")
    for j, title in enumerate(curves.titles):
        if (privacy := promise(curves.experiment, j)) is not None:
            lines.append(f"{title}: {privacy['words']}")
    ours, threat = f"Errors are on {curves.experiment.judged}", curves.experiment.threat
    return [
        *lines,
        *([f"{threat[:1].upper()}{threat[1:]}."] if threat else []),
        f"{ours}; ± is one standard error over the runs." if curves.runs > 1 else ours + ".",
    ]


def _show(value: float, sign: str = "") -> str:
    return format(value, sign + ".2f") if abs(value) < float("inf") else "diverged"


def _plus_minus(pair: dict[str, float | None]) -> str:
    return "" if pair["stderr"] is None else f" ±{pair['stderr']:.2f}"


def align(rows: list[list[str]], left: tuple[int, ...] = (0,)) -> str:
    """Columns padded to equal width: some to the left, the others to the right."""
    return str(Grid(rows, left))

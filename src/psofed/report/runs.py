"""A run for readers: MSE over the rounds, difference to Online-Fed, share of its traffic."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from math import hypot
from pathlib import Path
from typing import Any

import numpy as np

from psofed.curves import Curves, Estimate
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.extras import estimate
from psofed.federation.plugins import written
from psofed.report import claims, files, page
from psofed.report.charts import COLOURS, FLOORS, Chart, Curve
from psofed.report.files import Grid
from psofed.report.page import Page
from psofed.simulate.finished import changed
from psofed.stages.checks.contract import in_words

MEANS = {
    "ridge": "about the best that a model of this form can do",
    "noise": "of the samples; the test is noise-free, so an error may be below it",
}
NOISY = "of the samples and of the test, so no model is below it on average"
LIKELY = 2.0  # standard errors within which two ends are called the same
SCHEMES = {"coordinated": "(a) Coordinated", "uncoordinated": "(b) Uncoordinated"}
Figures = Mapping[str, tuple[Sequence[int], str]]  # the rows and the title of each picture


def render(curves: Curves, command: str, figures: Figures) -> dict[str, bytes]:
    """Every file of a result by name."""
    table = summary(curves, command)
    texts = {"curves.csv": files.csv_text(curves.rows()), "summary.json": files.json_text(table)}

    def picture(which: Sequence[int], title: str) -> Any:
        from psofed.report.figures import learning_curves

        return learning_curves(curves, which, title)

    pictures = {name: partial(picture, *which) for name, which in figures.items()}
    return page.render(_page(curves, table), texts, pictures)


def is_finished(path: Path, experiment: Experiment) -> bool:
    """Whether the folder holds the whole result of this experiment, with nothing left to do."""
    if files.is_unfinished(path):
        return False
    try:
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    made = written(experiment.to_table)
    differences = changed(summary.get("plugins", []), made.plugins)
    if differences and len(made.plugins) == len(summary.get("plugins", [])):
        found = f"holds the result of another plug-in: {differences[0]}"
        raise InputError(str(path), found, "give another --out")
    same = summary.get("experiment") == files.plain(made.table)
    return same and summary.get("runs") == experiment.runs


def summary(curves: Curves, command: str) -> dict[str, Any]:
    """What `summary.json` holds: how it was made, the table, the floors and the claims."""
    experiment = curves.experiment
    more = {
        "seed": experiment.seed,
        "runs": curves.runs,
        "runs_asked": experiment.runs,
        "rounds": experiment.rounds,
        "targets": experiment.judged,
        "methods": entries(curves),
        "floors_db": {name: floor._asdict() for name, floor in curves.floors.items()},
        "threat": experiment.threat,
    }
    if claims.is_paper(experiment):
        more["claims"] = [claim.to_table() for claim in claims.judge(curves)]
    return files.summary(command, written(experiment.to_table), more)


def entries(curves: Curves) -> list[dict[str, Any]]:
    """One entry per method: its MSE in dB at each point, and how it compares with the base."""
    base = curves.experiment.baseline
    return [_entry(curves, j, base) for j in range(len(curves.titles))]


def _entry(curves: Curves, j: int, base: int | None) -> dict[str, Any]:
    points = {name: _pair(curves.point(j, name)) for name in curves.point_names}
    entry: dict[str, Any] = {"method": curves.titles[j], "mse_db": points}
    sent = {"up": curves.uplink, "down": curves.downlink, "multicast_down": curves.multicast}
    last = curves.rounds[-1]
    entry["bytes_per_round"] = {key: float(each[j].sum() / last) for key, each in sent.items()}
    if (privacy := promise(curves.experiment, j)) is not None:
        entry["privacy"] = privacy
    if curves.checked:
        entry["samples"] = curves.checked[j]
    if curves.global_steady_db:
        entry["global_steady_db"] = curves.global_steady_db[j]
    if base is not None:
        entry["difference_db"] = {
            name: _pair(curves.difference(j, base, name)) for name in curves.point_names
        }
        if curves.cumulative[base, -1] > 0:
            entry["traffic_share"] = curves.traffic_share(j, base)
    return entry


def promise(experiment: Experiment, j: int) -> dict[str, Any] | None:
    """What is promised to a sample or a client."""
    privacy = experiment.privacy
    if privacy is None or not privacy.acts:
        return None
    noise = experiment.noises[j]
    found: dict[str, Any] = {"words": []}
    if privacy.masks:
        count = experiment.counts[j]
        found |= {"closed": count.closed, "words": [count.in_words()]}
    if noise is not None:
        found |= {"epsilon": noise.planned, "delta": noise.delta, "level": noise.level,
                  "sigma": noise.sigma, "uploads": noise.uploads,
                  "measurement": noise.measurement}  # fmt: skip
        found["words"].append(noise.in_words())
    return found | {"words": "; ".join(found["words"])} if found["words"] else None


def _pair(estimate: Estimate) -> dict[str, float | None]:
    """A value with its standard error; one run has none."""
    known = abs(estimate.stderr) < float("inf")
    return {"value": estimate.value, "stderr": estimate.stderr if known else None}


def grid(curves: Curves) -> Grid:
    """The table, which can be fitted to a screen."""
    base, judged = curves.experiment.baseline, curves.experiment.judged
    noisy = " (noisy)" if curves.experiment.targets == "noisy" else ""
    personal = "personal " * (curves.global_mse is not None)
    head = [
        f"{personal}test MSE in dB{noisy}",
        *(f"n={p}" if p.isdigit() else p for p in curves.point_names),
    ]
    if base is not None:
        head += [f"steady - {curves.titles[base]}", "of its traffic"]
    head += ["global model"] * (curves.global_mse is not None)
    rows = [head]
    for j, entry in enumerate(entries(curves)):
        *early, steady = entry["mse_db"].values()
        row = [entry["method"], *(estimate(p["value"]) for p in early), _with_error(steady)]
        if base is not None:
            row.append(_with_error(entry["difference_db"]["steady"], "+"))
            share = entry.get("traffic_share")
            row.append("-" if share is None else f"{100 * share:.4g} %")
        rows.append(row + [estimate(each) for each in curves.global_steady_db[j : j + 1]])
    # The last columns matter most; of the rounds, every other one goes first.
    inner = list(range(1, len(curves.point_names)))
    note = (
        f"Test MSE in dB on {judged}, mean of the runs ±1 standard error; steady: the mean over the"
        " last fifth of the rounds. Differences are paired: all methods saw the same data."
    )
    if curves.global_mse is not None:
        note += " Global model: the steady MSE of w, by the samples of all clients."
    return Grid(rows, least=(*inner[1::2], *inner[2::2], *inner[:1]), where="report.html",
                title="Test error", note=note)  # fmt: skip


def _with_error(pair: dict[str, float | None], sign: str = "") -> str:
    return estimate(pair["value"], pair["stderr"], sign)


def levels(curves: Curves) -> list[str]:
    """What the errors may be compared with, a line each, and what they are."""
    lines, noisy = [], curves.experiment.targets == "noisy"
    for name, level in curves.floors.items():
        means = NOISY if noisy and name == "noise" else MEANS[name]
        lines.append(f"{FLOORS[name]}: {estimate(*level)} dB ({means})")
    lines += notes(curves)
    error = "; ± is one standard error over the runs" if curves.runs > 1 else ""
    ours = f"Errors are on {curves.experiment.judged}{error}."
    return [*lines, *files.sentences(curves.experiment.threat), ours]


def notes(curves: Curves) -> list[str]:
    """What a check made of the samples, and what is promised to them."""
    checked = zip(curves.titles, curves.checked, strict=False)  # nothing without a check
    promises = ((title, promise(curves.experiment, j)) for j, title in enumerate(curves.titles))
    return [
        *(f"{title}: {in_words(found)}, in all runs together" for title, found in checked),
        *(f"{title}: {found['words']}" for title, found in promises if found is not None),
    ]


def _page(curves: Curves, table: dict[str, Any]) -> Page:
    experiment, count = curves.experiment, len(curves.titles)
    judged = claims.is_paper(experiment)
    title = f"Learning curves of {count} methods" if count > 1 else "A learning curve"
    cautions = claims.caution(experiment.rounds, experiment.judged) if judged else []
    found = map(claims.grid, claims.judge(curves)) if judged else ()
    return page.of_experiment(
        experiment, table["command"], curves.runs,
        "The paper's figures, reproduced" if judged else title,
        answer(table["methods"], curves.experiment.baseline, experiment.rounds),
        parts=[*cautions, *(f"{note}." for note in notes(curves)), *found, grid(curves),
               traffic(curves)],
        curves=learning(curves, _groups(experiment), _floors(curves)),
    )  # fmt: skip


def learning(
    curves: Curves, groups: Sequence[tuple[str, Sequence[int]]] = (), levels: Any = (),
    order: Sequence[int] | None = None, total: str = "", titles: Sequence[str] = (),
) -> Chart:  # fmt: skip
    """Learning curves over rounds and bytes; those of several groups share their colours."""
    which = list(range(len(curves.titles))) if order is None else list(order)
    sent = [np.cumsum(each, axis=1) for each in (curves.uplink, curves.downlink, curves.multicast)]
    styles = _styles(len(which), groups if total == "" else ())
    series = [
        Curve((titles or curves.titles)[j], curves.rounds, curves.mse_db[j],
               curves.stderr_db[j] if curves.runs > 1 else None, tuple(s[j] for s in sent),
               styles[i])
        for i, j in enumerate(which)
    ]  # fmt: skip
    return Chart("Learning curves", "round n", f"test MSE (dB), {curves.experiment.judged}", series,
                 levels, groups=groups, top=page.top(curves.mse_db), total=total,
                 file="curves.csv")  # fmt: skip


def _floors(curves: Curves) -> list[tuple[str, float, str]]:
    """The levels of a chart that are known."""
    known = {n: e.value for n, e in curves.floors.items() if abs(e.value) < float("inf")}
    return [
        (page.minus(f"{FLOORS[n]}, {v:.1f} dB"), round(v, 3), page.minus(f"{n} {v:.1f} dB"))
        for n, v in known.items()
    ]


def _groups(experiment: Experiment) -> list[tuple[str, list[int]]]:
    """The paper's two figures: one for each scheme, where both have several curves."""
    schemes = [options.sharing[1] for options in experiment.methods]
    if min(map(schemes.count, SCHEMES)) < 2:
        return []
    return [
        (name, [j for j, s in enumerate(schemes) if s not in SCHEMES or s == key])
        for key, name in SCHEMES.items()
    ]


def _styles(count: int, groups: Sequence[tuple[str, Sequence[int]]]) -> list[int]:
    """What stands at the same place of two groups has one colour, and other dashes."""
    styles = list(range(count))
    for g, (_, rows) in enumerate(groups if len(groups) > 1 else ()):
        if len(rows) <= COLOURS:
            for j in (j for j in rows if g == 0 or j not in groups[0][1]):
                styles[j] = list(rows).index(j) + COLOURS * g
    return styles


def traffic(curves: Curves, titles: Sequence[str] = ()) -> Grid:
    """Mean bytes of a round for each method."""
    rows = [["method", "up", "down, to each", "down, multicast"]]
    parts = (curves.uplink, curves.downlink, curves.multicast)
    for j, title in enumerate(titles or curves.titles):
        means = (each[j].sum() / curves.rounds[-1] for each in parts)
        rows.append([title, *(f"{mean:,.1f}".removesuffix(".0") for mean in means)])
    note = (
        "Bytes in a round, on average, counted from encoded messages. Multicast: where equal"
        " messages go down once, to all."
    )
    return Grid(rows, title="Traffic", note=note, bars=True)


def answer(entries: Sequence[dict[str, Any]], base: int | None, rounds: int) -> str:
    """Which method ends lowest, by how much, and at which cost: in one sentence."""
    ends = [(entry["method"], entry["mse_db"]["steady"]) for entry in entries]
    after = f"after {rounds:,} rounds"
    best, words = lowest(ends)
    if best is None:
        return f"All methods have diverged {after}."
    if base is None:
        return f"{ends[best][0]} is at {_with_error(ends[best][1])} dB {after}."
    if best == base:
        return f"{words} {after}; no other method does better."
    other, gap = ends[base][0], entries[best]["difference_db"]["steady"]
    share = entries[best].get("traffic_share")
    cost = "" if share is None else f", with {100 * share:.3g} % of its traffic"
    if gap["value"] is None:
        far = f"{other} has diverged"
    elif gap["stderr"] is not None and abs(gap["value"]) <= LIKELY * gap["stderr"]:
        far = f"within error of {other}"
    else:
        far = f"{abs(gap['value']):.2f} dB below {other}"
    return f"{words} {after}: {far}{cost}."


def lowest(ends: Sequence[tuple[str, dict[str, float | None]]]) -> tuple[int | None, str]:
    """The best of these steady values, if any is one, and what to say of it."""
    values = np.array([end["value"] for _, end in ends], float)  # None is not a number
    values[~np.isfinite(values)] = np.inf
    errors = np.array([end["stderr"] for _, end in ends], float)
    best, *rest = np.argsort(values, kind="stable").tolist()
    if np.isinf(values[best]):
        return None, ""
    alike = [ends[j][0] for j in rest
             if values[j] - values[best] <= LIKELY * hypot(errors[j], errors[best])]  # fmt: skip
    near = f" ({alike[0]}{' and others' * (len(alike) > 1)} within error of it)" if alike else ""
    return best, f"{ends[best][0]} ends lowest{near}, at {_with_error(ends[best][1])} dB"

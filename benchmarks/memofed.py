"""MEMO-Fed beside tuned baselines: three budgets, a steady f, one that changes, absent clients.

    python benchmarks/memofed.py results/memofed --runs 100
    python benchmarks/memofed.py results/memofed --table      all there is
    python benchmarks/memofed.py results/memofed --summary    where each ends, one row a setting
    python benchmarks/memofed.py --constants --runs 4         MEMO-Fed alone; also --sizes,
                                        --floor, --forgetting and --revealed

Every method is tuned for the lowest error within the budget, as `psofed compare` does it: options,
step and averaging on other seeds, once as it is and once with gifts. What is finished is kept in
the folder, so that the command can be interrupted and given again. Tables are Markdown.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from memofed_studies import STUDIES, Scale

from psofed.compare import tuning
from psofed.compare.search import bytes_to_target
from psofed.experiment import Experiment
from psofed.methods import fedavg, memofed, onlinefed, psofed
from psofed.rivals import raw
from psofed.simulate import montecarlo
from psofed.streams import paper

ROUNDS, SEED = 1500, 20_000
BUDGETS = {"1/5": 1 / 5, "1/40": 1 / 40, "1/200": 1 / 200}
SETTINGS = "steady", "change at half time", "slow drift", "10 % absent", "50 % absent"
METHODS = (
    onlinefed.Options(label="Online-Fed"),
    psofed.Options(label="PSO-Fed"),
    fedavg.Options(label="FedAvg"),
    memofed.Options(label="MEMO-Fed"),
)
FORGETS = memofed.Options(forget=0.995, label="MEMO-Fed, forgets")
ONCE = (  # on a steady f at 1/40
    FORGETS,
    memofed.Options(spread=0.1, correlation=0.0, label="MEMO-Fed, poor guess"),
    raw.Options(label="Raw samples"),
    raw.Options("ridge", label="Raw samples, ridge"),
)
# What matters most comes first.
ORDER = [("steady", budget) for budget in ("1/40", "1/200", "1/5")]
ORDER += [(s, budget) for budget in ("1/40", "1/200", "1/5") for s in SETTINGS[1:]]
TARGETS = (-10.0, -11.0, -12.0)


def measure(quick: bool) -> dict[str, float]:
    """What it costs a client and the server: multiply-adds over those of LMS, kB."""
    [method] = Experiment(methods=(memofed.Options(),)).start(Experiment().task(0))
    dim, size = method.T.shape  # type: ignore[attr-defined]
    state, server = method.client(), method.server()
    each = [a for a in server.values() if a.ndim and len(a) == method.task.places]
    return {
        "arithmetic": (dim * size + size**2 + size) / (2 * dim),
        "basis_kb": 8 * dim * size / 1000,
        "client_kb": sum(a.nbytes for a in state.values()) / 1000,
        "server_kb": sum(a.nbytes for a in each) / method.task.places / 1000,
    }


def settings(rounds: int) -> dict[str, dict[str, Any]]:
    """What differs from the paper's experiment."""
    changes = (
        {"stream": paper.Options(at=rounds // 2)},
        {"stream": paper.Options(period=2 * rounds)},
    )
    return dict(zip(SETTINGS, ({}, *changes, {"absent": 0.1}, {"absent": 0.5}), strict=True))


def study(setting: str, budget: str, runs: int, jobs: int, rounds: int) -> dict[str, Any]:
    """One setting at one budget: what each method reached, and for how many bytes."""
    experiment = Experiment(rounds=rounds, runs=runs, seed=SEED, **settings(rounds)[setting])
    methods = METHODS
    if "stream" in settings(rounds)[setting]:
        methods += (FORGETS,)
    elif (setting, budget) == ("steady", "1/40"):
        methods += ONCE
    experiment = replace(experiment, methods=methods)
    with montecarlo.local(experiment, jobs) as workers:
        allowed = BUDGETS[budget]
        tuned = tuning.tune(experiment, allowed, "fair", TARGETS[-1], workers, tuning.silent)
    entries = [entry for entry in tuned.entries if "error" in entry.aims]
    chosen = tuple(entry.options for entry in entries)
    experiment = replace(experiment, methods=chosen, evaluate_every=10)
    curves = montecarlo.run(experiment, pool=montecarlo.local(experiment, jobs))
    rows = []
    for j, entry in enumerate(entries):
        at = {str(n): float(curves.mse_db[j][curves.rounds == n][0]) for n in shown(rounds)}
        reached = {
            f"{target:g}": bytes_to_target(curves, j, target)._asdict() for target in TARGETS
        }
        end = curves.point(j, "steady")
        rows.append({
            "method": _family(entry), "setting": entry.options.label.partition(": ")[2],
            "share": entry.cost.share, "step": entry.step, "longest": entry.cost.largest, "at": at,
            "end": end._asdict(), "reached": reached,
        })  # fmt: skip
    about = {"setting": setting, "budget": budget, "runs": runs, "rounds": rounds}
    return about | {"rows": rows}


def _family(entry: tuning.Entry) -> str:
    """The method by its short name."""
    name = entry.options.label.partition(": ")[0]
    return f"{name}, with gifts" if entry.gifted else name


def around_change(rounds: int) -> tuple[int, int]:
    """Where the change at half time is, and 100 rounds later; runs are judged every 10 rounds."""
    half = rounds // 20 * 10
    return half, half + 100


def shown(rounds: int) -> list[int]:
    """The rounds of the table."""
    wanted = {100, 500, 1000, *around_change(rounds), rounds // 10 * 10}
    return sorted(n for n in wanted if n <= rounds)


def table(results: list[dict[str, Any]]) -> str:
    """What is known so far, as Markdown; the rounds around a change only where there is one."""
    lines = []
    for result in results:
        marks, around = list(result["rows"][0]["at"]), around_change(result["rounds"])
        marks = [n for n in marks if int(n) not in around or "change" in result["setting"]]
        head = ["method", "share", "step", *(f"n={n}" for n in marks), "last fifth, dB"]
        head += [f"kB to {target:g} dB" for target in TARGETS]
        title = f"### {result['setting'].capitalize()}, {result['budget']}"
        lines += ["", f"{title} ({result['runs']} runs)", ""]
        lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        for row in result["rows"]:
            name = row["setting"] if row["setting"].startswith(row["method"][:4]) else row["method"]
            step = "-" if row["step"] is None else f"{row['step']:.3g}"
            values = [f"{row['at'][n]:.1f}" for n in marks]
            kb = [_kb(row["reached"][f"{target:g}"]) for target in TARGETS]
            cells = [name, f"{100 * row['share']:.3g} %", step, *values, _end(row), *kb]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def summary(results: list[dict[str, Any]]) -> str:
    """Last fifth in dB and kB to -12: MEMO-Fed, all of Online-Fed's traffic, the best other."""
    head = ["setting", "traffic", "MEMO-Fed", "forgets", "Online-Fed", "best other at that traffic",
            "kB to -12: MEMO-Fed", "Online-Fed"]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for result in sorted(results, key=lambda result: SETTINGS.index(result["setting"])):
        rows = {row["method"]: row for row in result["rows"]}
        names = [name for name in rows if name.startswith(("PSO-Fed", "FedAvg"))]
        best = min(names, key=lambda name: rows[name]["end"]["value"])
        memo, forgets = rows["MEMO-Fed"], rows.get("MEMO-Fed, forgets")
        kb = [_kb(row["reached"]["-12"]) for row in (memo, rows["Online-Fed"])]
        cells = [result["setting"], result["budget"], _end(memo), _end(forgets),
                 _end(rows["Online-Fed"]), f"{best} {_end(rows[best])}", *kb]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _end(row: dict[str, Any] | None) -> str:
    """The mean of the last fifth, with its 95 % interval."""
    if row is None:
        return ""
    value, half = row["end"]["value"], 1.96 * row["end"]["stderr"]
    return f"{value:.2f} ({value - half:.2f} to {value + half:.2f})"


def _kb(reached: dict[str, Any]) -> str:
    value, *ends = (reached[key] for key in ("bytes", "low", "high"))
    if _text(value) == "never":
        return "-"
    low, high = map(_text, ends)
    return _text(value) if low == high == _text(value) else f"{_text(value)} ({low}-{high})"


def _text(count: float | None) -> str:
    """Bytes in kB, three digits."""
    if count is None or count == float("inf"):
        return "never"
    return f"{count / 1000:,.0f}" if count >= 1e6 else f"{count / 1000:.3g}"


def main() -> None:
    """A study of MEMO-Fed alone, or the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("results/memofed"))
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--only", help="a part of a setting's or budget's name")
    for name, alone in STUDIES.items():
        parser.add_argument(f"--{name}", action="store_true", help=alone.__doc__)
    asked = parser.parse_args()
    alone = [each for name, each in STUDIES.items() if getattr(asked, name)]
    for each in alone:
        print(each(Scale(asked.runs, asked.rounds, asked.jobs)), flush=True)
    if not alone:
        compare(asked)


def compare(asked: argparse.Namespace) -> None:
    """What is missing is computed, or what is there is printed."""
    asked.folder.mkdir(parents=True, exist_ok=True)
    results = []
    for setting, budget in ORDER:
        path = asked.folder / f"{setting} {budget.replace('/', ' of ')}.json"
        wanted = asked.only is None or asked.only in f"{setting} {budget}"
        if not path.exists() and wanted and not (asked.table or asked.summary):
            result = study(setting, budget, asked.runs, asked.jobs, asked.rounds)
            path.write_text(json.dumps(result, indent=1))
            print(table([result]), flush=True)
        if path.exists():
            results.append(json.loads(path.read_text()))
    if asked.table:
        print(table(results))
    if asked.summary:
        print(summary(results))


if __name__ == "__main__":
    main()

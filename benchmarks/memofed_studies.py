"""Studies of MEMO-Fed alone: its constants, its size, its floor on samples, its forgetting.

`benchmarks/memofed.py` runs them; each prints a Markdown table. The runs of a table are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psofed.compare.search import bytes_to_target
from psofed.curves import Curves
from psofed.experiment import Experiment
from psofed.methods import memofed
from psofed.methods.memo import messages, server
from psofed.simulate import montecarlo
from psofed.simulate.draws import draw
from psofed.stages.attacks import labels, stuck
from psofed.stages.defences import clip
from psofed.streams import paper

Array = NDArray[Any]
SEED = 40_000
BUDGETS = {"1/40": 160.0, "1/200": 32.0}  # bytes a round; Online-Fed with a cohort of 4 has 6,400


class Scale(NamedTuple):
    """How much is computed."""

    runs: int
    rounds: int
    jobs: int

    def settings(self) -> dict[str, dict[str, Any]]:
        """A steady f, one that changes at half time, one that drifts with twice the rounds."""
        return {
            "steady": {},
            "change": {"stream": paper.Options(at=self.rounds // 2)},
            "drift": {"stream": paper.Options(period=2 * self.rounds)},
        }


Study = Callable[[Scale], str]


def play(scale: Scale, setting: str, options: Sequence[memofed.Options]) -> Curves:
    """These forms of MEMO-Fed on the same data."""
    titled = tuple(replace(o, label=str(i)) for i, o in enumerate(options))
    experiment = Experiment(rounds=scale.rounds, runs=scale.runs, seed=SEED, evaluate_every=10,
                            methods=titled, **scale.settings()[setting])  # fmt: skip
    return montecarlo.run(experiment, scale.jobs, progress=False)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def end(curves: Curves, j: int) -> str:
    """The mean of the last fifth in dB."""
    return f"{curves.point(j, 'steady').value:.2f}"


def kb(curves: Curves, j: int) -> str:
    """kB, up and down, to -12 dB."""
    found = bytes_to_target(curves, j, -12.0).bytes
    return "-" if found == np.inf else f"{found / 1000:.3g}"


def at(curves: Curves, j: int, n: int) -> str:
    """dB before round n, or the next that was judged."""
    return f"{curves.mse_db[j][curves.rounds >= n][0]:.2f}"


# Constants.

MODULES: Mapping[str, Any] = {  # where each is looked up when it is used
    **dict.fromkeys(("RECENT", "SAFE", "RELEASE"), server), "FLAT": memofed,
    **dict.fromkeys(("DAMP", "OWN", "WORTH"), messages),
}  # fmt: skip
VALUES: Mapping[str, tuple[float, ...]] = {
    "DAMP": (0.0075, 0.03, 0.12), "RECENT": (0.125, 0.5, 2.0), "SAFE": (0.3, 0.6, 0.9),
    "RELEASE": (0.96, 0.99, 0.9975), "FLAT": (0.25e-4, 1e-4, 4e-4), "OWN": (5.0, 20.0, 80.0),
    "WORTH": (1.0, 2.0, 4.0),
}  # fmt: skip
OPTIONS: Mapping[str, tuple[float | int, ...]] = {
    "silent": (2, 10, 40), "ridge": (0.25, 1.0, 4.0), "size": (40, 80, 160), "bits": (2, 4, 8),
}  # fmt: skip


@contextmanager
def patched(module: Any, name: str, value: float) -> Iterator[None]:
    """The module with another constant; threads see it, so runs have to be computed by threads."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def constants(scale: Scale) -> str:
    """Each constant and some options, at a quarter or half and at twice or four times its value."""
    both = [memofed.Options(budget=budget) for budget in BUDGETS.values()]
    rows = []
    for name, values in VALUES.items():
        cells = []
        for value in values:
            with patched(MODULES[name], name, value):
                cells.append(play(scale, "steady", both))
        rows += _row(name, values, cells)
    for name, choices in OPTIONS.items():
        changed = [[replace(o, **{name: value}) for o in both] for value in choices]
        rows += _row(name, choices, [play(scale, "steady", forms) for forms in changed])
    head = [f"{what}, {b}" for b in BUDGETS for what in ("last fifth, dB", "kB to -12 dB")]
    return table(["constant", "values", *head], rows)


def _row(name: str, values: Sequence[float], curves: Sequence[Curves]) -> list[list[str]]:
    found = [
        " / ".join(show(c, j) for c in curves) for j in range(len(BUDGETS)) for show in (end, kb)
    ]
    return [[f"`{name}`", " / ".join(f"{v:g}" for v in values), *found]]


# Options.


def sizes(scale: Scale) -> str:
    """What a smaller or larger basis costs and brings."""
    all_sizes = (20, 40, 60, 80, 120, 160)
    rows = []
    forms = [memofed.Options(budget=b, size=d) for d in all_sizes for b in BUDGETS.values()]
    curves, dim = play(scale, "steady", forms), Experiment().dim
    for i, d in enumerate(all_sizes):
        adds, held = dim * d + d * d + d, 8 * (dim * d + d * d) / 1000
        both = range(2 * i, 2 * i + 2)
        cells = [show(curves, j) for j in both for show in (end, kb)]
        contact = 2 * messages.Values(d, 4, "float32", (6,)).nbytes(up=True)
        rows.append([f"{d}", *cells, f"{contact}", f"{adds:,}", f"{adds / (2 * dim):.0f}",
                     f"{held:.0f}"])  # fmt: skip
    head = [f"{what}, {b}" for b in BUDGETS for what in ("last fifth, dB", "kB to -12 dB")]
    more = ["bytes of a contact", "multiply-adds a sample", "over LMS", "kB for T and A"]
    return table(["d", *head, *more], rows)


def floor(scale: Scale) -> str:
    """What it costs to wait for samples before anything leaves a client."""
    all_floors, shown = (1, 10, 20, 42, 80), (50, 100, 200)
    forms = [memofed.Options(budget=b, least=n) for n in all_floors for b in BUDGETS.values()]
    curves = play(scale, "steady", forms)
    rows = []
    for i, least in enumerate(all_floors):
        cells = []
        for j in range(2 * i, 2 * i + 2):
            cells += [*(at(curves, j, n) for n in shown), end(curves, j), kb(curves, j)]
        rows.append([f"{least}", *cells])
    what = [*(f"n={n}" for n in shown), "last fifth, dB", "kB to -12 dB"]
    return table(["least", *(f"{w}, {b}" for b in BUDGETS for w in what)], rows)


def attacked(scale: Scale) -> str:
    """Clients with wrong labels, without a defence and with clip, in dB over the clean run."""
    kinds = None, clip.Options()
    wrong = (
        None, labels.Options(), labels.Options(factor=100), labels.Options(factor=0),
        stuck.Options(), labels.Options(share=0.2), labels.Options(share=0.3),
    )  # fmt: skip
    rows = []
    for clients in (10, 100):
        plain = Experiment(clients=clients, rounds=scale.rounds, runs=scale.runs, seed=SEED,
                           evaluate_every=10, methods=(memofed.Options(),))  # fmt: skip
        clean = None
        for attack in wrong:
            both = [replace(plain, attack=attack, defence=kind) for kind in kinds]
            ends = [
                montecarlo.run(one, scale.jobs, progress=False).point(0, "steady").value
                for one in both
            ]
            clean = ends[0] if clean is None else clean
            what = "nobody" if attack is None else f"{attack.share:.0%}: {attack.describe()}"
            rows.append([f"{clients}", what, *(f"{one - clean:+.2f}" for one in ends)])
    return table(["clients", "malicious", "no defence, dB", "clip, dB"], rows)


def forgetting(scale: Scale) -> str:
    """Everything remembered, and forgotten at a fixed rate: on three streams."""
    forms: dict[str, dict[str, Any]] = {
        "remembers": {}, "forgets 0.995": {"forget": 0.995}, "forgets 0.99": {"forget": 0.99},
    }  # fmt: skip
    half = scale.rounds // 2
    shown = [100, half, half + 50, half + 100, half + 200, half + scale.rounds // 6]
    rows = []
    for setting in scale.settings():
        for budget, each in BUDGETS.items():
            made = [memofed.Options(budget=each, **options) for options in forms.values()]
            curves = play(scale, setting, made)
            for j, name in enumerate(forms):
                cells = [at(curves, j, n) for n in shown]
                rows.append([setting, budget, name, *cells, end(curves, j), kb(curves, j)])
    head = ["f", "traffic", "MEMO-Fed", *(f"n={n}" for n in shown), "last fifth, dB"]
    return table([*head, "kB to -12 dB"], rows)


# What a first upload gives away.


def revealed(scale: Scale) -> str:
    """The sample behind a first upload that is of one sample only: how well it is found."""
    options = memofed.Options(least=1)
    experiment = Experiment(rounds=1, runs=1, seed=SEED, dtype="float64", methods=(options,))
    task = experiment.task(0)
    method = memofed.Method(options, task)
    (chunk,) = draw(experiment, task, everybody=True).chunks()
    worst = []
    for k in range(20):
        client, x, y = method.client(), chunk.x[k, :1], chunk.y[k, :1]
        method.learn_one(client, x, task.features(x), y)
        method.receive_one(client, np.empty(0))
        values = method.upload_one(client)[: method.values.entries]
        found = _fitted(method, method.values.restore(values), np.random.default_rng(k))
        worst.append(np.abs(found - np.append(x[0], y[0])).max())
    spread = [f"{v.std():.2f}" for v in (chunk.x, chunk.y)]
    row = [f"{np.quantile(worst, q):.2g}" for q in (0.1, 0.5, 0.9)]
    head = ["largest error of x and y, 10 %", "50 %", "90 % of clients"]
    return table([*head, "deviation of x", "of y"], [[*row, *spread]])


def _fitted(method: memofed.Method, v: Array, luck: np.random.Generator, starts: int = 20) -> Array:
    """x and y for which y T^T z(x) is nearest to v: Levenberg-Marquardt from some starts."""
    each = 1 / (0.1 * np.abs(v) + 0.02)  # values are rounded to a part of their size
    taps = method.task.taps

    def misses(p: Array) -> Array:
        model: Array = p[:, taps:] * (method.task.features(p[:, :taps]) @ method.T)
        return (model - v) * each

    best = np.inf, np.empty(0)
    for _ in range(starts):
        p, damping = np.append(luck.standard_normal(taps), luck.uniform(0.3, 3)), 0.01
        for _ in range(40):
            around = misses(p + 1e-6 * np.eye(taps + 1))
            here = misses(p[None])[0]
            J = (around - here).T / 1e-6
            H = J.T @ J
            step = np.linalg.solve(H + damping * np.trace(H) * np.eye(len(p)), -J.T @ here)
            better = np.sum(misses((p + step)[None]) ** 2) < here @ here
            p, damping = (p + step, damping / 3) if better else (p, damping * 3)
        best = min(best, (float(np.sum(misses(p[None]) ** 2)), p), key=lambda found: found[0])
    return best[1]


STUDIES: Mapping[str, Study] = {
    "constants": constants, "sizes": sizes, "floor": floor,
    "forgetting": forgetting, "revealed": revealed, "attacked": attacked,
}  # fmt: skip

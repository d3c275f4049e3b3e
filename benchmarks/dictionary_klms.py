"""Kernel LMS with a dictionary beside random features, on one client (docs/extend.md).

python benchmarks/dictionary_klms.py --runs 50

KLMS: W. Liu, P. P. Pokharel, J. C. Principe, "The kernel least-mean-square algorithm", IEEE Trans.
Signal Process., 2008: every sample is a centre, with the coefficient mu e. KNLMS: C. Richard, J. C.
M. Bermudez, P. Honeine, "Online prediction of time series data with kernels", IEEE Trans. Signal
Process., 2009: a sample is a new centre only if its kernel with all others is at most mu_0 (the
coherence criterion), and a normalised step changes all coefficients. QKLMS: B. Chen, S. Zhao, P.
Zhu, J. C. Principe, "Quantized kernel least mean square algorithm", IEEE Trans. Neural Netw. Learn.
Syst., 2012: mu e goes to the nearest centre, if there is one within a radius epsilon; that gives
the dictionary of mu_0 = exp(-epsilon^2 / (2 sigma^2)). The rules are from memory.

Each row has its own step, the best of a grid on other seeds. The kernel is the Gaussian that random
Fourier features approximate. The test is noise-free, on the client's own law.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.experiment import Experiment
from psofed.simulate.draws import draw
from psofed.streams import contract

Array = NDArray[Any]
STEPS = (0.02, 0.05, 0.1, 0.14, 0.2, 0.27, 0.35, 0.5, 0.75, 1.0, 1.4)
PILOT_RUNS, PILOT_SEED = 10, 10**9
TINY = 1e-6  # keeps a normalised step finite


@dataclass(frozen=True)
class Rule:
    """A way to learn; without a coherence it is LMS on random features."""

    title: str
    coherence: float | None = None
    nearest: bool = False  # whether a sample changes one coefficient, or all


RULES = (
    Rule("RFF-KLMS, D = 200"),
    Rule("KLMS, every sample a centre", 1.0, nearest=True),
    *(Rule(f"QKLMS, mu_0 = {c}", c, nearest=True) for c in (0.98, 0.95, 0.9)),
    *(Rule(f"KNLMS, mu_0 = {c}", c) for c in (0.9, 0.8, 0.5)),
)


@dataclass(frozen=True, eq=False)
class Stream:
    """One client of the paper: samples, noise-free test points, the features and sigma."""

    x: Array
    y: Array
    test_x: Array
    test_y: Array
    features: Any
    width: float


def stream(experiment: Experiment, run: int) -> Stream:
    """What run `run` draws."""
    task = experiment.task(run)
    chunks = list(draw(experiment, task, everybody=True).chunks())
    x, y = (np.concatenate([getattr(c, name)[0] for c in chunks]) for name in ("x", "y"))
    test = contract.snapshot(experiment.stream, task.seeds, "test", 1, experiment.test_samples)
    return Stream(x, y, test.x, test.clean, task.features, experiment.features.width)


def gaussian(centres: Array, x: Array, width: float) -> Array:
    """exp(-|c - x|^2 / (2 sigma^2)): [centre] for one x, [x, centre] for several."""
    apart = np.square(centres - x[..., None, :]).sum(axis=-1)
    similar: Array = np.exp(apart * (-0.5 / width**2))
    return similar


def by_dictionary(
    data: Stream, rule: Rule, steps: Array, marks: Sequence[int]
) -> Iterator[tuple[Array, Array]]:
    """Centres [m, L] and coefficients [step, m] after each of `marks` samples."""
    centres, a = np.empty_like(data.x), np.zeros((len(steps), len(data.x)))
    m = 0
    for n, (x, y) in enumerate(zip(data.x, data.y, strict=True), start=1):
        h = gaussian(centres[:m], x, data.width)
        e = y - a[:, :m] @ h
        new = not m or h.max() <= rule.coherence
        if new:
            centres[m], m = x, m + 1
        if rule.nearest:
            a[:, m - 1 if new else int(h.argmax())] += steps * e
        else:
            h = np.append(h, 1.0) if new else h
            a[:, :m] += np.outer(steps * e / (TINY + h @ h), h)
        if n in marks:
            yield centres[:m], a[:, :m]


def by_features(data: Stream, steps: Array, marks: Sequence[int]) -> Iterator[Array]:
    """w [step, D] of LMS on random features after each of `marks` samples."""
    w = np.zeros((len(steps), data.features.dim))
    for n, (z, y) in enumerate(zip(data.features(data.x), data.y, strict=True), start=1):
        w += np.outer(steps * (y - w @ z), z)
        if n in marks:
            yield w


def errors(data: Stream, rule: Rule, steps: Array, marks: Sequence[int]) -> tuple[Array, list[int]]:
    """Test MSE [mark, step], and how many numbers are learned at each mark."""
    found, sizes = [], []
    if rule.coherence is None:
        z = data.features(data.test_x)
        for w in by_features(data, steps, marks):
            found.append(np.square(w @ z.T - data.test_y).mean(axis=1))
            sizes.append(w.shape[1])
    else:
        for centres, a in by_dictionary(data, rule, steps, marks):
            h = gaussian(centres, data.test_x, data.width)
            found.append(np.square(a @ h.T - data.test_y).mean(axis=1))
            sizes.append(len(centres))
    return np.array(found), sizes


def multiplications(rule: Rule, size: int, taps: int) -> int:
    """Multiply-adds for one sample: phases or distances, the prediction, the change."""
    if rule.coherence is None:
        return size * (taps + 2)
    return size * (taps + 1) + (1 if rule.nearest else 2 * size)


def row(rule: Rule, experiment: Experiment, marks: Sequence[int]) -> list[str]:
    """One line of the table."""
    steps, pilot = np.array(STEPS), replace(experiment, seed=PILOT_SEED)
    runs = range(min(experiment.runs, PILOT_RUNS))
    with np.errstate(over="ignore", invalid="ignore"):  # a step that is too large is a result
        tried = np.mean([errors(stream(pilot, r), rule, steps, marks)[0][-1] for r in runs], axis=0)
    best = steps[[int(np.nanargmin(tried))]]
    done = [errors(stream(experiment, r), rule, best, marks) for r in range(experiment.runs)]
    mse = np.array([found[:, 0] for found, _ in done])
    mean, error = mse.mean(axis=0), mse.std(axis=0, ddof=1) / np.sqrt(len(mse))
    sizes = np.mean([sizes for _, sizes in done], axis=0)
    cost = multiplications(rule, round(float(sizes[-1])), experiment.stream.taps)
    levels = [
        f"{10 * np.log10(a):.2f} ± {10 / np.log(10) * b / a:.2f}"
        for a, b in zip(mean, error, strict=True)
    ]
    return [rule.title, f"{best[0]:g}", *levels, *(f"{s:.0f}" for s in sizes), f"{cost:,}"]


def table(runs: int, samples: int) -> list[list[str]]:
    """The head, and a row for each rule."""
    experiment = Experiment(clients=1, cohort=1, rounds=samples, runs=runs, dtype="float64")
    marks = (max(samples // 4, 1), samples)
    head = ["learner", "step", *(f"dB after {n:,}" for n in marks)]
    head += [*(f"numbers after {n:,}" for n in marks), "multiply-adds a sample"]
    return [head, *(row(rule, experiment, marks) for rule in RULES)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50, help="2 or more")
    parser.add_argument("--samples", type=int, default=2000)
    args = parser.parse_args()
    head, *rows = table(args.runs, args.samples)
    for cells in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

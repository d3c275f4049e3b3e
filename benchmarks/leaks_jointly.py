"""Masked sums over several rounds: what they determine, what our search finds, and the rule tried.

    python benchmarks/leaks_jointly.py [--only read,rank,...] [--seeds 1]

All clients (but in `closed`) take part in each round of PSO-Fed, coordinated, D = 200, L = 4, on
the paper's stream (a delay line); the server has the sums mod 2^32 and what is public.

read, ten: `psofed study privacy` on settings in which no round alone is enough; ten takes minutes.
rank: shares of samples that the first T rounds determine, by rank at the truth.
closed: the same over 12 rounds, in settings that the rule calls closed.
rule: the rule is M <= c / 2. A stronger server than ours: it knows all samples before the last T
    rounds, the law of the AR(1) inputs and its theta = 0.9; for the second number also each
    a = mu e to 0.1, as in a first round if it knows f, and for the third to the last digit, as if
    models of its choice had made errors known. Shares of samples, to READ.
outlier: the same of one round, for a sample with a far larger error than the others.
independent: the same of one round and of independent inputs: the rule is M <= c (L + 1) / 4.
digits: samples of few digits in a first round, where errors are labels. All that half of the
    clients may have sent is met with all that the others may: how many explanations there are.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import combinations_with_replacement, product
from math import comb
from time import process_time
from typing import Any

import numpy as np

from psofed.core.features import cosine
from psofed.core.seeds import Seeds
from psofed.experiment import Experiment, Features
from psofed.fleet.protocol.deployment import Deploy
from psofed.methods import psofed
from psofed.privacy import audit, view
from psofed.privacy.attack import Reader
from psofed.privacy.inversion import READ, Guess, InverseProblem, apart, pose, spread
from psofed.stages.mask import added, mean, words
from psofed.stages.privacy import Privacy

SEED, DIM, TAPS, WIDTH, THETA = 20, 200, 4, 2.0, 0.9
ERROR = 0.6  # deviation of a = mu e
READ_ALL, TEN = [(5, 20, 8), (7, 32, 8)], [(10, 40, 6)]  # clients, M, rounds
RANK = [(K, 40, T) for K in (10, 19, 20, 21, 30) for T in (1, 2, 3, 4, 8)]
RULE = [(c, M, T) for c, M in ((10, 2), (6, 3), (10, 5), (20, 10), (10, 10), (20, 20), (10, 19))
        for T in (1, 4, 12)]  # fmt: skip
# Clients, cohort, M, D, mask: other cohorts in each round; windows that overlap by half; all of D.
CLOSED = [(8, 6, 2, 200, "subset"), (12, 10, 3, 200, "block"), (10, 10, 3, 12, "subset"),
          (10, 10, 3, 3, "subset"), (14, 10, 3, 3, "subset")]  # fmt: skip
APART = (10, 12), (10, 25), (10, 40), (10, 49), (10, 55)  # clients, M
OUTLIER = [(10, 5, 10), (10, 5, 30), (10, 5, 100)]  # clients, M, times
KNOWN = 1.0, 0.1, 1e-9  # deviations of a that the server is left with
VALUES, DIGITS = 4, [(4, 1), (4, 2), (6, 2), (6, 3), (8, 4)]  # of each input; clients, M


def audited(clients: int, shared: int, rounds: int, seed: int, **more: Any) -> Any:
    """What the tool says."""
    options = psofed.Options(shared, "coordinated", mask=more.pop("mask", "subset"))
    setting = {"clients": clients, "cohort": clients, "methods": (options,)} | more
    privacy = Privacy(masks=True)
    experiment = Experiment(rounds=rounds, seed=seed, privacy=privacy, **setting)
    seen = view.play(view.deployed(experiment, 0, Deploy()), rounds)
    return audit.of_view(seen, audit.whom(seen, clients), "", lambda name: lambda done, of: None)


def read(job: Any, seed: int) -> str:
    """Determined and found."""
    begin, found = process_time(), audited(*job, seed)
    taken = process_time() - begin
    shares = f"determined {100 * found.determined:.0f} %, read {100 * found.read:.0f} %"
    return f"{shares} of {found.samples}; {found.gauge}; {taken:.0f} s"


def rank(job: Any, seed: int, **more: Any) -> str:
    """Determined alone: nothing is searched."""
    kept, Reader._solve = Reader._solve, lambda reader: None  # type: ignore[method-assign]
    fit, Reader._best_fit = Reader._best_fit, lambda *_: None  # type: ignore[method-assign]
    try:
        found = audited(*job, seed, **more)
    finally:
        Reader._solve, Reader._best_fit = kept, fit  # type: ignore[method-assign]
    return f"determined {100 * found.determined:.1f} %, {found.gauge}"


def closed(job: Any, seed: int) -> str:
    """The same in settings that the rule calls closed, with sums over more than `least` clients."""
    clients, cohort, shared, dim, mask = job
    more = {"cohort": cohort, "features": Features(dim=dim), "mask": mask}
    return rank((clients, shared, 12), seed, **more)


def sums(clients: int, shared: int, rounds: int, seed: int) -> tuple[InverseProblem, Any, Any]:
    """The sums of T rounds in a row, of which all before are known, and the truth u, a."""
    seeds = Seeds(SEED, seed)
    luck, features = seeds.generator("planted"), cosine(seeds, DIM, TAPS, WIDTH)
    each, series = rounds + TAPS - 1, []
    for _ in range(clients):
        x = [luck.standard_normal()]
        for _ in range(each - 1):
            x.append(THETA * x[-1] + np.sqrt(1 - THETA**2) * luck.standard_normal())
        series.append(x)
    u, a = np.concatenate(series), ERROR * luck.standard_normal(clients * rounds)
    first = np.arange(rounds)[:, None] + np.arange(TAPS)[::-1]
    layout = np.vstack([first + k * each for k in range(clients)])
    time = np.tile(np.arange(rounds), clients)
    windows = [luck.permutation(DIM)[:shared] for _ in range(rounds)]
    entries, until = np.concatenate(windows), np.repeat(np.arange(rounds), shared)
    terms = time == until[:, None]
    known = np.full(len(u), np.nan)
    for k in range(clients):  # the inputs of the samples before
        known[k * each : k * each + TAPS - 1] = u[k * each : k * each + TAPS - 1]
    change = np.vecdot(terms * a, features(u[layout])[:, entries].T)
    noise = np.sqrt(clients / 12) / Privacy(masks=True).scale(clients)
    change += noise * luck.standard_normal(len(change))
    return pose(features, entries, change, layout, Guess(a=ERROR), noise, terms, known), u, a


def law(x: Any) -> Any:
    """The innovations of AR(1) series, over their deviation, and their slopes."""
    T, rate = x.shape[-2], 1 / np.sqrt(1 - THETA**2)
    row = rate * (np.eye(TAPS)[0] - THETA * np.eye(TAPS)[1])
    slopes = np.zeros((*x.shape, T))
    slopes[..., np.arange(T), :, np.arange(T)] = row
    return x @ row, slopes


def rule(job: Any, seed: int) -> str:
    """Shares of samples of which a server with all this knowledge has the newest input, to READ."""
    problem, u, a = sums(*job, seed)
    return told(replace(problem, clue=law, clues=len(a)), u, a)


def told(problem: InverseProblem, u: Any, a: Any) -> str:
    """Shares of samples that are determined, the more is known of errors the more."""
    shares = [100 * (spread(replace(problem, a=each), u, a) <= READ).mean() for each in KNOWN]
    return "determined {:.1f} %, if errors are nearly known {:.1f} %, known {:.1f} %".format(
        *shares
    )


def outlier(job: Any, seed: int) -> str:
    """Whether one sample with an error so many times larger than the others' is determined."""
    clients, shared, times = job
    problem, u, a = sums(clients, shared, 1, seed)
    a[0] = times * ERROR
    left = spread(replace(problem, clue=law, clues=len(a)), u, a)[0]
    return "determined" if left <= READ else "not determined"


def independent(job: Any, seed: int) -> str:
    """The same of a sum of samples whose inputs are independent."""
    clients, shared = job
    seeds = Seeds(SEED, seed)
    luck, features = seeds.generator("apart"), cosine(seeds, DIM, TAPS, WIDTH)
    u, a = luck.standard_normal(clients * TAPS), ERROR * luck.standard_normal(clients)
    entries, layout = luck.permutation(DIM)[:shared], apart(clients, TAPS)
    noise = np.sqrt(clients / 12) / Privacy(masks=True).scale(clients)
    change = a @ features(u[layout])[:, entries] + noise * luck.standard_normal(shared)
    return told(pose(features, entries, change, layout, Guess(a=ERROR), noise), u, a)


def digits(job: Any, seed: int) -> str:
    """How many sets of samples, two inputs of VALUES values and a label of two, explain a sum."""
    clients, shared = job
    seeds = Seeds(SEED, seed)
    luck, features = seeds.generator("digits"), cosine(seeds, DIM, 2, WIDTH)
    grid = np.linspace(-1.5, 1.5, VALUES)
    every = np.array([[*x, y] for x in product(grid, grid) for y in (-1.0, 0.7)])
    z = 0.75 * every[:, 2:] * features(every[:, :2])[:, luck.permutation(DIM)[:shared]]
    privacy, true = Privacy(masks=True), luck.integers(len(every), size=clients)
    scale = privacy.scale(clients)
    sent = added(words(z[true], scale, privacy.range))
    total = clients * mean(sent, scale, privacy.range, clients)
    sets = np.array([*combinations_with_replacement(range(len(every)), clients // 2)])
    half, off = z[sets].sum(axis=1), clients / scale
    order = half[:, 0].argsort()
    half, sets = half[order], sets[order]
    fits = set()
    for one, rest in zip(sets, total - half, strict=True):
        near = slice(*half[:, 0].searchsorted([rest[0] - off, rest[0] + off]))
        others = sets[near][(np.abs(half[near] - rest) <= off).all(axis=1)]
        fits |= {tuple(sorted([*one, *other])) for other in others}
    assert tuple(sorted(true)) in fits
    return f"{len(fits)} of {comb(len(every) + clients - 1, clients):,} sets of samples fit"


PARTS = {"read": (read, READ_ALL), "ten": (read, TEN), "rank": (rank, RANK),
         "closed": (closed, CLOSED),
         "rule": (rule, RULE), "outlier": (outlier, OUTLIER), "independent": (independent, APART),
         "digits": (digits, DIGITS)}  # fmt: skip


def main() -> None:
    """Print a line for each setting and seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--seeds", type=int, default=1)
    asked = parser.parse_args()
    for name in asked.only.split(","):
        part, jobs = PARTS[name]
        for job in jobs:
            for seed in range(asked.seeds):
                print(name, *job, f"seed {seed}:", part(job, seed), flush=True)


if __name__ == "__main__":
    main()

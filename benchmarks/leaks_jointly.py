"""Masked sums over several rounds: what they determine, what our search finds, and the rule tried.

    python benchmarks/leaks_jointly.py [--only read,rank,...] [--seeds 1]

All clients (but in `closed`) take part in each round of PSO-Fed, coordinated, D = 200, L = 4, on
the paper's stream (a delay line); the server has the sums mod 2^32 and what is public.

read, ten: `psofed study privacy` on settings in which no round alone is enough; ten takes minutes.
rank: shares of samples that the first T rounds determine, by rank at the truth.
closed: the same over 12 rounds, in settings that the rule calls closed.
rule: the rule is M <= c. A stronger server than ours: it knows all samples before the last T
    rounds, the law of the AR(1) inputs and its theta = 0.9; for the second number also each
    a = mu e, as if models of its choice had made them known. Shares of samples, to READ.
independent: the same of one round and of independent inputs, where the rule is M <= c (L + 1) / 2.
digits: inputs of 6 bits, all older samples known; each guess of the c new inputs is tried.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
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
from psofed.stages.privacy import Privacy

SEED, DIM, TAPS, WIDTH, THETA = 20, 200, 4, 2.0, 0.9
ERROR = 0.6  # deviation of a = mu e
READ_ALL, TEN = [(5, 20, 8), (7, 32, 8)], [(10, 40, 6)]  # clients, M, rounds
RANK = [(K, 40, T) for K in (10, 19, 20, 21, 30) for T in (1, 2, 3, 4, 8)]
RULE = [(c, M, T) for c, M in ((10, 2), (10, 5), (6, 6), (10, 10), (20, 20), (10, 15), (10, 19))
        for T in (1, 4, 12)]  # fmt: skip
# Clients, cohort, M, D, mask: other cohorts in each round; windows that overlap by half; all of D.
CLOSED = [(8, 6, 4, 200, "subset"), (12, 10, 6, 200, "block"), (10, 10, 6, 12, "subset"),
          (10, 10, 6, 6, "subset"), (14, 10, 6, 6, "subset")]  # fmt: skip
APART = (10, 10), (10, 25), (10, 40), (10, 49), (10, 55)  # clients, M
LEVELS, DIGITS = 64, [(3, M) for M in (2, 3, 4, 5)]


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
    posed = replace(problem, clue=law, clues=len(a))
    unsure, told = (spread(each, u, a) for each in (posed, replace(posed, a=1e-9)))
    shares = (100 * (left <= READ).mean() for left in (unsure, told))
    return "determined {:.1f} %, if errors are known {:.1f} %".format(*shares)


def independent(job: Any, seed: int) -> str:
    """The same of a sum of samples whose inputs are independent."""
    clients, shared = job
    seeds = Seeds(SEED, seed)
    luck, features = seeds.generator("apart"), cosine(seeds, DIM, TAPS, WIDTH)
    u, a = luck.standard_normal(clients * TAPS), ERROR * luck.standard_normal(clients)
    entries, layout = luck.permutation(DIM)[:shared], apart(clients, TAPS)
    noise = np.sqrt(clients / 12) / Privacy(masks=True).scale(clients)
    change = a @ features(u[layout])[:, entries] + noise * luck.standard_normal(shared)
    posed = pose(features, entries, change, layout, Guess(a=ERROR), noise)
    unsure, told = (spread(each, u, a) for each in (posed, replace(posed, a=1e-9)))
    shares = (100 * (left <= READ).mean() for left in (unsure, told))
    return "determined {:.1f} %, if errors are known {:.1f} %".format(*shares)


def digits(job: Any, seed: int) -> str:
    """Whether one guess of all new inputs, and no other, explains a round."""
    clients, shared = job
    seeds = Seeds(SEED, seed)
    luck, features = seeds.generator("digits"), cosine(seeds, DIM, TAPS, WIDTH)
    grid, entries = np.linspace(-2.5, 2.5, LEVELS), luck.permutation(DIM)[:shared]
    older = grid[luck.integers(LEVELS, size=(clients, TAPS - 1))]
    true = luck.integers(LEVELS, size=clients)
    x = np.stack([np.column_stack([grid, np.tile(each, (LEVELS, 1))]) for each in older])
    z = features(x)[:, :, entries]  # [client, guess, M]
    scale = Privacy(masks=True).scale(clients)
    a = ERROR * luck.standard_normal(clients)
    change = a @ z[np.arange(clients), true]
    change += np.sqrt(clients / 12) / scale * luck.standard_normal(shared)
    if shared <= clients:
        return "nothing to compare: any guess has errors that fit"
    guesses = np.stack(np.meshgrid(*[np.arange(LEVELS)] * clients, indexing="ij"), -1)
    guesses = guesses.reshape(-1, clients)
    Z = np.stack([z[k, guesses[:, k]] for k in range(clients)], axis=1)  # [G, c, M]
    gram = Z @ np.swapaxes(Z, 1, 2) + 1e-12 * np.eye(clients)
    fit = np.linalg.solve(gram, (Z @ change)[..., None])
    left = change - (np.swapaxes(fit, 1, 2) @ Z)[:, 0]
    misfit = np.sqrt(np.square(left).sum(axis=1) / (shared - clients)) * scale
    fits = misfit <= 3 * np.sqrt(clients / 12) * np.sqrt(shared)
    best = (guesses[misfit.argmin()] == true).all()
    found = f"{int(fits.sum())} of {len(guesses)} guesses fit"
    return f"{found}; the best is {'' if best else 'not '}true"


PARTS = {"read": (read, READ_ALL), "ten": (read, TEN), "rank": (rank, RANK),
         "closed": (closed, CLOSED),
         "rule": (rule, RULE), "independent": (independent, APART),
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

"""Two parts of leaks.py: several contacts of one client, and MEMO-Fed's first upload.

contacts: 4 of 100 clients take part in a round of PSO-Fed, M = 40 of D = 200, float32. One client
is followed over J contacts. Eq. (9) and (10): at contact n window n comes down, sample n is
learned, window n + 1 goes up. So an entry tells the sum of what was learned since it was last
exchanged, in either way. `newest` are the samples of rounds with a contact, `idle` all others.
The attack solves the newest samples first, and goes back as long as equations are left.

memo: a client of the paper's stream sends its first upload after n samples, four bits a value.
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from psofed.core.features import cosine
from psofed.core.seeds import Seeds
from psofed.experiment import Experiment
from psofed.methods import memofed
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
from psofed.simulate.draws import draw

sys.path.append(str(Path(__file__).parent.parent / "examples"))
import first_upload

SEED, DIM, TAPS, WIDTH = 20, 200, 4, 2.0
SIZE, ERROR = 0.3, 0.6  # deviations of the entries of a model, and of a = mu e
NOISE = SIZE * float(np.finfo(np.float32).eps) / 3
SLOPE = 0.1  # of a feature, at most about: sqrt(2 / D) |W_i|
TERMS, STARTS = 10, 48  # terms at once, and starts, of a step of the attack on contacts


@dataclass(frozen=True)
class Plan:
    """Who is asked when, and which entries travel."""

    mask: str  # "subset" with a shift of 1, or "block" with a shift of M
    line: bool
    contacts: int
    shared: int = 40
    clients: int = 100
    cohort: int = 4


@dataclass(frozen=True, eq=False)
class Story:
    """All that was exchanged: entries, and changes by the samples since <= t <= until."""

    features: Any
    layout: Any
    rounds: list[int]
    entries: Any
    change: Any
    since: Any
    until: Any
    u: Any  # the truth
    a: Any

    def terms(self, chosen: Any) -> Any:
        """Which samples are in these equations [E, T]."""
        t = np.arange(len(self.a))
        return (t >= self.since[chosen][:, None]) & (t <= self.until[chosen][:, None])


def story(plan: Plan, trial: int) -> Story:
    """What a client exchanges, from a known start."""
    seeds, M = Seeds(SEED, trial), plan.shared
    luck, features = seeds.generator("contacts"), cosine(seeds, DIM, TAPS, WIDTH)
    rounds = np.cumsum(luck.geometric(plan.cohort / plan.clients, plan.contacts)) - 1
    T = int(rounds[-1]) + 1
    block = plan.mask == "block"
    first, shift = (np.arange(M), M) if block else (luck.permutation(DIM)[:M], 1)
    layout = (delayed if plan.line else apart)(T, TAPS)
    u, a = luck.standard_normal(int(layout.max()) + 1), ERROR * luck.standard_normal(T)
    learned, known, rows = a[:, None] * features(u[layout]), np.zeros(DIM, np.intp), []
    for n in rounds.tolist():
        known[(first + shift * n) % DIM] = n
        up = (first + shift * (n + 1)) % DIM
        change = [learned[known[i] : n + 1, i].sum() for i in up.tolist()]
        change += NOISE * luck.standard_normal(M)
        rows.append((up, change, known[up], np.full(M, n)))
        known[up] = n + 1
    parts = (np.concatenate(each) for each in zip(*rows, strict=True))
    return Story(features, layout, rounds.tolist(), *parts, u, a)


def contacts(plan: Plan, trials: int) -> dict[str, Any]:
    """Counts, and shares of samples: determined by all equations, and found by the attack."""
    rows, begin = [], time.process_time()
    for i in range(trials):
        told = story(plan, i)
        everything = np.arange(len(told.entries))
        terms = told.terms(everything)
        problem = pose(
            told.features, told.entries, told.change, told.layout, Guess(a=ERROR), NOISE, terms
        )
        determined = spread(problem, told.u, told.a) <= READ
        found, wrong = attacked(told)
        row = [len(told.a), problem.unknowns, problem.equations, wrong]
        for each in (determined, found):
            newest = each[told.rounds]
            row += [each.mean(), newest.mean(), np.delete(each, told.rounds).mean()]
        rows.append(row)
    names = ["samples", "unknowns", "equations", "wrong"]
    names += [f"{a}{b}" for a in ("determined", "found") for b in ("", " newest", " idle")]
    means = dict(zip(names, np.nanmean(rows, axis=0).tolist(), strict=True))
    seconds = (time.process_time() - begin) / trials
    return {**asdict(plan), "trials": trials, **means, "seconds": seconds}


def attacked(told: Story) -> tuple[Any, float]:
    """Which samples are read for sure [T], and the share of samples that are sure but wrong."""
    T = len(told.a)
    u, a, loose = np.full(len(told.u), np.nan), np.full(T, np.nan), np.zeros(T)
    luck = Seeds(SEED).generator("luck")
    for n in told.rounds:
        for since in sorted(set(told.since[told.until == n].tolist()), reverse=True):
            open_terms = np.flatnonzero(np.isnan(a[: n + 1]) & (np.arange(n + 1) >= since))
            if len(open_terms) > TERMS:
                break
            if len(open_terms):
                _solve(told, n, open_terms, u, a, loose, luck)
    # Samples that are only seen together have no order: any place will do.
    x = u[told.layout[np.isfinite(a)]]
    near = np.abs(x[:, None] - told.u[told.layout]).max(axis=-1) <= READ
    return near.any(axis=0), float((~near.any(axis=1)).sum() / T)


def _solve(
    told: Story, n: int, terms: Any, u: Any, a: Any, loose: Any, luck: np.random.Generator
) -> None:
    """Samples `terms` from all equations up to round n that have no other unknown samples."""
    T = len(a)
    unknown, wanted = np.isnan(a), np.isin(np.arange(T), terms)
    contains = told.terms(np.arange(len(told.entries)))
    fits = (contains & wanted).any(axis=1) & ~(contains & unknown & ~wanted).any(axis=1)
    chosen = np.flatnonzero(fits & (told.until <= n))
    contains = contains[chosen]
    names, layout = np.unique(told.layout[terms], return_inverse=True)
    layout = layout.reshape(len(terms), TAPS)
    if len(chosen) <= np.isnan(u[names]).sum() + len(terms):
        return
    solved = np.flatnonzero(~unknown)
    z = told.features(u[told.layout[solved]])[:, told.entries[chosen]]
    change = told.change[chosen] - ((contains[:, solved] * a[solved]) * z.T).sum(axis=1)
    off = contains[:, solved] * np.square(SLOPE * a[solved] * loose[solved])
    noise = np.sqrt(NOISE**2 + off.sum(axis=1))
    entries, which = told.entries[chosen], contains[:, terms]
    problem = pose(told.features, entries, change, layout, Guess(a=ERROR), noise, which, u[names])
    found = invert(problem, luck, STARTS, 1)
    sure = found.certain
    u[told.layout[terms[sure]]] = found.x[sure]
    a[terms[sure]], loose[terms[sure]] = found.a[sure], found.spread[sure]


# MEMO-Fed.


@dataclass(frozen=True)
class Upload:
    """A first upload after n samples."""

    samples: int
    bits: int | None = 4


def memo(job: Upload, trials: int) -> dict[str, Any]:
    """Shares of samples, within 0.05 and 0.2 of a deviation of the inputs; errors of x and y."""
    n, options = job.samples, memofed.Options(least=1, bits=job.bits)
    experiment = Experiment(rounds=n, runs=1, seed=SEED, dtype="float64", methods=(options,))
    task = experiment.task(0)
    method = memofed.Method(options, task)
    (chunk,) = draw(experiment, task, everybody=True).chunks()
    deviation, rows, begin = chunk.x.std(), [], time.process_time()
    starts = 48 if n <= 6 else 16 if n <= 12 else 4
    for k in range(trials):
        x, y = chunk.x[k, :n], chunk.y[k, :n]
        problem = posed(method, x, y)
        u = np.empty(int(problem.layout.max()) + 1)
        u[problem.layout] = x
        left = spread(problem, u, y / n) * problem.std.mean() / deviation
        found = invert(problem, Seeds(SEED, k).generator("luck"), starts, 1)
        miss = np.abs(found.x[:, None] - x).max(axis=-1)  # [found, true]
        nearest = miss.argmin(axis=0)
        labels = first_upload.labels(method, found.x, found.a, np.zeros(method.size))
        miss = miss.min(axis=0)
        rows.append([(left <= READ).mean(), (left <= 4 * READ).mean(),
                     (miss <= READ * deviation).mean(), (miss <= 4 * READ * deviation).mean(),
                     np.median(miss), np.median(np.abs(labels[nearest] - y))])  # fmt: skip
    names = "determined", "determined to 0.2", "found", "found to 0.2", "error of x", "error of y"
    means = dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))
    counts = {"unknowns": problem.unknowns, "equations": problem.equations, "starts": starts}
    seconds = (time.process_time() - begin) / trials
    return {**asdict(job), **counts, "trials": trials, **means, "seconds": seconds}


def posed(method: memofed.Method, x: Any, y: Any) -> InverseProblem:
    """The problem of the bytes that a client sends after these samples."""
    client = method.client()
    method.learn_one(client, x, method.task.features(x), y)
    method.receive_one(client, np.empty(0))
    message = method.decode(method.encode(method.upload_one(client, len(y) - 1), up=True), up=True)
    return first_upload.problem(method, message, len(y))


PLANS = [Plan(mask, line, J) for mask in ("subset", "block") for line in (False, True)
         for J in (1, 2, 4, 8)]  # fmt: skip
UPLOADS = [Upload(n) for n in (1, 2, 3, 4, 6, 8, 12, 20, 30, 42)]
JOBS: dict[str, list[Any]] = {"contacts": PLANS, "memo": UPLOADS}

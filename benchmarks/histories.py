"""A federation of a few lines: honest clients in all weathers, some that lie for a while.

Each history is played with a defence and with none, on the same draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from seasons import Kept
from trials import Tally, in_a_row

from psofed.curves import to_db
from psofed.stages.defences import clip
from psofed.stages.defences.contract import Setting, bind

PRICE = 0.1  # dB that a defence may cost honest clients
SURE = 3.0  # standard errors, beyond which a difference is no accident
WARM_UP = {"clip": 16}  # changes that are only looked at
D, M, STEP = 24, 8, 0.1
SIZES = ((3, 1), (3, 3), (4, 2), (5, 1), (10, 4), (30, 1), (100, 10))  # K, and of a cohort


class Course(NamedTuple):
    """What honest clients see in round n: the size of the signal, and whether there is new data."""

    size: float = 1.0
    fresh: float = 1.0  # the share of clients whose upload says anything new


COURSES = {
    "steady": lambda n, N: Course(),
    "growth after a quiet phase": lambda n, N: Course(33 ** np.clip((n / N - 0.3) / 0.05, 0, 1)),
    "decay": lambda n, N: Course(0.01 ** np.clip((n / N - 0.3) / 0.2, 0, 1)),
    "a step": lambda n, N: Course(100.0 if n > 0.3 * N else 1.0),
    "a quiet begin": lambda n, N: Course(1.0 if n > 0.1 * N else 1e-4),
    "quiet nights": lambda n, N: Course(1.0 if n * 12 // N % 2 else 0.01),
    "silence of all sensors": lambda n, N: Course(fresh=float(not 0.3 < n / N < 0.5)),
    "slow sensors": lambda n, N: Course(fresh=0.1),
    "ever larger": lambda n, N: Course(1e4 ** (n / N)),
    "ever smaller": lambda n, N: Course(1e-4 ** (n / N)),
}


@dataclass
class Played:
    """What became of a federation: its error in each round, and what was left of each upload."""

    error: np.ndarray
    kept: Kept
    quarantined: np.ndarray


def played(options, course, K, cohort, seed, uploads=150, lie=None, stale=0.0, far=0.0):
    """U_k = step (t_k - w) + noise on M of D entries; w <- w + mean of what is left of them.

    `lie(k, i, U, w)` is what client k sends in its i-th upload instead of U; where clients have no
    new data they send `stale` times their change, as slow sensors do. Client 0 is `far` from the
    others: its model is another one.
    """
    rng, N = np.random.default_rng(seed), -(-uploads * K // cohort)
    defence = options and bind(options, Setting(K, K, D, cohort))
    state = defence and defence.start()
    w, base, count = np.zeros(D), rng.standard_normal(D), np.zeros(K, int)
    own = 0.1 * rng.standard_normal((K, D))
    own[0] += far * rng.standard_normal(D)
    own -= own.mean(axis=0)  # the best common model is that of the course
    error, kept, heard = np.empty(N), Kept(), 0
    for n in range(N):
        now = course(n, N)
        k = np.sort(rng.choice(K, cohort, replace=False))
        entries = (rng.integers(D, size=(cohort, 1)) + np.arange(M)) % D
        noise, idle = rng.standard_normal((cohort, M)), rng.random(cohort) >= now.fresh
        U = STEP * (now.size * ((base + own[k])[np.arange(cohort)[:, None], entries] + noise))
        U -= STEP * w[entries]
        U[idle] *= stale
        for i, one in enumerate(k.tolist()):
            if lie is not None:
                U[i] = lie(one, count[one], U[i], w[entries[i]])
        count[k] += 1
        left = defence.defended(state, n, k, U, entries) if defence else U
        heard += int((U != 0).any(axis=1).sum())
        if defence and heard > WARM_UP[options.name] + K:
            kept.see(k, U, left)
            kept.most = max(kept.most, kept.down())
        np.add.at(w, entries, left / cohort)
        error[n] = np.mean((w / now.size - base) ** 2)
    opinion = defence and defence.opinion(state)
    none = np.zeros(K, bool)
    return Played(error, kept, none if opinion is None else opinion.quarantined)


def dearer(found, twin, first):
    """By how many dB the error is larger from a round on, at least, as far as draws let us know."""
    parts = [np.array_split(each.error[first:], 10) for each in (found, twin)]
    here, there = (np.array([part.mean() for part in some]) for some in parts)
    more = (here - there) / there.mean()
    sure = more.mean() - SURE * more.std(ddof=1) / len(more) ** 0.5
    return to_db(1 + max(sure, 0.0))


LIES = {
    "whispers": lambda U, w: np.full(M, 1e-6),
    "sends what it got": lambda U, w: 0 * U,
    "shouts": lambda U, w: 30 * U,
    "shouts out of all measure": lambda U, w: np.full(M, 1e9),
    "shrinks the model": lambda U, w: -0.1 * w,
    "sends zeros": lambda U, w: -w,
    "pushes one way": lambda U, w: U + 0.3,
    "sends what is not a number": lambda U, w: np.full(M, np.nan),
}


def histories(seed: int, start: int, stop: int) -> Tally:
    """Honest clients whose signal jumps, fades and falls silent, and a fifth that once lied."""
    return in_a_row(lambda number: _history(seed, number), start, stop)


def _history(seed: int, number: int) -> tuple[int, int]:
    chance = np.random.default_rng([seed, number])
    K, cohort = SIZES[chance.integers(len(SIZES))]
    parts = [Course(10.0 ** chance.uniform(-3, 3), float(chance.choice([1, 1, 1, 0.3, 0])))
             for _ in range(chance.integers(2, 7))]  # fmt: skip
    parts.append(Course(parts[-1].size))

    def course(n: int, N: int) -> Course:
        return parts[n * len(parts) // N]

    lie = None
    if number % 2 and K > 3:
        how = tuple(LIES.values())[chance.integers(len(LIES))]
        lie = lambda k, i, U, w: how(U, w) if k < K // 5 and i < 30 else U  # noqa: E731
    uploads = 100 * len(parts)
    found = played(clip.Options(), course, K, cohort, number, uploads, lie)
    twin = played(None, course, K, cohort, number, uploads)
    if lie is None and found.kept.most > 0.5:
        raise AssertionError(f"{found.kept.most:.0%} of the members were heard less at once")
    if found.quarantined.any():
        raise AssertionError(f"in quarantine: {np.flatnonzero(found.quarantined)}")
    if (cost := dearer(found, twin, len(twin.error) * 9 // 10)) > 10 * PRICE:
        raise AssertionError(f"it costs {cost:.2f} dB where the weather is fine again")
    return 0, 0

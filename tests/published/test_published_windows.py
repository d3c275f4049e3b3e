"""PSO-Fed, what is built on it, and partial diffusion, as their equations say: plain loops."""

from itertools import product

import numpy as np
import pytest

from helpers.drawn import D, K, N, agree, drawn, windows
from psofed.methods import paofed, periodic, psofed
from psofed.rivals import etpsofed, pdlms, pdrls, psorls


def diagonal(window):
    return np.diag([1.0 if i in window else 0.0 for i in range(D)])


def pso_fed(world, window, idle=True, every=1):
    """Eq. (8) to (11); every E rounds, if E is not 1."""
    w, w_k, seen = np.zeros(D), np.zeros((K, D)), []
    for n in range(N):
        seen.append(w.copy())
        t, cohort = n // every, world.cohorts[n - n % every]
        if n % every == 0:
            for k in cohort:
                S = diagonal(window(k, t))
                w_k[k] = S @ w + (np.eye(D) - S) @ w_k[k]
        for k in range(K):
            if idle or k in cohort:
                error = world.y[k, n] - w_k[k] @ world.z[k, n]
                w_k[k] = w_k[k] + world.step * world.z[k, n] * error
        if n % every == every - 1:
            total = np.zeros(D)
            for k in cohort:
                S = diagonal(window(k, t + 1))
                total = total + S @ w_k[k] + (np.eye(D) - S) @ w
            w = total / len(cohort)
    return np.array([*seen, w])


PSO = [  # the options of Algorithm 1
    {"shared": 4},
    {"shared": 1, "scheme": "coordinated"},
    {"shared": 3, "mask": "block"},
    {"shared": 5, "shift": 7, "idle": False},
    {"shared": 2, "selection": "stochastic"},
    {"shared": 4, "mask": "groups"},
    {"shared": 5, "mask": "groups", "scheme": "coordinated"},
    {"shared": 5, "mask": "groups", "selection": "stochastic"},
]


@pytest.mark.parametrize("settings", PSO, ids=str)
def test_pso_fed_is_algorithm_1(settings):
    options = psofed.Options(**settings)
    world, models = drawn(options)
    agree(pso_fed(world, windows(world, options), options.idle), models)


@pytest.mark.parametrize(("every", "shared"), [(2, 3), (5, 12), (7, 4)])
def test_periodic_exchanges_are_algorithm_1_every_e_rounds(every, shared):
    options = periodic.Options(shared=shared, local_steps=every)
    world, models = drawn(options)
    agree(pso_fed(world, windows(world, options), every=every), models)


def etpso_fed(world, window, threshold, adapts, chooses):
    """Algorithm 1 whose clients check how large the error of a sample is."""
    w, w_k, square, seen = np.zeros(D), np.zeros((K, D)), np.ones(K), []
    learned = 0
    for n in range(N):
        seen.append(w.copy())
        large = [False] * K
        for k, i in product(world.cohorts[n], range(D)):
            if i in window(k, n):
                w_k[k, i] = w[i]
        for k in range(K):
            error = world.y[k, n] - w_k[k] @ world.z[k, n]
            large[k] = abs(error) >= threshold * square[k] ** 0.5
            if large[k] or not chooses:
                w_k[k] = w_k[k] + world.step * error * world.z[k, n]
                learned += 1
            if adapts:
                square[k] = 0.99 * square[k] + 0.01 * error**2
        total = np.zeros(D)
        for k, i in product(world.cohorts[n], range(D)):
            total[i] += w_k[k, i] if large[k] and i in window(k, n + 1) else w[i]
        w = total / len(world.cohorts[n])
    return np.array([*seen, w]), learned


@pytest.mark.parametrize("samples", ["informative", "all"])
@pytest.mark.parametrize(("unit", "threshold"), [("rms", 0.6), ("error", 0.25)])
def test_etpso_fed_learns_and_sends_where_the_error_is_large(samples, unit, threshold):
    options = etpsofed.Options(shared=4, threshold=threshold, unit=unit, samples=samples)
    world, models = drawn(options)
    wanted, learned = etpso_fed(
        world, windows(world, options), threshold, unit == "rms", samples == "informative"
    )
    agree(wanted, models)
    assert (learned < 0.8 * K * N) == (samples == "informative")


def delay_of(world, delta, k, n):
    """l with P(l >= i) = delta^i, from the uniform number that was drawn."""
    [u] = world.method.task.seeds.uniforms("delay", client=k, round=n, count=1)
    late = 0
    while 1 - u <= delta ** (late + 1):
        late += 1
    return late


def pao_fed(world, window, options):
    """Uploads that arrive late: a mean for each delay, the newest of an entry, weights decay^l."""
    w, w_k, mail, seen = np.zeros(D), np.zeros((K, D)), [], []
    ahead = 1 if options.window == "next" else 0
    for n in range(N):
        seen.append(w.copy())
        cohort = world.cohorts[n]
        if options.availability is not None:
            u = world.method.task.seeds.uniforms("available", round=n, count=K)
            cohort = [k for k in range(K) if u[k] < options.availability]
        for k in cohort:
            for i in window(k, n):
                w_k[k, i] = w[i]
        for k in range(K):
            error = world.y[k, n] - w_k[k] @ world.z[k, n]
            w_k[k] = w_k[k] + world.step * error * world.z[k, n]
        for k in cohort:
            late = delay_of(world, options.delay, k, n)
            if late <= options.longest:
                mail.append((n + late, late, {i: w_k[k, i] for i in window(k, n + ahead)}))
        new, taken = w.copy(), set()
        for late in range(options.longest + 1):
            arrived = [values for when, by, values in mail if when == n and by == late]
            for values in arrived:
                for i in set(values) - taken:
                    new[i] += options.decay**late * (values[i] - w[i]) / len(arrived)
            taken |= {i for values in arrived for i in values}
        w = new
    return np.array([*seen, w])


PAO = [
    {"shared": 4},
    {"shared": 3, "delay": 0.6, "longest": 4, "decay": 0.7, "scheme": "uncoordinated"},
    {"shared": 2, "window": "same", "decay": 1.0, "mask": "subset"},
    {"shared": 6, "availability": 0.4, "delay": 0.5},
]


@pytest.mark.parametrize("settings", PAO, ids=str)
def test_pao_fed_weighs_what_arrives_by_its_delay(settings):
    options = paofed.Options(**settings)
    world, models = drawn(options)
    agree(pao_fed(world, windows(world, options), options), models)


def rls_clients(world, window, forget, start, regular):
    """Algorithm 1 with the gain of RLS, and information that is given back entry by entry."""
    w, w_k, seen = np.zeros(D), np.zeros((K, D)), []
    Q = [np.eye(D) * (min(start, 1 / regular) if regular else start) for _ in range(K)]
    amount = regular * (1 - forget**D)
    for n in range(N):
        seen.append(w.copy())
        for k in world.cohorts[n]:
            for i in window(k, n):
                w_k[k, i] = w[i]
        for k in range(K):
            z, error = world.z[k, n], world.y[k, n] - w_k[k] @ world.z[k, n]
            gain = Q[k] @ z / (forget + z @ Q[k] @ z)
            w_k[k] = w_k[k] + gain * error
            Q[k] = (Q[k] - np.outer(gain, z) @ Q[k]) / forget
            e = np.eye(D)[n % D]
            Q[k] = Q[k] - amount * np.outer(Q[k] @ e, e @ Q[k]) / (1 + amount * e @ Q[k] @ e)
        uploads = [(k, i) for k in world.cohorts[n] for i in window(k, n + 1)]
        change = np.zeros(D)
        for k, i in uploads:
            change[i] += (w_k[k, i] - w[i]) / len(world.cohorts[n])
        w = w + change
    return np.array([*seen, w])


@pytest.mark.parametrize(
    ("forget", "start", "regular"), [(None, 100.0, 0.1), (0.97, 10.0, 0.0), (1.0, 1.0, 0.5)]
)
def test_pso_fed_rls_has_the_gains_of_recursive_least_squares(forget, start, regular):
    options = psorls.Options(shared=4, forget=forget, start=start, regular=regular)
    world, models = drawn(options)
    known = 1 - 1 / (10 * D) if forget is None else forget
    agree(rls_clients(world, windows(world, options), known, start, regular), models)


GRAPHS = {  # the neighbours of each node
    "ring": [sorted({(k + 1) % K, (k - 1) % K}) for k in range(K)],
    "complete": [[j for j in range(K) if j != k] for k in range(K)],
    "star": [[*range(1, K)], *[[0]] * (K - 1)],
}


def diffusion(world, options, forget=None):
    """Adapt by LMS, or by RLS with `forget`; then combine what was heard with one's own."""
    near, window = GRAPHS[options.graph], windows(world, options)
    w, Q, seen = np.zeros((K, D)), [np.eye(D) * 100 for _ in range(K)], []
    for n in range(N):
        seen.append(w)
        phi = np.zeros((K, D))
        for k in range(K):
            z, error = world.z[k, n], world.y[k, n] - w[k] @ world.z[k, n]
            gain = world.step * z
            if forget is not None:
                gain = Q[k] @ z / (forget + z @ Q[k] @ z)
                Q[k] = (Q[k] - np.outer(gain, z) @ Q[k]) / forget
            phi[k] = w[k] + gain * error
        w = np.zeros((K, D))
        for k in range(K):
            own = 1.0
            for j in near[k]:
                share = 1 / (1 + max(len(near[k]), len(near[j])))
                heard = [phi[j, i] if i in window(j, n) else phi[k, i] for i in range(D)]
                w[k] = w[k] + share * np.array(heard)
                own -= share
            w[k] = w[k] + own * phi[k]
    return np.array([*seen, w])


SETTINGS = [
    {"shared": 4, "degree": 2, "selection": "stochastic"},
    {"shared": 5, "degree": 2, "selection": "sequential"},
    {"shared": 5, "graph": "star", "scheme": "coordinated"},
    {"shared": 3, "graph": "complete", "selection": "stochastic"},
    {"shared": 12, "degree": 2},
    {"shared": 7, "graph": "star", "selection": "stochastic", "scheme": "coordinated"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_partial_diffusion_adapts_by_lms_or_rls_and_combines_one_group(settings):
    for options, forget in (
        (pdlms.Options(mask="groups", **settings), None),
        (pdrls.Options(mask="groups", forget=0.98, **settings), 0.98),
    ):
        world, models = drawn(options)
        agree(diffusion(world, options, forget), models)

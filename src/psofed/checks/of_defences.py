"""The rules of a defence: it leaves honest rounds alone, and never makes anything infinite."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.checks.bench import exchange, small, stepwise
from psofed.checks.rules import largest, require
from psofed.defences.contract import Defence, Options, State, Ward, bind
from psofed.methods import onlinefed
from psofed.simulate.onerun import one_run, some_runs

Array = NDArray[Any]
PLACES, DIM, COHORT, SHARED = 12, 8, 6, 4
RUNS = (0, 1, 2)
WATCHED = 4  # rounds in which a defence may fold nothing in


def _bound(options: Options) -> Defence:
    return bind(options, Ward(PLACES, PLACES, DIM, COHORT))


def _round(n: int, size: float = 0.01) -> tuple[Array, Array, Array]:
    """Members, their changes, and the entries, which are the same for all."""
    rng = np.random.default_rng(n)
    k = np.sort(rng.choice(PLACES, COHORT, replace=False))
    entries = np.broadcast_to((np.arange(SHARED) + SHARED * (n % 2)) % DIM, (COHORT, SHARED))
    return k, size * rng.standard_normal((COHORT, SHARED)), entries


def _play(defence: Defence, state: State, rounds: range, attack: float = 0.0) -> list[Array]:
    left = []
    for n in rounds:
        k, changes, entries = _round(n)
        changes[k == 3] += attack
        left.append(defence.defended(state, n, k, changes, entries).copy())
    return left


def the_state_is_arrays(options: Options) -> None:
    """Its state is a dict of arrays, and all that it remembers: saved and loaded, it goes on."""
    whole, first = _bound(options), _bound(options)
    state, half = whole.start(), first.start()
    arrays = [isinstance(array, np.ndarray) for array in dict(state).values()]
    require(all(arrays), "start() does not give a dict of arrays")
    expected = _play(whole, state, range(30), 1.0)
    _play(first, half, range(15), 1.0)
    loaded = {name: array.copy() for name, array in half.items()}
    found = _play(_bound(options), loaded, range(15, 30), 1.0)
    same = all(np.array_equal(a, b) for a, b in zip(found, expected[15:], strict=True))
    require(same, "it judges otherwise: something is kept outside the state")
    require(loaded.keys() == state.keys(), "the names in its state change")


def what_is_given_is_kept(options: Options) -> None:
    """Its arguments stay as they are, and what it gives has their shape and precision."""
    for kind in (np.float32, np.float64):
        defence = _bound(options)
        state = defence.start()
        for n in range(5):
            k, changes, entries = _round(n, 3.0)
            changes = changes.astype(kind)
            before = changes.copy()
            left = defence.defended(state, n, k, changes, entries)
            require(np.array_equal(changes, before), "defended() changes its argument")
            require(left.shape == changes.shape, f"it gives {left.shape}, not {changes.shape}")
            require(left.dtype == kind, f"it gives {left.dtype} where {np.dtype(kind)} is due")


def harmless_rounds_are_left_alone(options: Options) -> None:
    """Small changes of one size, the same for all members, stay to the bit; but for the first."""
    defence = _bound(options)
    state = defence.start()
    for n in range(10):
        k, changes, entries = _round(n, 0.001)
        changes[:] = changes[0] * 0.001 / np.sqrt(np.mean(changes[0] ** 2))
        left = defence.defended(state, n, k, changes, entries)
        if n < WATCHED and not left.any():
            continue  # a defence may look before it trusts
        apart = largest(left, changes)
        close = apart <= 1e-15 if options.compares else np.array_equal(left, changes)
        require(close, f"in round {n} they change by {apart:.1e}")


def one_liar_does_no_lasting_harm(options: Options) -> None:
    """Whatever one of six members sends, infinity too, what is left is finite and bounded."""
    for lie in (1e30, -1e300, np.inf, -np.inf) if options.acts else ():
        defence = _bound(options)
        state = defence.start()
        with np.errstate(all="ignore"):
            lying = _play(defence, state, range(20), lie)
            later = _play(defence, state, range(20, 40))
        for n, left in enumerate(lying + later):
            require(np.isfinite(left).all(), f"{lie} is not stopped in round {n}")
            most = float(np.abs(left.mean(axis=0)).max())
            require(most < 1e3, f"after {lie}, round {n} changes the model by {most:.1e}")


def runs_are_apart(options: Options) -> None:
    """Several runs at once, on leading axes, are to the bit what each of them is alone."""
    alone = _bound(options)
    states = [alone.start() for _ in RUNS]
    both = {name: np.stack([state[name] for state in states]) for name in states[0]}
    for n in range(10):
        each = [_round(n + 50 * run, 0.3) for run in RUNS]
        k, changes, entries = (np.stack(part) for part in zip(*each, strict=True))
        left = alone.defended(both, n, k, changes, entries)
        for r, one in enumerate(each):
            own = alone.defended(states[r], n, *one)
            require(np.array_equal(left[r], own), f"run {r} has other changes in round {n}")
            same = all(np.array_equal(both[name][r], a) for name, a in states[r].items())
            require(same, f"run {r} has another state after round {n}")


def executors_agree(options: Options) -> None:
    """Engine, several runs at once and deployed handlers give the same models, to 1e-12."""
    world = small(onlinefed.Options(), clients=PLACES, cohort=COHORT, rounds=15, defence=options)
    apart = largest(exchange(world).models, stepwise(world))
    require(apart <= 1e-12, f"deployed and simulated models differ by {apart:.1e}")
    for run, found in zip(RUNS, some_runs(world, RUNS), strict=True):
        apart = largest(found.mse, one_run(world, run).mse)
        require(apart <= 1e-12, f"the errors of run {run} differ by {apart:.1e}")


RULES = (
    the_state_is_arrays, what_is_given_is_kept, harmless_rounds_are_left_alone,
    one_liar_does_no_lasting_harm, runs_are_apart, executors_agree,
)  # fmt: skip

"""The rules of attacks, defences and policies: what stands around a method, in every executor."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from psofed.cli.laws.drivers import (
    CLIENTS,
    COHORT,
    DIM,
    exchange,
    fits,
    largest,
    prepare,
    samples,
    small,
    stepwise,
)
from psofed.cli.laws.rules import applies, close, goes_on, require
from psofed.core.seeds import Seeds
from psofed.experiment import Experiment
from psofed.federation.contract import Array
from psofed.federation.foreign import kind
from psofed.federation.policy import Options as PolicyOptions
from psofed.federation.policy import PolicyTask
from psofed.federation.policy import bind as bind_policy
from psofed.methods import fedavg, onlinefed, psofed
from psofed.simulate.onerun import one_run, some_runs
from psofed.stages.attacks.contract import Attack, Attackers, bind, models
from psofed.stages.attacks.contract import Options as AttackOptions
from psofed.stages.defences.contract import Defence, Setting, State
from psofed.stages.defences.contract import Options as DefenceOptions
from psofed.stages.defences.contract import bind as bind_defence
from psofed.stages.selection import admitted, invited
from psofed.stages.surroundings import attack_in

RUNS = (0, 1, 2)
METHODS = (onlinefed.Options(), psofed.Options(3, allow_uneven=True), fedavg.Options(3))
ROUNDS, WIDTH = 20, 8
SHARE = 0.4  # of five clients: two are malicious
PLACES, HALF, SHARED = 12, 6, 4
WATCHED = 4  # rounds in which a defence may fold nothing in
SHORT = 12  # rounds: every method has shared by then
FEDERATION = PolicyTask(CLIENTS, COHORT, 8 * DIM, Seeds(3))


def _attack(options: AttackOptions, seeds: Seeds) -> Attack:
    return bind(options, Attackers(CLIENTS, WIDTH, SHARE, seeds))


def _worlds(options: AttackOptions, **changes: Any) -> list[Experiment]:
    hurt = {"attack": replace(options, share=SHARE), "rounds": ROUNDS}
    return [small(method, **hurt | changes) for method in METHODS]


@applies(lambda options: "it changes samples" * (options.on != "values"))
def models_are_sent(options: AttackOptions) -> None:
    """What is sent follows from the seed and is finite; the models that clients learned stay."""
    for bad in ([True, True], [True, False], [True], [True, True, False, False]):
        for real in (np.float32, np.float64):
            k, own = np.arange(len(bad)), np.random.default_rng(1).normal(size=(len(bad), WIDTH))
            given, w = own.astype(real), np.zeros(WIDTH, real)
            first, again = (_attack(options, Seeds(3)) for _ in range(2))
            for n in range(4):
                sent = models(first, n, k, given, np.array(bad), w)
                require(np.array_equal(given, own.astype(real)), "models() changes its argument")
                require(sent.dtype == real, f"models() gives {sent.dtype}, not {np.dtype(real)}")
                found = f"{sum(bad)} of {len(bad)} are bad, and what they send is not finite"
                require(np.isfinite(sent).all(), found)
                other = models(again, n, k, given, np.array(bad), w)
                require(np.array_equal(sent, other), "the second time it is another model")


def only_the_malicious_change(options: AttackOptions) -> None:
    """Honest clients upload, learn and measure to the bit what they would without an attack."""
    for world in _worlds(options):
        method, draws = prepare(world)
        clean = samples(prepare(replace(world, attack=None))[1])
        attack = attack_in(world.attack, method.task)
        assert attack is not None
        honest = ~attack.attackers.among(np.arange(CLIENTS))
        for found, true in zip(samples(draws), clean, strict=True):
            require(np.array_equal(found[honest], true[honest]), "honest clients measure otherwise")
            if options.on == "values":
                require(np.array_equal(found, true), "malicious clients measure otherwise")


def attacked_runs_are_apart(options: AttackOptions) -> None:
    """Several runs computed at once are what each of them is alone."""
    if options.on == "values":
        k, bad = np.broadcast_to(np.arange(CLIENTS), (len(RUNS), CLIENTS)), np.arange(CLIENTS) < 2
        own, w = np.random.default_rng(1).normal(size=(2, len(RUNS), CLIENTS, WIDTH))
        together = _attack(options, Seeds(3, RUNS, None, k))
        for n in range(4):
            sent = models(together, n, k, own, np.broadcast_to(bad, k.shape), w[:, 0])
            for run in RUNS:
                alone = models(_attack(options, Seeds(3, run)), n, k[0], own[run], bad, w[run, 0])
                same = np.array_equal(sent[run], alone, equal_nan=True)
                require(same, f"members of run {run} send something else in round {n}")
    for world in _worlds(options):
        for run, found in zip(RUNS, some_runs(world, RUNS), strict=True):
            close(found.mse, one_run(world, run).mse, f"the errors of run {run}")


@applies(
    lambda options: "it knows what others send, as no deployed client does" * options.omniscient
)
def the_attacked_executors_agree(options: AttackOptions) -> None:
    """Deployed clients that are malicious do the same as simulated ones, to 1e-12."""
    for world in _worlds(options):
        expected = stepwise(world)
        if (size := float(np.abs(expected).max())) <= 1e6:  # deployed servers refuse larger values
            close(exchange(world).models, expected, "deployed and simulated models", size)


def it_does_something(options: AttackOptions) -> None:
    """Malicious clients send or measure something else than honest ones would."""
    for world in _worlds(options):
        if not np.array_equal(stepwise(world), stepwise(replace(world, attack=None))):
            return
    require(False, "models are to the bit those without an attack")


ATTACK = (
    models_are_sent, only_the_malicious_change, attacked_runs_are_apart,
    the_attacked_executors_agree, it_does_something,
)  # fmt: skip


def _defence(options: DefenceOptions) -> Defence:
    return bind_defence(options, Setting(PLACES, PLACES, WIDTH, HALF))


def _left(defence: Defence, state: State, n: int, k: Any, changes: Array, entries: Any) -> Array:
    """What a defence leaves of the changes, if it has their shape."""
    left: Any = defence.defended(state, n, k, changes, entries)
    shaped = isinstance(left, np.ndarray) and left.shape == changes.shape
    require(shaped, f"defended() gives {kind(left)}, not numbers of shape {list(changes.shape)}")
    return np.asarray(left)


def _changes(n: int, size: float = 0.01) -> tuple[Array, Array, Array]:
    """Members, their changes, and the entries, which are the same for all."""
    rng = np.random.default_rng(n)
    k = np.sort(rng.choice(PLACES, HALF, replace=False))
    entries = np.broadcast_to((np.arange(SHARED) + SHARED * (n % 2)) % WIDTH, (HALF, SHARED))
    return k, size * rng.standard_normal((HALF, SHARED)), entries


def _play(options: DefenceOptions, state: State, rounds: range, attack: float) -> list[Array]:
    """What a defence leaves of the changes, in rounds in which client 3 adds something."""
    defence, left = _defence(options), []
    for n in rounds:
        k, changes, entries = _changes(n)
        changes[k == 3] += attack
        left.append(_left(defence, state, n, k, changes, entries).copy())
    return left


def the_state_is_arrays(options: DefenceOptions) -> None:
    """Its state is a dict of arrays, and all that it remembers: saved and loaded, it goes on."""

    def play(state: State, first: int, stop: int) -> list[Array]:
        return _play(options, state, range(first, stop), 1.0)

    goes_on(_defence(options).start, play, 30)


def what_is_given_is_kept(options: DefenceOptions) -> None:
    """Its arguments stay as they are, and what it gives has their shape and precision."""
    for real in (np.float32, np.float64):
        defence = _defence(options)
        state = defence.start()
        for n in range(5):
            k, changes, entries = _changes(n, 3.0)
            changes = changes.astype(real)
            before = changes.copy()
            left = _left(defence, state, n, k, changes, entries)
            require(np.array_equal(changes, before), "defended() changes its argument")
            require(left.dtype == real, f"it gives {left.dtype}, not {np.dtype(real)}")


def harmless_rounds_are_left_alone(options: DefenceOptions) -> None:
    """Small changes of one size, the same for all members, stay to the bit; but for the first."""
    defence = _defence(options)
    state = defence.start()
    for n in range(10):
        k, changes, entries = _changes(n, 0.001)
        changes[:] = changes[0] * 0.001 / np.sqrt(np.mean(changes[0] ** 2))
        left = _left(defence, state, n, k, changes, entries)
        if n < WATCHED and not left.any():
            continue  # a defence may look before it trusts
        apart = largest(left, changes)
        close = apart <= 1e-15 if options.compares else np.array_equal(left, changes)
        require(close, f"in round {n} they change by {apart:.1e}")


def one_attacker_does_no_lasting_harm(options: DefenceOptions) -> None:
    """Whatever one of six members sends, infinity too, what is left is finite and bounded."""
    for lie in (1e30, -1e300, np.inf, -np.inf) if options.acts else ():
        state = _defence(options).start()
        with np.errstate(all="ignore"):
            lying = _play(options, state, range(20), lie)
        for n, left in enumerate(lying + _play(options, state, range(20, 40), 0.0)):
            require(np.isfinite(left).all(), f"{lie} is not stopped in round {n}")
            most = float(np.abs(left.mean(axis=0)).max())
            require(most < 1e3, f"after {lie}, round {n} changes the model by {most:.1e}")


@applies(lambda options: "" if _defence(options).several else "it declares `several = False`")
def defended_runs_are_apart(options: DefenceOptions) -> None:
    """Several runs at once, on leading axes, are to the bit what each of them is alone."""
    alone = _defence(options)
    states = [alone.start() for _ in RUNS]
    both = {name: np.stack([state[name] for state in states]) for name in states[0]}
    for n in range(10):
        each = [_changes(n + 50 * run, 0.3) for run in RUNS]
        k, changes, entries = (np.stack(part) for part in zip(*each, strict=True))
        left = _left(alone, both, n, k, changes, entries)
        for r, one in enumerate(each):
            own = _left(alone, states[r], n, *one)
            require(np.array_equal(left[r], own), f"run {r} has other changes in round {n}")
            same = all(np.array_equal(both[name][r], a) for name, a in states[r].items())
            require(same, f"run {r} has another state after round {n}")


DEFENCE = (
    the_state_is_arrays, what_is_given_is_kept, harmless_rounds_are_left_alone,
    one_attacker_does_no_lasting_harm, defended_runs_are_apart,
)  # fmt: skip


def _policy(policy: PolicyOptions) -> Any:
    return bind_policy(policy, FEDERATION)


def _choice(bound: Any, state: Any, n: int) -> tuple[Any, Any]:
    chosen = bound.invite(state, n, 8 * DIM, 8 * DIM)
    invited(bound, chosen, CLIENTS)
    scores = {k: 1.0 + (k + n) % 3 for k in chosen.members}
    uploads = bound.options.scores != "client"  # all who were invited
    return chosen, admitted(bound, bound.admit(state, n, scores), scores, uploads)


def answers_have_their_form(policy: PolicyOptions) -> None:
    """Members and weights come in client order, with costs that are whole numbers, 0 or more."""
    bound = _policy(policy)
    state = bound.start()
    require(isinstance(bound.size, int) and 0 < bound.size <= CLIENTS, f"size is {bound.size!r}")
    for n in range(50):
        chosen, allowed = _choice(bound, state, n)
        members, weights = chosen.members, allowed.weights
        ordered = isinstance(members, list) and members == sorted(set(members))
        require(ordered, f"invite gives {members}, not a list in client order")
        mine = list(weights) == [k for k in members if k in weights]
        require(mine, f"admit gives weights of {list(weights)}; invited were {members}")
        require(all(isfinite(a) for a in weights.values()), f"admit gives {weights}")
        costs = (chosen.side_up, chosen.side_down, allowed.side_up, allowed.side_down)
        require(all(isinstance(c, int) and c >= 0 for c in costs), f"the costs are {costs}")


def saved_states_go_on(policy: PolicyOptions) -> None:
    """Its state is a dict of arrays, and all that it remembers: saved and loaded, it goes on."""

    def play(state: State, first: int, stop: int) -> list[Array]:
        bound = _policy(policy)
        chosen = [_choice(bound, state, n) for n in range(first, stop)]
        return [np.array([*i.members, *a.weights, *a.weights.values()]) for i, a in chosen]

    goes_on(_policy(policy).start, play, 40)


def hostile_scores_do_no_harm(policy: PolicyOptions) -> None:
    """Scores that are infinite or not a number, of a method that diverges, give finite weights."""
    bound = _policy(policy)
    state = bound.start()
    for n, score in enumerate((float("inf"), float("nan"), 1e300, 0.0)):
        chosen = bound.invite(state, n, 8 * DIM, 8 * DIM)
        members = invited(bound, chosen, CLIENTS).tolist()
        weights = bound.admit(state, n, dict.fromkeys(members, score)).weights
        require(all(isfinite(a) for a in weights.values()), f"a score of {score} gives {weights}")
        require(all(np.isfinite(v).all() for v in state.values()), f"{score} stays in the state")


def _taking(policy: PolicyOptions) -> list[Any]:
    return [replace(method, policy=policy) for method in METHODS if fits(method, policy)]


@applies(lambda policy: "none of the methods it is tried with takes it" * (not _taking(policy)))
def selection_is_reproducible(policy: PolicyOptions) -> None:
    """A selection follows from the seed, and from nothing else, and models stay finite."""
    for options in _taking(policy):
        first, again = (stepwise(small(options, rounds=SHORT)) for _ in range(2))
        require(np.array_equal(first, again), "the same seed gives other models")
        other = stepwise(small(options, rounds=SHORT, seed=1))
        require(not np.array_equal(first, other), "another seed gives the same models")
        require(np.isfinite(first).all(), "the models do not stay finite")


POLICY = (
    answers_have_their_form,
    saved_states_go_on,
    hostile_scores_do_no_harm,
    selection_is_reproducible,
)

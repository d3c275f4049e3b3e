"""The rules of a policy, alone and with methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from psofed.checks.bench import CLIENTS, COHORT, DIM, fits, played, prepare, small, stepwise
from psofed.checks.rules import largest, only_if, require
from psofed.core.seeds import Seeds
from psofed.methods import fedavg, onlinefed, psofed
from psofed.methods.contract import Options as MethodOptions
from psofed.policies.contract import Admitted, Federation, Options, bind
from psofed.streams.contract import Samples

SHORT = 12  # rounds: every method has shared by then
METHODS = (onlinefed.Options(), psofed.Options(3, allow_uneven=True), fedavg.Options(3))
Pair = Callable[[MethodOptions, Options], None]


def selection_is_reproducible(options: MethodOptions, policy: Options) -> None:
    """A selection follows from the seed, and from nothing else."""
    options = replace(options, policy=policy)
    first = stepwise(small(options, rounds=SHORT))
    again = stepwise(small(options, rounds=SHORT))
    require(np.array_equal(first, again), "the same seed gives other models")
    other = stepwise(small(options, rounds=SHORT, seed=1))
    require(not np.array_equal(first, other), "another seed gives the same models")
    require(np.isfinite(first).all(), "the models do not stay finite")


def zero_targets_leave_zero_models(options: MethodOptions, policy: Options) -> None:
    """Targets of zero leave a model of zero under the policy."""
    method, draws = prepare(small(replace(options, policy=policy), rounds=SHORT))

    def silent(*where: Any) -> Samples:
        drawn = draws.source(*where)
        return Samples(drawn.x, 0 * drawn.clean, 0 * drawn.noise, drawn.memory)

    for moment in played(method, replace(draws, source=silent)):
        require(not moment.server["w"].any(), "the model moves")


def nobody_uploads_nothing_moves(options: MethodOptions, policy: Options) -> None:
    """Where nobody is admitted, the model stays."""
    method, draws = prepare(small(replace(options, policy=policy)))
    nobody = not method.policy.invite(method.policy.start(), 0, 1, 1).members
    only_if(nobody or policy.scores == "client", "all who are invited upload")
    method.policy.admit = lambda state, n, scores: Admitted({})
    for moment in played(method, draws):
        require(not moment.server["w"].any(), "the model moves")


def prefers_nobody(options: MethodOptions, policy: Options, size: int) -> None:
    """A policy that prefers nobody is the uniform cohort of this size."""
    only_if(fits(options, policy), "the method does not take it")
    for run in range(2):
        selected = stepwise(small(replace(options, policy=policy), rounds=20), run)
        uniform = stepwise(small(options, rounds=20, cohort=size), run)
        require(np.abs(selected).max() > 0, "the model stays 0")
        apart = largest(selected, uniform)
        require(apart <= 1e-12, f"the models differ by {apart:.1e}")


def _bound(policy: Options) -> Any:
    return bind(policy, Federation(CLIENTS, COHORT, 8 * DIM, Seeds(3)))


def _round(bound: Any, state: Any, n: int) -> tuple[Any, Any]:
    invited = bound.invite(state, n, 8 * DIM, 8 * DIM)
    scores = {k: 1.0 + (k + n) % 3 for k in invited.members}
    return invited, bound.admit(state, n, scores)


def answers_have_their_form(policy: Options) -> None:
    """Members and weights come in client order, with costs that are whole numbers from 0 on."""
    bound = _bound(policy)
    state = bound.start()
    arrays = all(isinstance(v, np.ndarray) for v in state.values())
    require(isinstance(state, dict) and arrays, "start() does not give a dict of arrays")
    require(isinstance(bound.size, int) and 0 < bound.size <= CLIENTS, f"size is {bound.size!r}")
    for n in range(50):
        invited, admitted = _round(bound, state, n)
        members, weights = invited.members, admitted.weights
        ordered = isinstance(members, list) and members == sorted(set(members))
        require(ordered, f"invite gives {members}, not a list in client order")
        inside = all(isinstance(k, int) and 0 <= k < CLIENTS for k in members)
        require(inside, f"invite gives {members}; there are {CLIENTS} clients")
        mine = list(weights) == [k for k in members if k in weights]
        require(mine, f"admit gives weights of {list(weights)}; invited were {members}")
        require(all(isfinite(a) for a in weights.values()), f"admit gives {weights}")
        costs = (invited.side_up, invited.side_down, admitted.side_up, admitted.side_down)
        require(all(isinstance(c, int) and c >= 0 for c in costs), f"the costs are {costs}")


def saved_states_go_on(policy: Options) -> None:
    """A state that is saved and loaded goes on as if nothing had happened."""
    whole, first = _bound(policy), _bound(policy)
    state, half = whole.start(), first.start()
    expected = [_round(whole, state, n) for n in range(40)]
    for n in range(20):
        _round(first, half, n)
    second, loaded = _bound(policy), {key: value.copy() for key, value in half.items()}
    found = [_round(second, loaded, n) for n in range(20, 40)]
    require(found == expected[20:], "it chooses others: something is kept outside the state")


def hostile_scores_do_no_harm(policy: Options) -> None:
    """Scores that are infinite or not a number, of a method that diverges, give finite weights."""
    bound = _bound(policy)
    state = bound.start()
    for n, score in enumerate((float("inf"), float("nan"), 1e300, 0.0)):
        members = bound.invite(state, n, 8 * DIM, 8 * DIM).members
        weights = bound.admit(state, n, dict.fromkeys(members, score)).weights
        require(all(isfinite(a) for a in weights.values()), f"a score of {score} gives {weights}")
        require(all(np.isfinite(v).all() for v in state.values()), f"{score} stays in the state")


def _with_methods(pair: Pair) -> Callable[[Options], None]:
    def rule(policy: Options) -> None:
        some = [options for options in METHODS if fits(options, policy)]
        only_if(some, "none of the methods it is tried with takes it")
        for options in some:
            pair(options, policy)

    rule.__doc__ = pair.__doc__
    return rule


PAIRS = (selection_is_reproducible, zero_targets_leave_zero_models, nobody_uploads_nothing_moves)
RULES = (
    answers_have_their_form, saved_states_go_on, hostile_scores_do_no_harm,
    *map(_with_methods, PAIRS),
)  # fmt: skip

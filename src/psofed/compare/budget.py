"""What methods send, counted from real messages, and how each of them fits a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from math import ceil, floor
from typing import NamedTuple

import numpy as np

from psofed.core.native import Array
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.federation import schema
from psofed.federation.learners.contract import Learner
from psofed.federation.options import Knob, Options
from psofed.federation.round import Sizes, setup
from psofed.settings import check_attacked
from psofed.simulate import any_method
from psofed.simulate.draws import draw
from psofed.streams.contract import about

ROLES = ("reference", "method", "control")  # the order in a comparison
BYTE_ROUNDS = 200  # in which the bytes of a setting are counted
EXACT = 1.0001  # a share may exceed the budget by rounding
AIMED = 4  # turns of a knob that are aimed at the budget, before it is searched for


def everything(dim: int, learner: Learner | None = None) -> tuple[Options, ...]:
    """All methods, each in the forms that are worth comparing, for this D and this learner."""
    found = [each for each in _found() if learner is None or each.learns(learner)]
    forms = [options for each in found for options in each.compared(dim)]
    return tuple(options for options in forms if learner is None or _learns(options, learner))


def _learns(options: Options, learner: Learner) -> bool:
    try:
        options.check_learner(learner)
    except InputError:
        return False
    return True


def unfit(learner: Learner) -> list[str]:
    """The names of the methods that would be compared, but cannot learn such a model."""
    return [each.name for each in _found() if each.compared(10) and not each.learns(learner)]


def completed(methods: Sequence[Options], dim: int) -> tuple[Options, ...]:
    """These methods, and those that every fair comparison needs; the reference comes first."""
    names = [options.name for options in methods if options.policy is None]
    missing = [o for o in everything(dim) if o.expected and o.name not in names]
    first = [o for o in missing if o.role == "reference"]
    return (*first, *methods, *(o for o in missing if o not in first))


def attacked(
    experiment: Experiment, methods: Sequence[Options]
) -> tuple[tuple[Options, ...], list[tuple[str, str]]]:
    """Those of the methods that the attack and the defence fit, and why others are left out."""
    kept, left_out = [], []
    for options in methods:
        try:
            check_attacked(experiment, options)
            kept.append(options)
        except InputError as error:
            left_out.append((options.title(), error.found.removeprefix(f"is {options.name}, ")))
    return tuple(kept), left_out


def reference() -> Options:
    """The method whose traffic is the unit of the budget."""
    return _found()[0]()


def _found() -> list[type[Options]]:
    classes = [schema.load("psofed.methods", n).Options for n in schema.names("psofed.methods")]
    return sorted(classes, key=lambda options: ROLES.index(options.role))


class Cost(NamedTuple):
    """What a method sends, counted from its encoded messages."""

    share: float  # of the reference's bytes, up and down
    largest: int = 0  # bytes of its longest message
    peak: int = 0  # bytes of its busiest round, up and down
    setup: int = 0  # bytes to all clients before round 0


class Fitted(NamedTuple):
    """A method at its setting for the budget, and its cost; if none fits, None and the reason."""

    options: Options | None
    cost: Cost
    why: str = ""


def fit(experiment: Experiment, options: Options, budget: float) -> Fitted:
    """The method with its knob set to the largest traffic within the budget.

    Bytes are counted in a short run with real messages, not computed.
    """
    knob = options.knob
    if knob is None:  # its traffic cannot be changed
        spent = cost(experiment, options)
        if options.role != "method" or spent.share <= EXACT * budget:
            return Fitted(options, spent)
        return Fitted(None, spent, f"costs {100 * spent.share:.3g} %, and has no cheaper form")
    if knob.bytes:
        allowed = budget * reference_bytes(experiment)
        options = options.turned(allowed, experiment.alone(options).dim)
        return Fitted(options, cost(experiment, options))
    return _search(experiment, options, knob, budget)


def _search(experiment: Experiment, options: Options, knob: Knob, budget: float) -> Fitted:
    """Traffic that goes with the knob, or its inverse, is met at once; any other by halving."""
    values, dim = _values(experiment, options, knob), experiment.alone(options).dim
    spent, found = cost(experiment, options), None
    fits, beyond = -1, len(values)  # places in `values`
    for trial in count():
        if beyond - fits == 1:
            break
        ratio = budget / max(spent.share, 1e-12)
        value = knob.of(options) * (ratio if knob.more else 1 / ratio)
        aim = floor(value + 1e-9) if knob.more else ceil(value - 1e-9)
        place = (aim - values.start) * values.step if trial < AIMED else (fits + beyond) // 2
        place = min(max(place, fits + 1), beyond - 1)
        turned = options.turned(values[place], dim)
        if turned != options:
            options, spent = turned, cost(experiment, turned)
        if spent.share <= EXACT * budget:
            found, fits = Fitted(options, spent), place
        else:
            beyond = place
    why = knob.beyond.format(values[0]) or f"costs {100 * spent.share:.3g} % at the least"
    return found or Fitted(None, spent, why)


def _values(experiment: Experiment, options: Options, knob: Knob) -> range:
    """The values to which a budget may turn the knob, from the least traffic to the most."""
    low, high = knob.least, knob.most(experiment.alone(options).dim, experiment.rounds)
    last = knob.of(options) if knob.keeps else high if knob.more else low
    return range(low, min(high, last) + 1) if knob.more else range(high, max(low, last) - 1, -1)


def cost(experiment: Experiment, options: Options) -> Cost:
    """What a method sends, counted in a short run with real messages and fewer clients."""
    rounds = pilot_rounds(experiment, max(ceil(BYTE_ROUNDS / options.pace), 2) * options.pace)
    sent, largest, setup = _sent(experiment, options, rounds)
    share = sent.sum() / rounds / reference_bytes(experiment)
    return Cost(share, largest, round(sent.max()), setup * experiment.clients)


def reference_bytes(experiment: Experiment) -> float:
    """Bytes of the reference in a round, up and down."""
    rounds = pilot_rounds(experiment, 1)
    return float(_sent(experiment, reference(), rounds)[0].sum() / rounds)


def pilot_rounds(experiment: Experiment, enough: int) -> int:
    """Rounds of a pilot: a fixed number, or all if clients come and go, as in a table."""
    return enough if about(experiment.stream).presence() is None else experiment.rounds


def _sent(experiment: Experiment, options: Options, rounds: int) -> tuple[Array, int, int]:
    """Bytes of each round, of the longest message, and of a client before round 0."""
    experiment = experiment.alone(options)
    [options] = experiment.methods
    few = min(experiment.clients, 2 * experiment.cohort)
    # Whom a policy asks, and who is malicious, depends on the number of clients, and the clients
    # of a table are given.
    counted = options.policy is not None or experiment.attack is not None
    if counted or about(experiment.stream).clients_named():
        few = experiment.clients
    pilot = replace(
        experiment, clients=few, rounds=rounds, runs=1, world=None, absent=0.0, evaluate_every=1,
        fleet=(), methods=(options,),
    )  # fmt: skip
    task = pilot.task(0)
    [method] = pilot.start(task)
    draws, sizes = draw(pilot, task, everybody=True), Sizes(method)
    play = any_method.play(method, any_method.RunSamples(draws), sizes)
    with np.errstate(over="ignore", invalid="ignore"):  # a step that diverges has its bytes, too
        sent = np.array([sum(moment.traffic[:2]) for moment in play])  # up and down
    # Where all clients send, scale up: this short run has fewer clients.
    scale = experiment.clients / few if options.everybody else 1.0
    return scale * sent, sizes.largest, setup(method)

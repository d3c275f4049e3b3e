"""What methods send, counted from real messages, and the settings of each that fit a budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from math import ceil, floor
from typing import Any, NamedTuple

import numpy as np

from psofed.core.native import Array
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.federation import schema
from psofed.federation.learners import nlms
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


PARTS = (4, 16, 64, 256)  # of a budget in bytes, which a method may leave unspent
WIRES = ("4 bit", "2 bit")  # differences to what last travelled


def bare(options: Options) -> Options:
    """A setting: the method without its step and averaging."""
    return replace(options, step=None, average=False)


def settings(
    experiment: Experiment, options: Options, budget: float, every: bool
) -> tuple[tuple[Options, ...], str]:
    """The method within the budget, or `every` value of its discrete options; if none, why.

    As it is, the knob of the traffic takes the largest value that fits, and all its choices below
    it. Where another option is changed, two of these have to do; `neighbours` has more.
    """
    settings, why = list[Options](), ""
    for base in _varied(experiment, options) if every else [options]:
        fitted = fit(experiment, base, budget)
        if fitted.options is None:
            why = why or fitted.why
            continue
        cheaper = list(_cheaper(experiment, fitted.options)) if every else []
        some = cheaper if base == options else cheaper[len(cheaper) // 2 :][:1]
        settings += [fitted.options, *some]
    return tuple(dict.fromkeys(settings)), "" if settings else why


def _choices(experiment: Experiment, options: Options) -> Mapping[str, tuple[Any, ...]]:
    return type(options).choices(experiment.alone(options).dim, experiment.rounds)


def _others(experiment: Experiment, options: Options) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The choices, but for that of the traffic's knob."""
    for name, values in _choices(experiment, options).items():
        if options.knob is None or name != options.knob.field:
            yield name, values


def _varied(experiment: Experiment, options: Options) -> Iterator[Options]:
    """The method as it is, and with one option changed."""
    yield options
    for name, values in _others(experiment, options):
        for value in values:
            if value != getattr(options, name):
                yield from _valid(experiment, replace(options, **{name: value}))


def _valid(experiment: Experiment, options: Options) -> list[Options]:
    try:
        experiment.alone(options)
    except InputError:
        return []
    return [options]


def _cheaper(experiment: Experiment, fitted: Options) -> Iterator[Options]:
    """The choices of the knob that send less than this, the dearest first."""
    knob = fitted.knob
    if knob is None:
        return
    limit, values = knob.of(fitted), _choices(experiment, fitted).get(knob.field, ())
    if knob.bytes:
        values = tuple(limit / part for part in PARTS)
    less = [v for v in values if v is not None and (v < limit if knob.more else v > limit)]
    for value in sorted(less, reverse=knob.more):
        yield from _valid(experiment, fitted.turned(value, experiment.alone(fitted).dim))


def neighbours(experiment: Experiment, setting: Options, budget: float) -> tuple[Options, ...]:
    """Neighbouring settings that fit: one option changed to the next of its choices."""
    found = []
    knob = setting.knob
    for name, values in _others(experiment, setting):
        for value in _next(values, getattr(setting, name)):
            for other in _valid(experiment, replace(setting, **{name: value})):
                fitted = fit(experiment, other, budget)
                if fitted.options is not None:
                    found += [fitted.options, *_not_dearer(other, fitted.options)]
    if knob is not None:
        fitted = fit(experiment, setting, budget)
        if fitted.options is not None:
            able = [fitted.options, *_cheaper(experiment, fitted.options)]
            values = tuple(sorted({knob.of(each) for each in able}))
            near = _next(values, knob.of(setting))
            found += [each for each in able if knob.of(each) in near]
    return tuple(each for each in dict.fromkeys(found) if each != setting)


def _not_dearer(other: Options, fitted: Options) -> list[Options]:
    """The setting with its knob as it was, if that sends less."""
    knob = fitted.knob
    if knob is None:
        return []
    here, most = knob.of(other), knob.of(fitted)
    return [other] if (here < most if knob.more else here > most) else []


def _next(values: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    """The choices next to this one; all others, if they have no order.

    >>> _next((1, 2, 5, 10), 5), _next((1, 2, 5), 4), _next(("a", "b"), "a")
    ((2, 10), (2, 5), ('b',))
    """
    if len(_numbers(values)) < len(values) or not isinstance(value, int | float):
        return tuple(v for v in values if v != value)
    below, above = sorted(v for v in values if v < value), sorted(v for v in values if v > value)
    return (*below[-1:], *above[:1])


def _numbers(values: tuple[Any, ...]) -> list[float]:
    return [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]


def gifts(experiment: Experiment) -> tuple[dict[str, Any], ...]:
    """What every method may be given: coded values, a whitened basis, normalised LMS in it.

    Values in four bits lose little to plain ones, so a basis comes with them.
    """
    wires: list[dict[str, Any]] = [{"wire": wire} for wire in WIRES]
    if not experiment.learner.compiled or experiment.features.basis != "none":
        return tuple(wires)
    whitened = {"features": replace(experiment.features, basis="whitened")}
    normalised = whitened | {"learner": nlms.Options()}
    return tuple(basis | wire for basis in ({}, whitened, normalised) for wire in wires)


def gifted(experiment: Experiment, options: Options, budget: float) -> tuple[Options, ...]:
    """A setting with each gift: as it is, and at the budget."""
    settings = list[Options]()
    if not schema.companion(options, "Method").several:
        return ()  # one trial of it takes as long as ten of another method
    for gift in gifts(experiment):
        if any(getattr(options, name) is not None for name in gift):
            continue  # it has its own
        for given in _valid(experiment, replace(options, **gift)):
            fitted = fit(experiment, given, budget)
            if fitted.options is not None and fitted.cost.share <= EXACT * budget:
                settings += [fitted.options, *_not_dearer(given, fitted.options)]
    return tuple(dict.fromkeys(settings))


def edges(experiment: Experiment, options: Options) -> tuple[str, ...]:
    """Options at the end of their choices, where the next value might be better.

    Not those that end by nature, at 1 or D, nor the knob, which ends at the budget.
    """
    dim, found = experiment.alone(options).dim, []
    for name, values in _choices(experiment, options).items():
        value, knob, numbers = getattr(options, name), options.knob, _numbers(values)
        if value not in numbers or len(numbers) < 2 or value in (0, 1, dim):
            continue
        low, high = value == min(numbers), value == max(numbers)
        if knob is not None and knob.field == name:  # its other end is the budget's
            low, high = low and knob.more, high and not knob.more
        found += [name] * (low or high)
    return tuple(found)

"""The settings of a method among which a fair comparison searches: what fits the budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from psofed.compare import budget as budgets
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.learners import nlms
from psofed.methods.contract import Options, kind

PARTS = (4, 16, 64, 256)  # of a budget in bytes, which a method may leave unspent
WIRES = ("4 bit", "2 bit")  # differences to what last travelled


@dataclass(frozen=True)
class Allowance:
    """A share of the reference's bytes, and which bytes count."""

    budget: float
    total: str


class Found(NamedTuple):
    """Settings that fit, without step and averaging; if there are none, the reason."""

    settings: tuple[Options, ...]
    why: str = ""


def bare(options: Options) -> Options:
    """A setting: the method without its step and averaging."""
    return replace(options, step=None, average=False)


def plain(experiment: Experiment, options: Options, allowed: Allowance) -> Found:
    """The method with each value of each discrete option, within the budget.

    As it is, the knob of the traffic takes the largest value that fits, and all its choices below
    it. Where another option is changed, two of these have to do; `neighbours` has more.
    """
    settings, why, options = list[Options](), "", bare(options)
    for base in _varied(experiment, options):
        fitted = budgets.fit(experiment, base, allowed.budget, allowed.total)
        if fitted.options is None:
            why = why or fitted.why
        elif options.knob is None and options.role == "method" and not _fits(fitted, allowed):
            why = why or f"costs {100 * fitted.share:.3g} %, and has no cheaper form"
        else:
            cheaper = list(_cheaper(experiment, fitted.options))
            some = cheaper if base == options else cheaper[len(cheaper) // 2 :][:1]
            settings += [fitted.options, *some]
    return Found(tuple(dict.fromkeys(settings)), "" if settings else why)


def _fits(fitted: budgets.Fitted, allowed: Allowance) -> bool:
    return fitted.share <= budgets.EXACT * allowed.budget


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


def neighbours(experiment: Experiment, setting: Options, allowed: Allowance) -> tuple[Options, ...]:
    """The settings next to this one that fit: one option changed to the next of its choices."""
    found = []
    knob = setting.knob
    for name, values in _others(experiment, setting):
        for value in _next(values, getattr(setting, name)):
            for other in _valid(experiment, replace(setting, **{name: value})):
                fitted = budgets.fit(experiment, other, allowed.budget, allowed.total)
                if fitted.options is not None and (knob is not None or _fits(fitted, allowed)):
                    found += [fitted.options, *_not_dearer(other, fitted.options)]
    if knob is not None:
        fitted = budgets.fit(experiment, setting, allowed.budget, allowed.total)
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
    """The choices beside this one; all others, if they have no order.

    >>> _next((1, 2, 5, 10), 5), _next((1, 2, 5), 4), _next(("a", "b"), "a")
    ((2, 10), (2, 5), ('b',))
    """
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(values) or not isinstance(value, int | float):
        return tuple(v for v in values if v != value)
    below = [v for v in numbers if v < value]
    above = [v for v in numbers if v > value]
    return (*([max(below)] if below else []), *([min(above)] if above else []))


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


def gifted(
    experiment: Experiment, winners: Sequence[Options], allowed: Allowance
) -> tuple[Options, ...]:
    """The best settings of a method with each gift: as they are, and at the budget."""
    settings = []
    for gift, options in product(gifts(experiment), winners):
        if any(getattr(options, name) is not None for name in gift) or not kind(options).stacked:
            continue  # it has its own, or one trial of it takes as long as ten of another method
        for given in _valid(experiment, replace(options, **gift)):
            fitted = budgets.fit(experiment, given, allowed.budget, allowed.total)
            if fitted.options is not None and _fits(fitted, allowed):
                settings += [fitted.options, *_not_dearer(given, fitted.options)]
    return tuple(dict.fromkeys(settings))


def edges(experiment: Experiment, options: Options) -> tuple[str, ...]:
    """Options at the end of their choices, where the next value might be better.

    Not those that end by nature, at 1 or D, nor the knob, which ends at the budget.
    """
    dim, found = experiment.alone(options).dim, []
    for name, values in _choices(experiment, options).items():
        value, knob = getattr(options, name), options.knob
        numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        if value not in numbers or len(numbers) < 2 or value in (0, 1, dim):
            continue
        low, high = value == min(numbers), value == max(numbers)
        if knob is not None and knob.field == name:  # its other end is the budget's
            low, high = low and knob.more, high and not knob.more
        found += [name] * (low or high)
    return tuple(found)

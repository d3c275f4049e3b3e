"""The settings that a search may try: a method's options within the budget, and what is near."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from psofed.compare.budget import EXACT, cost, fit
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.federation import schema
from psofed.federation.learners import nlms
from psofed.federation.options import Options, ServerStep

PARTS = (4, 16, 64, 256)  # of a budget in bytes, which a method may leave unspent
BITS = (2, 3, 4, 6, 8)  # of differences to what last travelled
SIZES = (20, 30, 40, 60, 80, 120, 160)  # d of a basis
BETAS, RATES = (0.5, 0.8, 0.9, 0.95), (0.003, 0.01, 0.03, 0.1)  # of momentum, of Adam
FAR = 3  # a ratio of choices from which on it is worth trying what is between


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


def neighbours(
    experiment: Experiment, setting: Options, budget: float, gifted: bool = False
) -> tuple[Options, ...]:
    """Neighbouring settings that fit: one option changed to the next of its choices.

    If it is `gifted`, so are they: bits, the size of its basis and its learner are options, too.
    """
    found = [*_knob_next(experiment, setting, budget), *_stepping(experiment, setting)]
    for name, values in _others(experiment, setting):
        for value in _next(values, getattr(setting, name)):
            for other in _valid(experiment, replace(setting, **{name: value})):
                fitted = fit(experiment, other, budget)
                if fitted.options is not None:
                    found += [fitted.options, *_not_dearer(other, fitted.options)]
    if gifted:
        found += [
            o for each in _given(experiment, setting) for o in _kept(experiment, each, budget)
        ]
    return tuple(each for each in dict.fromkeys(found) if each != setting)


def _knob_next(experiment: Experiment, setting: Options, budget: float) -> Iterator[Options]:
    """Other values of the knob, up to that at the budget."""
    knob = setting.knob
    if knob is None or (fitted := fit(experiment, setting, budget).options) is None:
        return
    able = [fitted, *_cheaper(experiment, fitted)]
    values = tuple(sorted({knob.of(each) for each in able}))
    for value in _next(values, knob.of(setting)):
        yield from _valid(experiment, setting.turned(value, experiment.alone(setting).dim))


def _stepping(experiment: Experiment, setting: Options) -> Iterator[Options]:
    """Another step of the server's own, or none. It costs no bytes."""
    now, found = setting.server, list[ServerStep | None]()
    if now is None:
        found = [ServerStep(), ServerStep("adam")]
    elif now.rule == "momentum":
        found = [None, *(replace(now, beta=beta) for beta in _next(BETAS, now.beta))]
    else:
        found = [None, *(replace(now, rate=rate) for rate in _next(RATES, now.rate))]
    for server in found:
        yield from _valid(experiment, replace(setting, server=server))


def slowed(setting: Options) -> float:
    """What a step is worth trying with momentum, over that without: between 1 - beta and 1."""
    now = setting.server
    return (1 - now.beta) ** 0.5 if now is not None and now.rule == "momentum" else 1.0


def _given(experiment: Experiment, setting: Options) -> Iterator[Options]:
    """The gifts of a setting, one of them changed to the next."""
    if setting.differs and setting.wire is not None:
        for bits in _next(BITS, int(setting.wire.split()[0])):
            yield replace(setting, wire=f"{bits} bit")  # type: ignore[arg-type]
    features = setting.features
    if features is not None and features.basis != "none":
        for size in _next(sizes(features.dim), features.entries):
            yield _resized(experiment, setting, replace(features, size=size))
    if setting.learner is not None:
        yield replace(setting, learner=None)
    elif experiment.learner.lms and experiment.learner.in_engine:
        yield replace(setting, learner=nlms.Options())


def _resized(experiment: Experiment, setting: Options, features: Features) -> Options:
    """The setting in another basis, which may have fewer entries than it shares."""
    knob, size = setting.knob, features.entries
    if knob is not None and knob.more and not knob.bytes:
        most = knob.most(size, experiment.rounds)
        setting = setting.turned(min(knob.of(setting), most), size)
    return replace(setting, features=features)


def sizes(dim: int) -> tuple[int, ...]:
    """d of a basis to try."""
    return tuple(size for size in SIZES if size < dim) or (dim,)


def _kept(experiment: Experiment, setting: Options, budget: float) -> Iterator[Options]:
    """The setting, if it is valid and fits, with its knob as it is or turned to the budget."""
    for each in _valid(experiment, setting):
        fits = cost(experiment, each).share <= EXACT * budget
        fitted = each if fits else fit(experiment, each, budget).options
        yield from () if fitted is None else (fitted,)


def crossed(
    experiment: Experiment, best: Options, budget: float, others: Sequence[Options]
) -> tuple[Options, ...]:
    """The best setting with one option of another good one: two changes may go together."""
    found = list[Options]()
    for other in others:
        for f in fields(best):
            if getattr(best, f.name) != getattr(other, f.name):
                mixed = replace(best, **{f.name: getattr(other, f.name)})
                found += _kept(experiment, mixed, budget)
    return tuple(dict.fromkeys(found))


def _not_dearer(other: Options, fitted: Options) -> list[Options]:
    """The setting with its knob as it was, if that sends less."""
    knob = fitted.knob
    if knob is None:
        return []
    here, most = knob.of(other), knob.of(fitted)
    return [other] if (here < most if knob.more else here > most) else []


def _next(values: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    """The choices next to this one, and what is between if they are far; all, if without order.

    >>> _next((1, 2, 5, 10), 5), _next((5, 20, 100), 20), _next(("a", "b"), "a")
    ((2, 10), (5, 100, 10, 45), ('b',))
    """
    if len(_numbers(values)) < len(values) or not isinstance(value, int | float):
        return tuple(v for v in values if v != value)
    below, above = sorted(v for v in values if v < value), sorted(v for v in values if v > value)
    near = (*below[-1:], *above[:1])
    return (*near, *(_between(v, value) for v in near if 0 < FAR * min(v, value) <= max(v, value)))


def _between(one: float, other: float) -> float:
    """The geometric mean, whole if both are."""
    mean = (one * other) ** 0.5
    whole = isinstance(one, int) and isinstance(other, int)
    return round(mean) if whole else float(f"{mean:.2g}")


def _numbers(values: tuple[Any, ...]) -> list[float]:
    return [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]


def gifts(experiment: Experiment) -> tuple[dict[str, Any], ...]:
    """What every method may be given to begin with; `neighbours` has the rest.

    Values in four bits lose little to plain ones, so a basis comes with them, and both may come
    with normalised LMS.
    """
    wire: dict[str, Any] = {"wire": "4 bit"}
    lms = experiment.learner.lms and experiment.learner.in_engine
    if not lms or experiment.features.basis != "none":
        return (wire,)
    whitened = {"features": replace(experiment.features, basis="whitened")}
    return wire, wire | whitened, wire | whitened | {"learner": nlms.Options()}


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
    basis = options.features
    if basis is not None and basis.basis != "none" and basis.entries >= max(sizes(basis.dim)):
        found += ["size"] * (basis.entries < basis.dim)
    for name, values in _choices(experiment, options).items():
        value, knob, numbers = getattr(options, name), options.knob, _numbers(values)
        if value not in numbers or len(numbers) < 2 or value in (0, 1, dim):
            continue
        low, high = value == min(numbers), value == max(numbers)
        if knob is not None and knob.field == name:  # its other end is the budget's
            low, high = low and knob.more, high and not knob.more
        found += [name] * (low or high)
    return tuple(found)

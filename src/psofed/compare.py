"""Methods at equal bytes: each fitted to a share of Online-Fed's traffic, and to its best step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from math import ceil, floor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psofed.curves import STEADY_SHARE, Curves, to_db
from psofed.experiment import Experiment
from psofed.methods import (
    asofed,
    centralised,
    cmfl,
    etpsofed,
    fedavg,
    fedprox,
    fedscr,
    local,
    memofed,
    onlinefed,
    paofed,
    pdlms,
    periodic,
    psofed,
    qsgd,
    quantised,
    raw,
    sketch,
    structured,
    topk,
)
from psofed.methods.contract import Options
from psofed.simulate import lockstep, montecarlo
from psofed.simulate.draws import draw
from psofed.simulate.pools import Pool

Array = NDArray[Any]
STEPS = (0.1, 0.2, 0.35, 0.55, 0.75, 1.0, 1.4)  # among which each method finds its own
PILOT_RUNS, PILOT_ROUNDS = 3, 1500  # of the search for the step, on a seed of its own
PILOT_SEED = 10**9
BYTE_ROUNDS = 200  # in which the bytes of a setting are counted
EXACT = 1.0001  # a share may exceed the budget by rounding
STAYS = 100  # rounds for which a curve has to stay below a target to have reached it
LIKELY = 1.96  # standard errors


def everything(dim: int) -> tuple[Options, ...]:
    """All methods that this package knows, each in the form that is worth comparing, for this D.

    Without those that learn by RLS: D^2 operations a sample take hours, not minutes.
    """
    M, block = max(dim // 5, 1), max(d for d in range(1, 11) if dim % d == 0)
    divisor = max(d for d in range(1, M + 1) if dim % d == 0)
    return (
        onlinefed.Options(), psofed.Options(M, "coordinated"), psofed.Options(M),
        fedavg.Options(), fedprox.Options(), periodic.Options(M, local_steps=4),
        etpsofed.Options(M), quantised.Options(M), quantised.Options(M, bits=2, reference="last"),
        paofed.Options(shared=divisor), asofed.Options(), memofed.Options(), sketch.Options(),
        sketch.Options(2, rotate=True), qsgd.Options(), topk.Options(min(5, dim)),
        structured.Options(shared=M), structured.Options("subspace", M), fedscr.Options(block),
        cmfl.Options(), pdlms.Options(M), raw.Options(), centralised.Options(), local.Options(),
    )  # fmt: skip


class Cost(NamedTuple):
    """What a method sends, counted from its encoded messages."""

    share: float  # of Online-Fed's bytes, up and down
    largest: int = 0  # bytes of its longest message
    peak: int = 0  # bytes of its busiest round, up and down
    setup: int = 0  # bytes to all clients before round 0


class Fitted(NamedTuple):
    """A method at its setting for the budget, and what that costs; None and why, if none fits."""

    options: Options | None
    cost: Cost
    why: str = ""

    @property
    def share(self) -> float:
        """Of Online-Fed's bytes."""
        return self.cost.share


def fit(experiment: Experiment, options: Options, budget: float) -> Fitted:
    """The largest traffic of a method within the budget, by turning its own knob.

    Bytes are counted in a short run with real messages, not computed.
    """
    knob, dim = options.knob, experiment.features.dim
    spent = cost(experiment, options)
    if not knob:  # controls and Online-Fed stand as they are
        return Fitted(options, spent)
    if knob == "budget":
        options = _turned(options, knob, budget * online_bytes(experiment), dim)
        return Fitted(options, cost(experiment, options))
    given, share = getattr(options, knob), spent.share
    for _ in range(6):
        value = getattr(options, knob)
        if knob == "local_steps":
            wanted, most = max(ceil(value * share / budget - 1e-9), 1), experiment.rounds // 20
            if wanted > max(most, 1):
                return Fitted(None, spent, f"would talk less than every {most} rounds")
        else:
            most = given if getattr(options, "keeps", False) else dim
            wanted = min(max(floor(value * budget / share + 1e-9), 1), most)
        if wanted == value:
            break
        options = _turned(options, knob, wanted, dim)
        spent = cost(experiment, options)
        share = spent.share
    while share > EXACT * budget:  # where bytes depend on data, the last turn may miss
        value = getattr(options, knob)
        if knob == "local_steps":
            options = _turned(options, knob, value + 1, dim)
        elif value == 1:
            return Fitted(None, spent, f"costs {100 * share:.3g} % at the least")
        else:
            options = _turned(options, knob, value - max(value // 40, 1), dim)
        spent = cost(experiment, options)
        share = spent.share
    return Fitted(options, spent)


def _turned(options: Any, knob: str, value: Any, dim: int) -> Any:
    """The method with its knob at this value; blocks need an M that divides D."""
    if knob == "shared" and getattr(options, "mask", "") == "block":
        value = max(d for d in range(1, value + 1) if dim % d == 0)
    return replace(options, **{knob: value})


def cost(experiment: Experiment, options: Options) -> Cost:
    """What a method sends, counted in a short run with real messages and fewer clients."""
    blocks = getattr(options, "local_steps", 1)
    rounds = max(ceil(BYTE_ROUNDS / blocks), 2) * blocks
    few = min(experiment.clients, 2 * experiment.cohort)
    if options.policy is not None:  # whom a policy asks depends on how many there are
        few = experiment.clients
    pilot = replace(
        experiment, clients=few, rounds=rounds, runs=1, world=None, absent=0.0, evaluate_every=1,
        methods=(options,),
    )  # fmt: skip
    task = pilot.task(0)
    [method] = pilot.start(task)
    draws, sizes = draw(pilot, task, everybody=True), lockstep.Sizes(method)
    play = lockstep.play(draws, method, lockstep.Samples(draws), sizes)
    sent = np.array([sum(moment.traffic[:2]) for moment in play])
    # Where everybody speaks, the pilot has fewer who do.
    scale = experiment.clients / few if method.peers or options.name == "centralised" else 1.0
    share = scale * sent.sum() / rounds / online_bytes(experiment)
    largest = max(sizes.known.values(), default=0)
    return Cost(share, largest, round(scale * sent.max()), method.setup * experiment.clients)


def online_bytes(experiment: Experiment) -> float:
    """Bytes of Online-Fed in a round, up and down: the whole model to and from each member."""
    task = experiment.task(0)
    method = onlinefed.Method(onlinefed.Options(), task)
    return 2.0 * experiment.cohort * len(method.encode(np.zeros(task.dim), up=True))


@dataclass(frozen=True)
class Entry:
    """A method of the comparison as it is run."""

    options: Options
    cost: Cost
    step: float | None  # None if it has none
    trials: tuple[tuple[float | None, bool, float], ...]  # step, averaged or not, dB in the pilot

    @property
    def share(self) -> float:
        """Of Online-Fed's bytes."""
        return self.cost.share


def tune(
    experiment: Experiment,
    fitted: Sequence[Fitted],
    pool: Callable[[Experiment], AbstractContextManager[Pool]],
    on_run: Callable[[int, int], None] | None = None,
    average: bool = False,
) -> list[Entry]:
    """Each method with the step that ended lowest in a pilot, on a seed of its own.

    With `average` each that has a model at the server may also serve an average of its models.
    """
    kept = [f for f in fitted if f.options is not None]
    choices = [_choices(f.options, average) for f in kept]
    trials: list[Any] = [
        replace(f.options, step=mu, average=a, label=f"{i} {mu} {a}")  # type: ignore[type-var]
        for i, f in enumerate(kept)
        for mu, a in choices[i]
    ]
    rounds = min(experiment.rounds, PILOT_ROUNDS)
    pilot = replace(
        experiment, seed=PILOT_SEED + experiment.seed, rounds=rounds, runs=PILOT_RUNS,
        methods=tuple(trials), evaluate_every=max(rounds // 100, 1),
    )  # fmt: skip
    done = (lambda total: on_run(total.runs, PILOT_RUNS)) if on_run else None
    curves = montecarlo.run(pilot, pool=pool(pilot), on_run=done)
    late = curves.rounds >= curves.rounds[-1] * (1 - STEADY_SHARE)
    ends = iter(to_db(curves.mse[:, late].mean(axis=1)).tolist())
    entries = []
    for f, tried in zip(kept, choices, strict=True):
        results = [(mu, a, next(ends)) for mu, a in tried]
        mu, a, _ = min(results, key=lambda r: r[2] if np.isfinite(r[2]) else np.inf)
        options: Any = replace(f.options, step=mu, average=a)  # type: ignore[type-var]
        entries.append(Entry(options, f.cost, mu, tuple(results)))
    return entries


def _choices(options: Any, average: bool) -> list[tuple[float | None, bool]]:
    """The steps to try, each without and, if wanted, with averaging."""
    steps: tuple[float | None, ...] = STEPS if options.steps else (options.step,)
    both = (False, True) if average and options.serves else (options.average,)
    return [(mu, a) for mu in steps for a in both]


def untuned(experiment: Experiment, fitted: Sequence[Fitted]) -> list[Entry]:
    """Each method with the step it has."""
    return [
        Entry(o, f.cost, (o.step or experiment.step) if o.steps else None, ())
        for f in fitted
        if (o := f.options) is not None
    ]


class Reached(NamedTuple):
    """Bytes at which a curve has reached a target, with an interval; infinite if it has not."""

    bytes: float
    low: float
    high: float
    round: int | None


def bytes_to_target(curves: Curves, j: int, target: float, total: str = "unicast") -> Reached:
    """Cumulative bytes at the first mark from which the mean stays at or below `target` dB.

    The interval is that of the mean plus and minus 1.96 standard errors.
    """
    cumulative = cumulative_bytes(curves, total)[j]
    error = LIKELY * np.nan_to_num(curves.stderr_db[j])
    found = [
        _first(curves.rounds, curves.mse_db[j] + shift, target) for shift in (0.0, -error, error)
    ]
    value, low, high = (np.inf if i is None else float(cumulative[i]) for i in found)
    return Reached(value, low, high, None if found[0] is None else int(curves.rounds[found[0]]))


def _first(rounds: Array, mse_db: Array, target: float) -> int | None:
    """The first mark from which the curve stays at or below the target for 100 rounds."""
    above = ~(mse_db <= target)
    for i in np.flatnonzero(~above):
        window = (rounds >= rounds[i]) & (rounds <= rounds[i] + STAYS)
        if not above[window].any():
            return int(i)
    return None


def cumulative_bytes(curves: Curves, total: str) -> Array:
    """Bytes before each mark: "up", "unicast" (up and down) or "multicast"."""
    down = {"up": 0 * curves.downlink, "unicast": curves.downlink, "multicast": curves.multicast}
    return np.cumsum(curves.uplink + down[total], axis=1)


def default_target(curves: Curves) -> float:
    """1 dB above where Online-Fed ends, to a tenth of a dB."""
    names = [o.name if o.policy is None else "" for o in curves.experiment.methods]
    return round(curves.point(names.index("onlinefed"), "steady").value + 1.0, 1)

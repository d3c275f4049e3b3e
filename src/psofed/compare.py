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
    centralised,
    cmfl,
    etpsofed,
    fedavg,
    fedprox,
    fedscr,
    local,
    onlinefed,
    paofed,
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
from psofed.simulate import montecarlo
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
    """All methods that this package knows, each in the form that is worth comparing, for this D."""
    M, block = max(dim // 5, 1), max(d for d in range(1, 11) if dim % d == 0)
    divisor = max(d for d in range(1, M + 1) if dim % d == 0)
    return (
        onlinefed.Options(), psofed.Options(M, "coordinated"), psofed.Options(M),
        fedavg.Options(), fedprox.Options(), periodic.Options(M, local_steps=4),
        etpsofed.Options(M), quantised.Options(M), quantised.Options(M, bits=2, reference="last"),
        paofed.Options(shared=divisor), sketch.Options(), sketch.Options(2, rotate=True),
        qsgd.Options(), topk.Options(min(5, dim)), structured.Options(shared=M),
        structured.Options("subspace", M), fedscr.Options(block), cmfl.Options(),
        raw.Options(), centralised.Options(), local.Options(),
    )  # fmt: skip


class Fitted(NamedTuple):
    """A method at its setting for the budget, and what that costs; None and why, if none fits."""

    options: Options | None
    share: float  # of Online-Fed's bytes, up and down
    why: str = ""


def fit(experiment: Experiment, options: Options, budget: float) -> Fitted:
    """The largest traffic of a method within the budget, by turning its own knob.

    Bytes are counted in a short run with real messages, not computed.
    """
    knob, dim = options.knob, experiment.features.dim
    share = traffic_share(experiment, options)
    if not knob:  # controls and Online-Fed stand as they are
        return Fitted(options, share)
    given = getattr(options, knob)
    for _ in range(6):
        value = getattr(options, knob)
        if knob == "local_steps":
            wanted, most = max(ceil(value * share / budget - 1e-9), 1), experiment.rounds // 20
            if wanted > max(most, 1):
                return Fitted(None, share, f"would talk less than every {most} rounds")
        else:
            most = given if getattr(options, "keeps", False) else dim
            wanted = min(max(floor(value * budget / share + 1e-9), 1), most)
        if wanted == value:
            break
        options = _turned(options, knob, wanted, dim)
        share = traffic_share(experiment, options)
    while share > EXACT * budget:  # where bytes depend on data, the last turn may miss
        value = getattr(options, knob)
        if knob == "local_steps":
            options = _turned(options, knob, value + 1, dim)
        elif value == 1:
            return Fitted(None, share, f"costs {100 * share:.3g} % at the least")
        else:
            options = _turned(options, knob, value - max(value // 40, 1), dim)
        share = traffic_share(experiment, options)
    return Fitted(options, share)


def _turned(options: Any, knob: str, value: int, dim: int) -> Any:
    """The method with its knob at this value; blocks need an M that divides D."""
    if knob == "shared" and getattr(options, "mask", "") == "block":
        value = max(d for d in range(1, value + 1) if dim % d == 0)
    return replace(options, **{knob: value})


def traffic_share(experiment: Experiment, options: Options) -> float:
    """Bytes of a method, up and down, over those of Online-Fed."""
    blocks = getattr(options, "local_steps", 1)
    rounds = max(ceil(BYTE_ROUNDS / blocks), 2) * blocks
    few = min(experiment.clients, 2 * experiment.cohort)
    if options.policy is not None:  # whom a policy asks depends on how many there are
        few = experiment.clients
    online = onlinefed.Options(label="the base")
    pilot = replace(
        experiment, clients=few, rounds=rounds, runs=1, test_samples=10, world=None,
        evaluate_every=rounds, methods=(online, replace(options, label="fitted")),
    )  # fmt: skip
    share = montecarlo.run(pilot, 1).traffic_share(1, 0)
    # Centralised learning hears every client, of which the pilot has fewer.
    everybody = options.name == centralised.Options.name
    return share * experiment.clients / few if everybody else share


@dataclass(frozen=True)
class Entry:
    """A method of the comparison as it is run."""

    options: Options
    share: float
    step: float
    steps: tuple[tuple[float, float], ...]  # every step that was tried, with its pilot's MSE in dB


def tune(
    experiment: Experiment,
    fitted: Sequence[Fitted],
    pool: Callable[[Experiment], AbstractContextManager[Pool]],
    on_run: Callable[[int, int], None] | None = None,
) -> list[Entry]:
    """Each method with the step that ended lowest in a pilot, on a seed of its own."""
    kept = [f for f in fitted if f.options is not None]
    trials: list[Any] = [
        replace(f.options, step=mu, label=f"{i} {mu}")  # type: ignore[type-var]
        for i, f in enumerate(kept)
        for mu in STEPS
    ]
    rounds = min(experiment.rounds, PILOT_ROUNDS)
    pilot = replace(
        experiment, seed=PILOT_SEED + experiment.seed, rounds=rounds, runs=PILOT_RUNS,
        methods=tuple(trials), evaluate_every=max(rounds // 100, 1),
    )  # fmt: skip
    done = (lambda total: on_run(total.runs, PILOT_RUNS)) if on_run else None
    curves = montecarlo.run(pilot, pool=pool(pilot), on_run=done)
    late = curves.rounds >= curves.rounds[-1] * (1 - STEADY_SHARE)
    ends = to_db(curves.mse[:, late].mean(axis=1)).reshape(len(kept), len(STEPS))
    entries = []
    for f, row in zip(kept, ends, strict=True):
        best = STEPS[int(np.nanargmin(np.where(np.isfinite(row), row, np.inf)))]
        options: Any = replace(f.options, step=best)  # type: ignore[type-var]
        entries.append(Entry(options, f.share, best, tuple(zip(STEPS, row.tolist(), strict=True))))
    return entries


def untuned(experiment: Experiment, fitted: Sequence[Fitted]) -> list[Entry]:
    """Each method with the step it has."""
    return [
        Entry(f.options, f.share, f.options.step or experiment.step, ())
        for f in fitted
        if f.options is not None
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

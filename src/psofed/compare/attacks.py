"""Attacks against methods: what malicious clients cost, with and without defences.

Every part of a plan is an experiment on the same seeds: the same draws and, for a share, the same
malicious clients. So a loss is a paired difference to the clean federation, run by run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from psofed.compare.search import LIKELY
from psofed.core.native import Array
from psofed.curves import PER_DB, STEADY_SHARE, to_db
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.federation import schema
from psofed.methods import local
from psofed.simulate.montecarlo import Pool
from psofed.simulate.onerun import width
from psofed.stages.attacks.contract import Options as Attack
from psofed.stages.defences.contract import Options as Defence

SHARES = (0.0, 0.05, 0.1, 0.2, 0.3)
# Other strengths of attacks that are tried next to the default one.
STRENGTHS: dict[str, tuple[dict[str, float], ...]] = {
    "scale": ({"factor": -5.0},),
    "constant": ({"value": 9e8},),
    "labels": ({"factor": 100.0},),
}
USUAL = "clip"  # the defence that is tried if none is named
MARKS = 1000  # points of a curve
MODELLESS = "from attacks on values: it sends no model that they could change"
ALONE = "learns alone, so that nobody can harm it"


@dataclass(frozen=True)
class Estimated:
    """A mean with its 95 % interval, in dB; NaN or infinite where something has diverged."""

    value: float
    low: float
    high: float


class AttackCase(NamedTuple):
    """A method under one attack and defence: its error, and what it lost to the clean one."""

    method: int
    attack: Attack | None
    defence: Defence | None
    error: Estimated
    lost: Estimated


@dataclass(frozen=True, eq=False)
class AttackPart:
    """The federation under one attack, or none, with one defence, or none."""

    attack: Attack | None
    defence: Defence | None
    methods: tuple[int, ...]  # those of the base that take part
    experiment: Experiment


@dataclass(frozen=True, eq=False)
class AttackPlan:
    """What will be run: every attack at every share, without and with every defence."""

    base: Experiment  # without attack and defence
    attacks: tuple[Attack, ...]
    shares: tuple[float, ...]  # above 0
    defences: tuple[Defence | None, ...]  # the first is None: without
    parts: tuple[AttackPart, ...]  # the first is clean, and has the clients that learn alone
    left_out: tuple[tuple[str, str], ...]  # what, and why

    @property
    def methods(self) -> list[int]:
        """The methods of the base that are attacked at all."""
        return sorted({j for part in self.parts if part.attack is not None for j in part.methods})


def every_attack(own: Attack | None = None) -> tuple[Attack, ...]:
    """All attacks, some in several strengths; one that is given stands for those of its name."""
    found: list[Attack] = []
    for name in schema.names("psofed.attacks"):
        options = schema.load("psofed.attacks", name).Options
        if own is not None and own.name == name:
            found.append(own)
        else:
            found += [options(), *(options(**more) for more in STRENGTHS.get(name, ()))]
    if own is not None and own not in found:
        found.append(own)
    return tuple(found)


def usual_defence(own: Defence | None = None) -> tuple[Defence, ...]:
    """The one that is given, or the usual one, if there is one."""
    if own is not None:
        return (own,)
    if USUAL not in schema.names("psofed.defences"):
        return ()
    made: Defence = schema.load("psofed.defences", USUAL).Options()
    return (made,)


def plan(
    experiment: Experiment,
    attacks: Sequence[Attack],
    shares: Sequence[float] = SHARES,
    defences: Sequence[Defence] = (),
) -> AttackPlan:
    """What would be run, or an InputError: nothing is computed yet."""
    every = experiment.evaluate_every or max(experiment.rounds // MARKS, 1)
    base = replace(experiment, attack=None, defence=None, evaluate_every=every)
    some, left_out = _shares(base.clients, shares)
    if base.privacy is not None and base.privacy.masks:
        why = "under masks the server sees no single upload that it could judge"
        left_out += [(f"the defence {each.name}", why) for each in defences if each.acts]
        defences = [each for each in defences if not each.acts]
    tried: tuple[Defence | None, ...] = (None, *defences)
    parts = [_clean(base)]
    sizes = [None, *(replace(attack, share=share) for attack in attacks for share in some)]
    for sized, defence in product(sizes, tried):
        if sized is None and defence is None:  # the clean part
            continue
        methods, refused = _fitting(base, sized, defence)
        left_out += [each for each in refused if each not in left_out]
        if methods:
            made = replace(base.only(methods), attack=sized, defence=defence)
            parts.append(AttackPart(sized, defence, tuple(methods), made))
    if not any(part.attack is not None for part in parts):
        why = "; ".join(f"{title}, {reason}" for title, reason in left_out)
        raise InputError("methods", f"are none that can be attacked: {why}", "give another method")
    return AttackPlan(base, tuple(attacks), some, tried, tuple(parts), tuple(left_out))


def _shares(
    clients: int, shares: Sequence[float]
) -> tuple[tuple[float, ...], list[tuple[str, str]]]:
    """Those of at least one client, in order, and those that are left out."""
    for share in shares:
        if not 0 <= share < 1:
            raise InputError("shares", f"has {share:g}", "use shares of the clients, 0 to 1")
    ordered = [share for share in sorted(set(shares)) if share]
    kept = tuple(share for share in ordered if round(share * clients))
    if not kept:
        right = f"give one of {1 / clients:g} or more"
        raise InputError("shares", f"have nobody of {clients} clients in any", right)
    why = f"which is nobody of {clients} clients"
    return kept, [(f"share {share:g}", why) for share in ordered if share not in kept]


def _clean(base: Experiment) -> AttackPart:
    """All methods as they are, and clients that learn alone."""
    methods = tuple(range(len(base.methods)))
    try:
        more = replace(base.only(methods), methods=(*base.methods, local.Options(label="alone")))
    except InputError:  # a learner or a stream that it does not take
        more = base
    return AttackPart(None, None, methods, more)


def _fitting(
    base: Experiment, attack: Attack | None, defence: Defence | None
) -> tuple[list[int], list[tuple[str, str]]]:
    """The methods that can be attacked and defended so, and why others cannot."""
    fitting, refused = [], []
    for j, (options, title) in enumerate(zip(base.methods, base.titles, strict=True)):
        valued = attack is not None and attack.on == "values"
        if options.alone or (valued and not options.attackable):
            refused.append((title, ALONE if options.alone else MODELLESS))
            continue
        try:
            replace(base, attack=attack, defence=defence, methods=(options,))
        except InputError as error:
            if not error.field.startswith("methods"):
                raise
            refused.append((title, error.found.partition(", ")[2] or error.found))
            continue
        fitting.append(j)
    return fitting, refused


def compute(made: AttackPlan, workers: Pool, report: Callable[[int], None]) -> list[Array]:
    """The steady errors [run, method] of every part; `report` gets the number of finished runs."""
    runs, found = made.base.runs, list[Array]()
    waiting: list[list[Any]] = []
    for part in [*(part.experiment for part in made.parts), None]:
        if part is not None:
            size = max(width(part), 1)
            batches = [list(range(n, min(n + size, runs))) for n in range(0, runs, size)]
            waiting.append([workers.submit(part, numbers) for numbers in batches])
        ahead = 0 if part is None else workers.ahead
        while waiting and sum(map(len, waiting)) > ahead:
            done, ends = made.parts[len(found)].experiment, list[Array]()
            for job in waiting.pop(0):
                ends += [_steady(done, run.mse) for run in job.result()]
                report(runs * len(found) + len(ends))
            found.append(np.array(ends))
    return found


def _steady(experiment: Experiment, mse: Array) -> Array:
    """The mean of the last fifth of the rounds, of each method."""
    marks = experiment.evaluated
    with np.errstate(over="ignore", invalid="ignore"):
        return mse[:, marks >= marks[-1] * (1 - STEADY_SHARE)].mean(axis=1)


@dataclass(frozen=True, eq=False)
class AttackResult:
    """A finished study: errors and losses of each method, attack, share and defence."""

    plan: AttackPlan
    steady: tuple[Array, ...]  # of each part: [run, method]

    @property
    def runs(self) -> int:
        """Monte-Carlo runs of each part."""
        return len(self.steady[0])

    @cached_property
    def cases(self) -> list[AttackCase]:
        """Every method in every part."""
        clean = self.steady[0]
        return [
            AttackCase(j, part.attack, part.defence, level(errors), level(errors, clean[:, j]))
            for part, steady in zip(self.plan.parts, self.steady, strict=True)
            for j, errors in zip(part.methods, steady.T, strict=False)  # the last may be alone
        ]

    def case(self, j: int, attack: Any, share: float, defence: Any) -> AttackCase | None:
        """What became of method j, if that was tried."""
        sized = replace(attack, share=share) if attack is not None and share else None
        return next((case for case in self.cases if case[:3] == (j, sized, defence)), None)

    def alone(self) -> Estimated | None:
        """The level of clients that learn alone, on average over them."""
        first = self.steady[0]
        return level(first[:, -1]) if first.shape[1] > len(self.plan.base.methods) else None

    def rows(self) -> Iterator[dict[str, Any]]:
        """The table: a row for each method in each part."""
        for j, attack, defence, error, lost in self.cases:
            yield {
                "method": self.plan.base.titles[j],
                "attack": "none" if attack is None else attack.describe(),
                "share": 0.0 if attack is None else attack.share,
                "defence": "none" if defence is None else defence.describe(),
                "mse_db": error.value, "mse_low": error.low, "mse_high": error.high,
                "loss_db": lost.value, "loss_low": lost.low, "loss_high": lost.high,
                "runs": self.runs,
            }  # fmt: skip


def level(errors: Array, clean: Array | None = None) -> Estimated:
    """The mean of errors of runs in dB; over that of clean runs, paired, as both saw the same."""
    with np.errstate(over="ignore", invalid="ignore"):
        value, relative = to_db(errors.mean()), errors / errors.mean()
        if clean is not None:
            value, relative = value - to_db(clean.mean()), relative - clean / clean.mean()
        spread = relative.std(ddof=1) if len(relative) > 1 else np.nan
        half = LIKELY * PER_DB * float(spread) / len(relative) ** 0.5
    return Estimated(float(value), float(value - half), float(value + half))

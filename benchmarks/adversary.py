"""The worst that malicious clients can do: an optimiser looks for it, other draws confirm it.

    python benchmarks/adversary.py [--quick] [--defence none --defence clip]
    python benchmarks/adversary.py --only "10 clients, 20%, M=40" --tries 200
    python benchmarks/adversary.py --runs 2 --attack ./benchmarks/adversary_attack.py:rank=25

Attacks of the family in `adversary_attack.py` are tried on the draws of one seed, in short runs: a
list of known ones, random ones, then an evolution strategy that changes the best. What it maximises
is the loss in dB at the end against the clean federation without a defence, on the same draws. The
best few, also with variants for a longer time, are then run for 5,000 rounds on the draws of
another seed; the worst of these is printed, as a text for `psofed study attack FILE --attack`, with
what it costs where there is no defence. The peak is the largest loss in the last half. Fixed
attacks, those of `psofed study attack` that know nothing of the server, stand next to it, and so
does the price: the loss where nobody is malicious.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import seasons

from psofed.curves import STEADY_SHARE, to_db
from psofed.experiment import Experiment
from psofed.federation import texts
from psofed.methods import onlinefed
from psofed.methods import psofed as pso
from psofed.simulate import onerun
from psofed.stages.attacks import (
    collusion,
    constant,
    ipm,
    labels,
    offset,
    perturbation,
    scale,
    stuck,
)

HERE = Path(__file__).parent / "adversary_attack.py"
FIRST = 12  # the first run: those before it also compute floors, which nobody reads here
SEARCH, REPORT = 1, 2  # seeds for tuning and for what is reported
METHODS = {"M=5": pso.Options(shared=5), "M=40": pso.Options(shared=40), "D": onlinefed.Options()}
FIXED = (
    scale.Options(), scale.Options(factor=-5.0), scale.Options(factor=0.9),
    scale.Options(factor=0.0), constant.Options(), constant.Options(value=9e8), offset.Options(),
    offset.Options(begin=0.1, rate=0.0), perturbation.Options(), collusion.Options(),
    ipm.Options(), ipm.Options(epsilon=0.5), labels.Options(), labels.Options(factor=0.0),
    labels.Options(factor=100.0), stuck.Options(),
)  # fmt: skip
WORST = 99.0  # dB: further than this nobody looks


def attack(**options: Any) -> Any:
    """The attack with these options, as a plug-in."""
    made = texts.named("psofed.attacks", "--attack", str(HERE))
    return replace(made, **options)


def text(options: Any) -> str:
    """The attack as the command line takes it, without what is as usual."""
    said = []
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name != "share" and value != field.default:
            shown = f"{value:.4g}" if isinstance(value, float) else str(value).lower()
            said.append(f"{field.name}={shown}")
    name = "./benchmarks/adversary_attack.py" if options.name == "adversary" else options.name
    return name + (":" + ",".join(said) if said else "")


class Harm(NamedTuple):
    """Losses in dB to the clean federation: at the end, half of its 95 % interval, at the worst."""

    end: float
    half: float
    peak: float

    def __str__(self) -> str:
        return f"{self.end:.2f} ±{self.half:.2f} ({self.peak:.2f})"


@dataclass(frozen=True)
class Arena:
    """A federation, and a share of it that is malicious."""

    clients: int
    share: float
    method: str
    defence: Any
    seed: int
    rounds: int
    runs: int

    @property
    def title(self) -> str:
        return f"{self.clients} clients, {self.share:.0%}, {self.method}"

    @property
    def experiment(self) -> Experiment:
        """Without attack and defence."""
        every = max(self.rounds // 100, 1)
        return Experiment(
            clients=self.clients, rounds=self.rounds, runs=FIRST + self.runs, seed=self.seed,
            evaluate_every=every, methods=(METHODS[self.method],),
        )  # fmt: skip

    def errors(self, attack: Any, defence: Any) -> Any:
        """Test MSE [run, mark]."""
        attack = attack and replace(attack, share=self.share)
        made = replace(self.experiment, attack=attack, defence=defence)
        found = onerun.some_runs(made, range(FIRST, FIRST + self.runs))
        return np.array([run.mse[0] for run in found])

    @cached_property
    def clean(self) -> Any:
        return self.errors(None, None)

    def harm(self, attack: Any) -> Harm:
        """What the attack costs; None: what the defence costs where nobody is malicious."""
        marks, clean = self.experiment.evaluated, self.clean
        with np.errstate(all="ignore"):
            errors = self.errors(attack, self.defence)
            late = marks >= marks[-1] * (1 - STEADY_SHARE)
            end, before = errors[:, late].mean(axis=1), clean[:, late].mean(axis=1)
            lost = to_db(end.mean()) - to_db(before.mean())
            apart = end / end.mean() - before / before.mean()
            half = 1.96 * 4.34 * apart.std(ddof=1) / len(apart) ** 0.5
            half_way = marks >= marks[-1] / 2
            over = to_db(errors[:, half_way].mean(axis=0)) - to_db(clean[:, half_way].mean(axis=0))
        found = (min(float(np.nan_to_num(v, nan=WORST)), WORST) for v in (lost, half, over.max()))
        return Harm(*found)


def known(rounds: int) -> list[Any]:
    """Where the search begins: attacks that somebody has thought of."""
    half = rounds // 2
    return [
        attack(unit="passing", own=0.0, rank=10),
        attack(unit="passing", own=0.0, rank=25),
        attack(unit="passing", own=1.0, rank=15, width=10),
        attack(unit="passing", own=0.0, push="sign"),
        attack(unit="passing", own=0.0, push="change"),
        attack(own=0.0, size=0.0),
        attack(own=0.0, size=1e-6),
        attack(own=0.0, push="model", unit="model", size=0.02),
        attack(own=0.0, push="model", unit="model", size=0.1),
        attack(own=0.0, push="model", unit="model", size=1.0),
        attack(own=0.0, push="change", size=1.0),
        attack(own=0.0, push="change", size=2.0),
        attack(own=1.0, rank=20, width=20, size=1.0),
        attack(own=1.0, rank=10, width=10, size=2.0, sleep=half),
        attack(own=1.0, rank=20, width=5, size=3.0, sleep=half, before=3.0),
        attack(own=0.0, push="random", size=3.0, sleep=half, before=1e-6),
        attack(own=0.0, push="sign", size=3.0, sleep=2 * rounds // 3, before=1e-6),
        attack(own=1.0, rank=20, width=20, size=3.0, turns=2),
        attack(own=1.0, rank=20, width=20, size=5.0, duty=0.3),
        attack(own=1.0, rank=20, width=20, size=5.0),
        attack(own=1.0, rank=20, width=20, size=8.0, noise=2.0),
        attack(own=1.0, push="model", size=8.0, noise=2.0),
        attack(own=1.0, push="change", size=4.0, noise=1.0),
        attack(own=1.0, rank=15, width=20, size=6.0, wander=2),
    ]


LOGARITHMIC = {"size": (1e-3, 30.0), "period": (4, 800), "rank": (1, 120), "width": (1, 60)}
CHOICES = {
    "push": ("band", "band", "band", "model", "sign", "change", "random"),
    "unit": ("usual", "usual", "passing", "model"), "own": (1.0, 1.0, 0.0, 0.5, 2.0),
    "apart": (False, False, False, True), "split": (1, 1, 1, 2, 4),
    "noise": (0.0, 0.0, 1.0, 3.0, 10.0), "wander": (0, 0, 0, 10, 30, 100, 300),
    "before": (1.0, 1.0, 1e-6, 0.0, 3.0, 6.0), "duty": (1.0, 1.0, 0.7, 0.4, 0.1),
    "turns": (1, 1, 1, 2, 3), "sleep": (0, 0, 0, 0.3, 0.5, 0.7),
}  # fmt: skip


def drawn(rng: np.random.Generator, rounds: int) -> Any:
    """Any attack."""
    found: dict[str, Any] = {}
    for key, (low, high) in LOGARITHMIC.items():
        value = np.exp(rng.uniform(np.log(low), np.log(high)))
        found[key] = float(value) if key == "size" else round(value)
    for key, values in CHOICES.items():
        found[key] = values[rng.integers(len(values))]
    return attack(**found | {"sleep": round(found["sleep"] * rounds)})


def changed(rng: np.random.Generator, parent: Any, rounds: int, reach: float) -> Any:
    """A child: each number a little larger or smaller, now and then another choice."""
    found: dict[str, Any] = {}
    for key, (low, high) in LOGARITHMIC.items():
        value = np.clip(getattr(parent, key) * np.exp(reach * rng.standard_normal()), low, high)
        found[key] = float(value) if key == "size" else round(value)
    for key, values in CHOICES.items():
        if rng.random() < 0.12:
            value = values[rng.integers(len(values))]
            found[key] = round(value * rounds) if key == "sleep" else value
    return replace(parent, **found)


def search(arena: Arena, tries: int, seed: int = 0, tell: Any = None) -> list[tuple[Harm, Any]]:
    """What was tried, the worst first: known ones, random ones, then children of the best four."""
    rng, found = np.random.default_rng(seed), list[tuple[Harm, Any]]()
    begin = known(arena.rounds)
    for i in range(tries):
        if i < len(begin):
            tried = begin[i]
        elif i < len(begin) + (tries - len(begin)) // 3:
            tried = drawn(rng, arena.rounds)
        else:
            parent = found[int(rng.integers(min(4, len(found))))][1]
            tried = changed(rng, parent, arena.rounds, 0.6 * (1 - i / tries) + 0.1)
        found.append((arena.harm(tried), tried))
        found.sort(key=lambda each: -each[0].end)
        if tell:
            tell(i, found)
    return found


def finalists(found: list[tuple[Harm, Any]], rounds: int, longer: int) -> Iterator[Any]:
    """The best two, the best that always passes, and the best stretched: weak pushes add up."""
    ratio, best = longer / rounds, found[0][1]
    for _, each in found[:2] + [one for one in found if one[1].unit == "passing"][:1]:
        yield replace(each, sleep=round(each.sleep * ratio))
    if ratio > 1:
        slower = replace(best, sleep=round(best.sleep * ratio), period=round(best.period * ratio))
        yield slower
        if best.push == "band":
            yield replace(slower, rank=round(2 * best.rank), width=round(1.5 * best.width))


def fought(arena: Arena, tries: int, rounds: int, runs: int) -> tuple[Any, ...]:
    """Price, worst fixed attack and worst found one, on other draws and for a longer time."""
    fixed = sorted(FIXED, key=lambda a: -arena.harm(a).end)[:3]
    begun = time.monotonic()
    found = search(arena, tries, tell=_progress)
    each = (time.monotonic() - begun) / tries
    told = f"{arena.title}: {each:.1f} s a try; {found[0][0].end:.2f} dB by {text(found[0][1])}"
    print(told, file=sys.stderr, flush=True)
    judge = replace(arena, seed=REPORT, rounds=rounds, runs=runs)
    price = judge.harm(None) if arena.defence is not None else Harm(0.0, 0.0, 0.0)
    chosen = fixed, list(finalists(found, arena.rounds, rounds))
    worst = [max(((judge.harm(a), a) for a in some), key=lambda h: h[0].end) for some in chosen]
    bare = replace(judge, defence=None)
    return price, *((harm, bare.harm(a), text(a)) for harm, a in worst)


def _progress(i: int, found: list[tuple[Harm, Any]]) -> None:
    if i % 20 == 19:
        print(f"    {i + 1}: {found[0][0].end:.2f} dB by {text(found[0][1])}", file=sys.stderr)


def unlike(defence: Any, clients: int, method: str, odd: str, rounds: int) -> tuple[float, float]:
    """Of a client that is unlike the others: the weight it keeps, and dB lost to no defence."""
    arena = Arena(clients, 0.0, method, defence, REPORT, rounds, 4)
    made = replace(arena.experiment, stream=seasons.Options(odd=odd))
    runs, late = range(FIRST, FIRST + arena.runs), made.evaluated >= rounds * (1 - STEADY_SHARE)
    with seasons.watched(rounds // 5) as kept:
        ends = [
            np.mean([run.mse[0, late].mean() for run in onerun.some_runs(each, runs)])
            for each in (replace(made, defence=defence), made)
        ]
    return kept.of(seasons.Options.who), float(to_db(ends[0]) - to_db(ends[1]))


def cases(quick: bool) -> Iterator[tuple[int, float, str]]:
    """The federations."""
    if quick:
        yield 10, 0.2, "M=40"
        return
    for clients in (10, 100):
        for share in (0.1, 0.2):
            for method in METHODS:
                yield clients, share, method


def _defence(name: str) -> Any:
    return None if name == "none" else texts.named("psofed.defences", "--defence", name)


def main() -> None:
    """A table for each defence, and one of honest clients that are unlike the others."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one federation, two minutes")
    parser.add_argument("--defence", action="append", help="none, clip, or a file")
    parser.add_argument("--only", default="", help="such as '10 clients, 20%%, M=40', or odd")
    parser.add_argument("--attack", default="", help="this one alone, without a search")
    parser.add_argument("--tries", type=int, default=30)
    parser.add_argument("--search-rounds", type=int, default=1200)
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=4)
    given = parser.parse_args()
    if given.quick:
        given.tries, given.search_rounds, given.rounds, given.runs = 24, 400, 800, 4
    for name in given.defence or ["clip"]:
        (alone if given.attack else against)(name, given)
    for name in given.defence or ["clip"]:
        if name != "none" and given.only in ("", "odd") and not given.attack:
            odd_ones(name, given.quick, 800 if given.quick else 2000)


def against(name: str, given: argparse.Namespace) -> None:
    """What the defence holds, federation by federation."""
    print(f"\nDefence: {name}. Loss in dB at the end (and at the worst of the last half)\n")
    print("| federation | nobody | worst fixed | no defence | by | worst found | no defence | by |")
    print("|---|---|---|---|---|---|---|---|")
    for clients, share, method in cases(given.quick):
        arena = Arena(clients, share, method, _defence(name), SEARCH, given.search_rounds, 2)
        if given.only not in arena.title:
            continue
        price, *worst = fought(arena, given.tries, given.rounds, given.runs)
        shown = [f"{h} | {bare.end:.1f} | `{by}`" for h, bare, by in worst]
        print(f"| {arena.title} | {price.end:.2f} ±{price.half:.2f} | {' | '.join(shown)} |",
              flush=True)  # fmt: skip


def alone(name: str, given: argparse.Namespace) -> None:
    """What one attack costs, federation by federation."""
    made = texts.named("psofed.attacks", "--attack", given.attack)
    print(f"\nDefence: {name}. Loss in dB at the end (and at the worst of the last half)\n")
    print("| federation | nobody | attacked | no defence |\n|---|---|---|---|")
    for clients, share, method in cases(given.quick):
        judge = Arena(clients, share, method, _defence(name), REPORT, given.rounds, given.runs)
        if given.only in judge.title:
            price, harm = judge.harm(None), judge.harm(made)
            bare = replace(judge, defence=None).harm(made)
            print(f"| {judge.title} | {price.end:.2f} | {harm} | {bare.end:.1f} |", flush=True)


def odd_ones(name: str, quick: bool, rounds: int) -> None:
    """What is left of honest clients that differ."""
    print(f"\nDefence: {name}. An honest client that is unlike the others\n")
    print("| federation | unlike in | weight | dB to none |\n|---|---|---|---|")
    for clients in (10,) if quick else (10, 100):
        for method in ("M=40",) if quick else METHODS:
            for odd in ("inputs", "target"):
                weight, lost = unlike(_defence(name), clients, method, odd, rounds)
                print(f"| {clients} clients, {method} | {odd} | {weight:.2f} | {lost:+.2f} |",
                      flush=True)  # fmt: skip


if __name__ == "__main__":
    main()

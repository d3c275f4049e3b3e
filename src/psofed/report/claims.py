"""The paper's three claims, each with what was measured and whether it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from psofed.curves import Curves, Estimate, to_db
from psofed.experiment import Experiment
from psofed.federation.bases import SCHEMES
from psofed.methods import psofed
from psofed.report.files import Grid

ROUNDS = 5000  # what the claims are about
SAME_DB = 0.5  # "similar" or "competitive" MSE: the largest difference in dB
EQUAL_DB = 0.2  # "equally effective": the largest difference in dB
SAME_RATE = 1.25  # "similar convergence rate": the largest ratio of the rounds needed
WORDS = {True: "yes", False: "no", None: "?"}
SIGNS = {
    True: "✓\N{NO-BREAK SPACE}yes",
    False: "✗\N{NO-BREAK SPACE}no",
    None: "?\N{NO-BREAK SPACE}open",
}
NEAR_DB = 1.0  # a curve has converged when it stays this close, in dB, to Online-Fed's steady MSE


@dataclass(frozen=True)
class Finding:
    """One part of a claim: what the paper says, what was measured, whether it holds (or None)."""

    says: str
    measured: str
    holds: bool | None


@dataclass(frozen=True)
class Claim:
    """One of the paper's numbered observations."""

    number: int
    title: str
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """The verdict over all findings."""
        known = [finding.holds for finding in self.findings if finding.holds is not None]
        if not known:
            return "not measured"
        if all(known):
            return "holds" if len(known) == len(self.findings) else "holds as far as can be told"
        return "holds in part" if any(known) else "does not hold"

    def to_table(self) -> dict[str, Any]:
        """The claim as plain values."""
        return asdict(self) | {"verdict": self.verdict}


def is_paper(experiment: Experiment) -> bool:
    """Whether the claims apply: the paper's experiment, except for length, seed and precision."""
    free = ("rounds", "runs", "seed", "dtype", "evaluate_every", "test_samples", "targets")
    same = Experiment(**{name: getattr(experiment, name) for name in free})
    methods = tuple(
        replace(o, shift=None) if isinstance(o, psofed.Options) and o.shift == 1 else o
        for o in experiment.methods  # a shift of 1 is what None means there
    )
    return methods == same.methods and replace(experiment, methods=same.methods) == same


def judge(curves: Curves) -> tuple[Claim, ...]:
    """The three claims, measured on the curves of `psofed reproduce`."""
    keys = [(o.name, *o.sharing) for o in curves.experiment.methods]
    online = next(j for j, o in enumerate(curves.experiment.methods) if o.name == "onlinefed")
    small, middle, large = (
        [keys.index(("psofed", shared, scheme)) for scheme in SCHEMES] for shared in (1, 5, 40)
    )
    near = partial(_within, SAME_DB)
    first = (
        _ends(curves, small, online, "M = 1 ends at a similar MSE as Online-Fed", near),
        _rates(curves, small, online, "M = 1 converges more slowly",
               lambda ratios: min(ratios) > SAME_RATE),
        _ends(curves, large, online, "M = 40 ends slightly below Online-Fed", _below),
        _rates(curves, large, online, "M = 40 converges at a similar rate",
               lambda ratios: max(ratios) <= SAME_RATE),
    )  # fmt: skip
    second = (
        _fifth(curves, large, online),
        _ends(curves, large, online, "M = 40 ends at the same MSE as Online-Fed", near),
        _on_the_way(curves, large, online),
    )
    third = (_leads(curves, *small), _equal(curves, 5, *middle), _equal(curves, 40, *large))
    return (
        Claim(1, "competitive MSE at lower cost", first),
        Claim(2, "M = 40 behaves as Online-Fed at 1/5 of its load", second),
        Claim(3, "coordinated starts faster at M = 1, no difference for M >= 5", third),
    )


def caution(rounds: int, targets: str) -> list[str]:
    """What to say of a verdict after fewer rounds than the claims are about, and of its targets."""
    lines = []
    if rounds < ROUNDS:
        lines.append(
            f"The claims are about {ROUNDS:,} rounds, this is a verdict after {rounds:,}: slow"
            f" methods have not caught up. `psofed reproduce --rounds {ROUNDS}` tests what the"
            " paper says."
        )
    if targets == "noisy targets":
        lines.append(
            "Noisy targets add the noise variance to every error: differences in dB are smaller"
            " than on noise-free targets, and their signs are the same."
        )
    return lines


def text(claims: tuple[Claim, ...]) -> str:
    """The claims as text."""
    lines = []
    for claim in claims:
        lines.append(f"Claim {claim.number}: {claim.title}: {claim.verdict.upper()}")
        lines += [f"  [{WORDS[f.holds]:>3}] {f.says}: {f.measured}" for f in claim.findings]
    return "\n".join(lines)


def grid(claim: Claim) -> Grid:
    """A claim as a table, for a page."""
    rows = [[f.says, f.measured, SIGNS[f.holds]] for f in claim.findings]
    title = f"Claim {claim.number}: {claim.title}: {claim.verdict}"
    return Grid([["the paper says", "measured here", "holds"], *rows], title=title)


def _show(estimate: Estimate) -> str:
    error = "" if np.isnan(estimate.stderr) else f" ±{estimate.stderr:.2f}"
    return f"{estimate.value:+.2f}{error} dB"


def _within(limit: float, *estimates: Estimate) -> bool | None:
    """Whether all are within the limit; None where the standard error is too large to tell."""
    if not all(2 * estimate.stderr <= limit for estimate in estimates):
        return None
    return all(abs(estimate.value) <= limit for estimate in estimates)


def _below(*estimates: Estimate) -> bool | None:
    """Whether all are below zero by more than two standard errors; None without an error."""
    if any(np.isnan(estimate.stderr) for estimate in estimates):
        return None
    return all(bool(estimate.value < -2 * estimate.stderr) for estimate in estimates)


def _pairs(texts: list[str]) -> str:
    return ", ".join(f"{t} {s}" for t, s in zip(texts, SCHEMES, strict=True))


def _ends(
    curves: Curves, methods: list[int], online: int, says: str, holds: Callable[..., bool | None]
) -> Finding:
    steady = [curves.difference(j, online, "steady") for j in methods]
    measured = f"{_pairs([_show(e) for e in steady])} after {curves.rounds[-1]} rounds"
    return Finding(says, measured, holds(*steady))


def _on_the_way(curves: Curves, methods: list[int], online: int) -> Finding:
    says = "M = 40 is as good on the way"
    if len(curves.point_names) == 1:
        return Finding(says, "needs 100 rounds", None)
    gaps = {
        (j, name): curves.difference(j, online, name)
        for j in methods
        for name in curves.point_names[:-1]
    }
    worst = max(gaps, key=lambda key: abs(gaps[key].value))
    measured = f"largest difference {_show(gaps[worst])}, at n = {worst[1]}"
    return Finding(says, measured, _within(SAME_DB, *gaps.values()))


def _rounds_to_converge(curves: Curves, j: int, online: int) -> int | None:
    """The first evaluated round from which the curve stays near Online-Fed's steady MSE.

    The curve is smoothed over 2 % of its length, or the noise of few runs would decide.
    """
    level = curves.point(online, "steady").value + NEAR_DB
    width = max(len(curves.rounds) // 50, 1)
    padded = np.pad(curves.mse[j], (width // 2, width - 1 - width // 2), mode="edge")
    smooth = np.convolve(padded, np.full(width, 1 / width), mode="valid")
    above = np.flatnonzero(to_db(smooth) > level)
    first = above[-1] + 1 if len(above) else 0
    return int(curves.rounds[first]) if first < len(curves.rounds) else None


def _rates(
    curves: Curves, methods: list[int], online: int, says: str, holds: Callable[[list[float]], bool]
) -> Finding:
    """How many times Online-Fed's rounds each method needs; infinite if it does not get there."""
    base = _rounds_to_converge(curves, online, online)
    texts, ratios = [], []
    for j in methods:
        rounds = _rounds_to_converge(curves, j, online)
        ratios.append(np.inf if rounds is None or not base else rounds / base)
        texts.append("not reached" if rounds is None else f"{rounds} rounds ({ratios[-1]:.1f}x)")
    measured = f"{_pairs(texts)}; Online-Fed {base} rounds, to within {NEAR_DB:g} dB of its end"
    return Finding(says, measured, holds(ratios))


def _fifth(curves: Curves, methods: list[int], online: int) -> Finding:
    shares = [curves.traffic_share(j, online) for j in methods]
    dim = curves.experiment.dim
    measured = _pairs([f"{share:.6g}" for share in shares]) + f", by counting (M/D = 40/{dim})"
    return Finding("M = 40 costs 1/5 of the bytes", measured, all(s == 0.2 for s in shares))


def _leads(curves: Curves, coordinated: int, uncoordinated: int) -> Finding:
    says = "coordinated leads at first at M = 1"
    if "200" not in curves.point_names:
        return Finding(says, "needs 200 rounds", None)
    early = curves.difference(coordinated, uncoordinated, "200")
    late = curves.difference(coordinated, uncoordinated, "steady")
    measured = f"{_show(early)} at n = 200; {_show(late)} at the end"
    return Finding(says, measured, _below(early))


def _equal(curves: Curves, shared: int, coordinated: int, uncoordinated: int) -> Finding:
    gaps = {p: curves.difference(coordinated, uncoordinated, p) for p in curves.point_names}
    worst = max(gaps, key=lambda p: abs(gaps[p].value))
    where = f"n = {worst}" if worst.isdigit() else "the end"
    measured = f"largest difference {_show(gaps[worst])}, at {where}"
    equal = _within(EQUAL_DB, *gaps.values())
    return Finding(f"M = {shared}: both schemes are equal", measured, equal)

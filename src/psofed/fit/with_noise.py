"""What a promise of privacy costs on a table: which method, M, step and clip, and at which error.

Candidates are as those without noise: chosen on one part of the rounds, reported on a later one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from psofed.core.feature_table import LONGEST
from psofed.core.seeds import Seeds
from psofed.data.rounds import Rounds
from psofed.fit import choices, federation, fitting
from psofed.fit.choices import Choice, Limits
from psofed.fit.federation import Span
from psofed.fit.fitting import Counting
from psofed.fit.plan import Plan
from psofed.fit.player import Contender
from psofed.methods import fedavg, onlinefed, psofed
from psofed.methods.contract import Options, start
from psofed.methods.noise_rules import check_samples
from psofed.privacy import accountant
from psofed.privacy.settings import Privacy

SHARED, STEPS = (1, 5, 20, 80), (4, 16)  # M and E
PARTS = (1.0, 0.4, 0.15)  # of the step without noise
CLIPS = {"sample": (0.3, 1.0), "client": (0.01, 0.03, 0.1)}


@dataclass(frozen=True)
class PrivateChoice:
    """A candidate with noise."""

    choice: Choice
    options: Options  # with its step
    privacy: Privacy  # with its clip

    @property
    def clip(self) -> str:
        """The clip as a file has it."""
        if self.privacy.level == "sample":
            return f"clip_error = {self.privacy.error:g}"
        return f"clip_change = {self.privacy.change:g}"

    def to_table(self) -> dict[str, Any]:
        """As plain values."""
        return choices.to_table(self.choice) | {
            "step": self.options.step,
            "privacy": self.privacy.to_table(),
        }


def search(
    rounds: Rounds, plan: Plan, span: Span, limits: Limits, privacy: Privacy, counting: Counting
) -> list[PrivateChoice]:
    """Every candidate with its best step and clip, from the most accurate on."""
    check_samples(privacy, plan.check)
    waves, tried = fitting.draw(plan, rounds.encoder), list(_grid(plan, privacy))
    contenders = []
    for options, clipped in tried:
        task = federation.task(rounds, waves, Seeds(plan.seed), options.step or 0.2, plan.cohort,
                               plan.label_delay, plan.wire, span.first, plan.check)  # fmt: skip
        longest = LONGEST["cosine"]
        task = replace(task, privacy=clipped, rounds=span.stop, longest=longest)
        contenders.append(
            Contender(replace(options, step=None).title(), start(options, task), waves)
        )
    with counting("searching with noise, rounds") as on_round:
        scores, _ = federation.federate(rounds, contenders, plan.label_delay, span, on_round)
    found = choices.all_of(scores, tuple(options for options, _ in tried), limits)
    best: dict[str, PrivateChoice] = {}
    for choice, (options, clipped) in zip(found, tried, strict=True):
        other = best.get(choice.title)
        if choice.usable and (other is None or choice.chosen < other.choice.chosen):
            best[choice.title] = PrivateChoice(choice, options, clipped)
    return sorted(best.values(), key=lambda each: each.choice.chosen)


def _grid(plan: Plan, privacy: Privacy) -> Any:
    most = 2 / LONGEST["cosine"] ** 2 if privacy.level == "sample" else 2.0
    mu = min(plan.step or 0.2, most)
    field = "clip_error" if privacy.level == "sample" else "clip_change"
    windows = [psofed.Options(m) for m in SHARED if m < plan.dim]
    for options in (onlinefed.Options(), *windows, *(fedavg.Options(e) for e in STEPS)):
        for part in PARTS:
            for clip in CLIPS[privacy.level]:
                clipped: Any = {field: clip}
                yield replace(options, step=part * mu), replace(privacy, **clipped)


def words(found: list[PrivateChoice], plain: list[Choice], privacy: Privacy) -> list[str]:
    """The advice: what is best with this promise, and what the promise costs."""
    whose = "each sample" if privacy.level == "sample" else "all samples of a device together"
    promise = f"epsilon {privacy.epsilon:g} at delta {privacy.delta:g} for {whose}"
    if not found:
        return [f"With {promise} nothing can be recommended: no candidate fits."]
    best, alone = found[0], _alone(plain)
    same = next((c.error for c in plain if c.title == best.choice.title), None)
    cost = "" if same is None else f", {same:.3f} without noise"
    line = (
        f"With {promise}: {best.choice.title}, step {best.options.step:.3g}, {best.clip}:"
        f" {best.choice.error:.3f} of the variance{cost},"
        f" {best.choice.bytes:,.0f} bytes per device and day."
    )
    if alone is None:
        return [line]
    verdict = "so sharing is worth its noise" if worthwhile(found, plain) else "so do not share"
    chosen = f"{best.choice.chosen:.3f} against {alone.chosen:.3f} on earlier rounds"
    return [line, f"{alone.title} sends nothing and reaches {alone.error:.3f} ({chosen}):"
            f" {verdict}."]  # fmt: skip


def doubts(plan: Plan, privacy: Privacy) -> list[str]:
    """What the promise does not hold for, on this table."""
    columns = plan.columns
    own = (lag for lags in columns.lags_of.values() for lag in lags)
    count = 1 + len({*columns.lags, *own, *columns.target_lags})
    lines = ["scaling, width, step and clip were found on this data, without noise"]
    if count > 1 and privacy.level == "sample" and privacy.epsilon is not None:
        ratio = count * accountant.ratio(privacy.epsilon, privacy.delta)
        worse = accountant.epsilon(ratio, privacy.delta)
        lines.append(f"with lags a row is in {count} samples, so it has epsilon {worse:.3g}")
    return lines


def worthwhile(found: list[PrivateChoice], plain: list[Choice]) -> bool:
    """Whether a candidate with noise was better than all that send nothing."""
    alone = _alone(plain)
    return bool(found) and (alone is None or found[0].choice.chosen < alone.chosen)


def _alone(plain: list[Choice]) -> Choice | None:
    """The best of those that send nothing: they promise more than any epsilon."""
    silent = [c for c in plain if c.usable and not c.federated]
    return min(silent, key=lambda c: c.chosen, default=None)

"""Where clipping and noise mean what they promise: everything else is refused, with the reason."""

from __future__ import annotations

from psofed import schema
from psofed.errors import InputError
from psofed.learners.contract import Learner
from psofed.methods.options import Options
from psofed.privacy.settings import Privacy
from psofed.sample_checks import range as ranges
from psofed.sample_checks.contract import SampleCheck

RIGHT = "use psofed, onlinefed or fedavg, or leave out epsilon and clips under [privacy]"


def check_noise(
    privacy: Privacy | None, options: Options, learner: Learner, longest: float | None, step: float
) -> None:
    """Refuse a method, a learner, features or a step for which there is no proof."""
    if privacy is None or not privacy.noisy:
        return
    worker = schema.beside(options, "Method")
    if not worker.sums:
        found = f"is {options.name}, which sends other things than noise could hide"
        raise InputError("name", found, RIGHT)
    if options.policy is not None or options.selects:
        found = "is given, but who takes part would tell of the data, and has no noise"
        raise InputError("policy", found, "leave it out")
    if options.wire is not None:
        found = f"is {options.wire!r}, but noise is added to numbers"
        raise InputError("wire", found, "leave it out; [deploy] wire may be float16")
    if privacy.error is not None and not (worker.scripted and learner.descends):
        found = f"is {options.name} with the learner {learner.name}: their errors are not clipped"
        raise InputError("name", found, 'use psofed, onlinefed or fedavg with the learner "lms"')
    if privacy.hides_samples:
        _check_step(learner, longest, step if options.step is None else options.step)


def _check_step(learner: Learner, longest: float | None, step: float) -> None:
    """One sample pays once if a later step never drives two models apart: mu |z|^2 <= 2."""
    right = 'use level = "client"'
    if not learner.lms:
        found = f"is {learner.name}, of which it is not known how far one sample moves a model"
        raise InputError("learner", found, f'use "lms", or {right} under [privacy]')
    if longest is None:
        found = "have no known largest length, so one sample can move a model by any amount"
        raise InputError("features", found, f'use "cosine" or "exponential", or {right}')
    if step * longest**2 > 2 * (1 + 1e-9):
        found = f"is {step:g}: a later sample could enlarge what one has left in a model"
        raise InputError("step", found, f"use {2 / longest**2:.3g} at most, or {right}")


def check_samples(privacy: Privacy | None, check: SampleCheck | None) -> None:
    """Refuse a check of samples that remembers: one sample would decide about later ones."""
    if privacy is None or not privacy.hides_samples:
        return
    if check is None or not check.acts or type(check) is ranges.Options:
        return
    found = f"is {check.name}, which judges a sample by others, so one moves a model through them"
    raise InputError("check", found, 'use "range" or "none", or level = "client"')

"""What the theory is about: Algorithm 1 with LMS, all clients there, at most noise in uploads."""

from __future__ import annotations

import numpy as np

from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.streams.contract import about, varies
from psofed.theory.system import started, system

MOST_DIM = 1000
UNCOVERED = "the theory is that of Algorithm 1, without a policy or averaging"


def check(experiment: Experiment) -> None:
    """Refuse an experiment that the theory does not describe, whatever its methods are."""
    _check_worlds(experiment)
    if not experiment.learner.has_theory:
        found = f"is {experiment.learner.name!r}, but the theory is that of LMS from w_0 = 0 on"
        right = 'leave [learner] out, use "linear", or simulate: `psofed run`'
        raise InputError("learner.name", found, right)
    if experiment.check is not None and experiment.check.acts:
        found = f"is {experiment.check.name!r}, but in the theory clients learn from every sample"
        raise InputError("check.name", found, "leave [check] out, or simulate: `psofed run`")
    if (threat := unknown_threat(experiment)) is not None:
        raise threat
    if experiment.privacy is not None and experiment.privacy.acts:
        found = "is given, but in the theory uploads are neither rounded, clipped nor noisy"
        raise InputError("privacy", found, "leave [privacy] out, or simulate: `psofed run`")
    if varies(experiment.stream):
        found = f"is {experiment.stream.name!r}, whose f changes over time"
        raise InputError("stream.name", found, 'use "paper", "iid" or "function" without a change')
    if about(experiment.stream).gaps:
        found = f"is {experiment.stream.name!r}, in which clients have no sample in some rounds"
        raise InputError("stream.name", found, 'use "paper" or "iid", without away and late')
    if experiment.absent:
        found = f"is {experiment.absent}, but the theory assumes that all clients take part"
        raise InputError("absent", found, "leave it out")
    if experiment.fleet:
        found = "is given, but in the theory all clients take part from the beginning to the end"
        raise InputError("fleet", found, "leave [[fleet]] out, or simulate: `psofed run`")
    if experiment.dim > MOST_DIM:
        found = f"is {experiment.dim}, but the theory follows D x D matrices through every round"
        raise InputError("features.dim", found, f"use at most {MOST_DIM}")


def unknown_threat(experiment: Experiment) -> InputError | None:
    """The error about an attack or a defence that the theory does not know, if there is one."""
    attack, defence = experiment.attack, experiment.defence
    if attack is not None and attack.share and attack.added_variance is None:
        found = f"is {attack.name!r}, but the theory knows noise in uploads only"
        right = 'use "perturbation", leave [attack] out, or simulate: `psofed run`'
        return InputError("attack.name", found, right)
    if defence is not None:
        found = f"is {defence.name!r}, but the theory is that of a server without a defence"
        return InputError("defence.name", found, "leave [defence] out, or simulate: `psofed run`")
    return None


def _check_worlds(experiment: Experiment) -> None:
    """Refuse methods with features or a learner of their own."""
    for i, options in enumerate(experiment.methods):
        if options.apart:
            what = "learner" if options.features is None else "features"
            found = f"is that of {options.name} alone, but the theory follows one world"
            right = f"give it to the whole experiment, as [{what}]"
            raise InputError(f"methods[{i}].{what}", found, right)


def knows(experiment: Experiment) -> bool:
    """Whether the experiment has any method that the theory covers."""
    return len(uncovered(experiment)) < len(experiment.methods)


def uncovered(experiment: Experiment) -> list[str]:
    """The titles of the methods that the theory does not cover."""
    _check_worlds(experiment)
    methods = started(experiment, experiment.task(0))
    known = [system(method, np.arange(1), experiment.cohort) for method in methods]
    return [t for t, each in zip(experiment.titles, known, strict=True) if each is None]

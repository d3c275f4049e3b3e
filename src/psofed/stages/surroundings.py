"""What stands around the methods of an experiment, and a method with all of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from psofed.core import payload
from psofed.core.features import SeveralMaps
from psofed.core.schedule import UniformCohorts
from psofed.errors import InputError
from psofed.federation import policy as policies
from psofed.federation import schema
from psofed.federation.contract import Method, OneClient, Task
from psofed.federation.options import Options
from psofed.federation.stage import Lifted, within
from psofed.stages.attacks import contract as attacks
from psofed.stages.attacks.contract import Attacked
from psofed.stages.average import Average
from psofed.stages.checks.contract import Check, SampleCheck
from psofed.stages.code import Coded, Rounded, Symmetric
from psofed.stages.defences import contract as defences
from psofed.stages.defences.contract import Defended
from psofed.stages.mask import Masked
from psofed.stages.mix import Mixed, MixOptions
from psofed.stages.noise import Clipped, Noise, noise_of, overwritten
from psofed.stages.privacy import Privacy
from psofed.stages.selection import Selected
from psofed.stages.server_step import Stepping


@dataclass(frozen=True)
class Surroundings:
    """The stages around each method: those of an experiment file, and what they have to know."""

    check: SampleCheck | None = None  # what clients do not learn from; None: they do from all
    privacy: Privacy | None = None  # what the server may learn of a client; None: what is sent
    attack: attacks.Options | None = None  # what malicious clients do
    defence: defences.Options | None = None  # what the server does about it
    rounds: int = 1  # that are planned, for which a budget of privacy is
    longest: float | None = None  # the largest |z| of any input, if it is known
    copies: int = 1  # samples that one measurement is in
    mix: MixOptions | None = None  # how clients answer; None: with their own models
    secret: bool = False  # noise comes from this machine, as on a device, not from the seeds


def start(options: Options, task: Task, around: Surroundings | None = None) -> Method:
    """The method of these options with its stages, bound to a federation."""
    around = around or Surroundings()
    if options.apart:  # a task has the features and the learner of all its methods
        what = "learner" if options.features is None else "features"
        found = f"is that of {options.name} alone, which is not possible here"
        raise InputError(what, found, "give it to the whole experiment, or see Experiment.alone")
    defence = around.defence if around.defence is not None and around.defence.acts else None
    own = None if defence is None else options.defended(defence)
    if own is not None:  # it has a form of this defence of its own
        options, defence = own, None
    policy = _policy(options, task)
    if policy is not None:
        cohorts = UniformCohorts(task.seeds, task.clients, policy.size)
        task = replace(task, cohorts=cohorts)
    method = _coded(options, task)
    method = _private(method, options, around)
    if around.mix is not None:
        method = Mixed(method, around.mix)
    if around.check is not None and around.check.acts:
        method = Check(method, around.check)
    if policy is not None:
        method = Selected(method, policy)
    defended = None
    if defence is not None:
        setting = defences.Setting(task.clients, task.places, task.dim, task.cohorts.size)
        method = defended = Defended(method, defences.bind(defence, setting))
    if options.server is not None:
        method = Stepping(method, options.server)
    if options.average:
        method = Average(method)
    return _attacked(method, around, defended)


def plain(options: Options, task: Task) -> Method:
    """The method of these options without any stage."""
    found: Any = schema.made(options, "Method", task, "task", "step", "pace")
    return Lifted(found) if isinstance(found, OneClient) else found


def _coded(options: Options, task: Task) -> Method:
    """The method, its values in the form that the options ask for."""
    if options.wire is None:
        return plain(options, task)
    if options.differs:
        code = Symmetric(int(options.wire.split()[0]))
        return Coded(plain(options, task), code, both=options.coded != "down")
    method = plain(options, replace(task, wire=options.wire))
    exact = payload.size(options.wire) >= payload.size(task.dtype)
    return method if exact else Rounded(method)


def _private(method: Method, options: Options, around: Surroundings) -> Method:
    """The method with clipping and noise, and with uploads that can be masked."""
    privacy = around.privacy
    if privacy is None:
        return method
    if privacy.error is not None:
        clipped: Any = within(method)
        clipped.learner = Clipped(method.task.learner, privacy.error)
    known = privacy, around.rounds, around.longest, around.copies
    noise = noise_of(options, method.task, *known)
    if noise is not None or privacy.change is not None:
        again = not overwritten(options, method.task)
        method = Noise(method, privacy, noise, again, around.secret)
    return Masked(method, privacy) if privacy.masks else method


def _attacked(method: Method, around: Surroundings, defended: Defended | None) -> Method:
    """The method with the attack of the malicious clients, who may know the defence."""
    attack = attack_in(around.attack, method.task)
    if attack is None or attack.options.on != "values":
        return method
    return Attacked(method, attack, defended)


def attack_in(options: attacks.Options | None, task: Task) -> attacks.Attack | None:
    """The attack of the malicious clients of a federation; None: nobody is."""
    if options is None or not options.share:
        return None
    features: Any = task.features
    maps = tuple(features.maps) if isinstance(features, SeveralMaps) else (features,)
    size = task.clients, task.dim, options.share
    return attacks.bind(options, attacks.Attackers(*size, task.seeds, task.taps, maps))


def _policy(options: Options, task: Task) -> policies.Policy | None:
    if options.policy is None:
        return None
    cohort, model_bytes = task.cohorts.size, task.dim * payload.size(task.wire)
    federation = policies.PolicyTask(task.clients, cohort, model_bytes, task.seeds)
    return policies.bind(options.policy, federation)

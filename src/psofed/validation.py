"""What an experiment must fulfil, told when it is made: the field, what is there, what is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psofed import contracts, schema
from psofed.attacks import contract as attacks
from psofed.core.feature_table import Features
from psofed.core.fleet import Change, Chronicle
from psofed.core.seeds import Seeds
from psofed.defences import contract as defences
from psofed.errors import InputError
from psofed.learners.contract import MOST_DIM, Learner
from psofed.learners.examine import examine
from psofed.methods.contract import Options
from psofed.methods.noise_rules import check_noise, check_samples
from psofed.policies import contract as policies
from psofed.privacy.settings import Privacy
from psofed.sample_checks.contract import SampleCheck
from psofed.streams.contract import about, measured
from psofed.streams.switching import Switching

if TYPE_CHECKING:
    from psofed.experiment import Experiment

TABLES = (  # fields of an experiment that are tables of its file
    "stream", "features", "learner", "attack", "defence", "check", "privacy", "fleet", "methods",
)  # fmt: skip
LIMITS = {"clients": 10**9, "rounds": 10**8, "runs": 10**8, "test_samples": 10**7}


def check(experiment: Experiment) -> None:
    """Refuse an experiment that cannot be run as it is written."""
    _numbers(experiment)
    _outsiders(experiment)
    _sizes(experiment)
    _learner(experiment)
    sample_check(experiment.check)
    if experiment.targets == "noisy" and measured(experiment.stream):
        raise no_targets(experiment.targets)
    _beset(experiment)
    _privacy(experiment)
    _fleet(experiment)
    if not experiment.methods:
        raise InputError("methods", "is empty", "give at least one [[methods]] table")
    for i, options in enumerate(experiment.methods):
        try:
            _method(experiment, options)
        except InputError as error:
            raise error.inside(f"methods[{i}].") from None
    _titles(experiment)
    if not isinstance(experiment.features.name, str):
        experiment.draw_features(Seeds(0))  # tried now, so that mistakes are told at the start


def _numbers(experiment: Experiment) -> None:
    """Every number by itself."""
    schema.check(experiment, skip=TABLES)
    counts = ("clients", "rounds", "runs", "cohort", "evaluate_every", "test_samples")
    schema.positive(experiment, *counts, "step")
    schema.at_most(experiment, LIMITS)
    seed, world, absent = experiment.seed, experiment.world, experiment.absent
    if not 0 <= seed < 2**63:
        raise InputError("seed", f"is {seed}", "use a whole number from 0 to 2^63 - 1")
    if world is not None and not 0 <= world < 2**63:
        raise InputError("world", f"is {world}", "use the number of a run, from 0 on")
    if not 0 <= absent < 1:
        raise InputError("absent", f"is {absent}", "use a share of the clients, 0 to 1")


def _outsiders(experiment: Experiment) -> None:
    """What is not of this package must have the form of its contract."""
    try:
        contracts.check(contracts.STREAM, experiment.stream)
    except InputError as error:
        raise error.inside("stream.") from None
    try:
        if isinstance(experiment.learner, Learner):
            contracts.check(contracts.LEARNER, experiment.learner)
    except InputError as error:
        raise error.inside("learner.") from None
    for i, options in enumerate(experiment.methods):
        try:
            contracts.check(contracts.METHOD, options)
            if isinstance(options.policy, policies.Options):
                contracts.check(contracts.POLICY, options.policy)
        except InputError as error:
            raise error.inside(f"methods[{i}].") from None


def _sizes(experiment: Experiment) -> None:
    """Numbers that have to fit each other."""
    clients, cohort = experiment.clients, experiment.cohort
    known = len(about(experiment.stream).clients_named()) or clients
    if clients != known:
        found = f"is {clients}, but the stream has {known}"
        raise InputError("clients", found, f"use {known}")
    if cohort > clients:
        found = f"is {cohort}, but there are only {clients} clients"
        raise InputError("cohort", found, f"use 1 to {clients}")
    if cohort > clients - experiment.gone:
        left = clients - experiment.gone
        found = f"is {cohort}, but only {left} of the clients ever take part"
        raise InputError("cohort", found, f"use 1 to {left}" if left else "lower absent")
    if experiment.every > experiment.rounds:
        found = f"is {experiment.evaluate_every}, but there are only {experiment.rounds} rounds"
        raise InputError("evaluate_every", found, f"use 1 to {experiment.rounds}")


def _privacy(experiment: Experiment) -> None:
    """The table [privacy] in this federation; what it asks of a method is in `_masked`."""
    privacy = experiment.privacy
    if not isinstance(privacy, Privacy | None):
        raise InputError("privacy", f"is {privacy!r}", "use psofed.Privacy")
    check_samples(privacy, experiment.check)
    if privacy is None or not privacy.masks:
        return
    least = privacy.fewest(experiment.cohort)
    if experiment.cohort < least:
        found = f"is {least}, but a cohort has {experiment.cohort} members"
        raise InputError("privacy.least", found, "use a larger cohort")
    if privacy.scale(experiment.cohort) < 1:
        found = f"is {privacy.range:g}, too large for a cohort of {experiment.cohort}"
        raise InputError("privacy.range", found, "use less")
    if experiment.defence is not None and experiment.defence.acts:
        found = "is given, but under masks the server sees no single upload that it could judge"
        raise InputError("defence", found, "leave it out, and let clients clip: clip_change")
    switched = isinstance(experiment.stream, Switching) and experiment.stream.switches
    if experiment.fleet or switched or experiment.absent:
        found = "is true, but who is in a cohort must follow from the seed alone"
        raise InputError("privacy.masks", found, "leave out [[fleet]], absent, away and late")


def _masked(experiment: Experiment, options: Options) -> None:
    """Refuse masks for a method whose server needs more than a sum."""
    if experiment.privacy is None or not experiment.privacy.masks:
        return
    shared, scheme = options.sharing
    worker = schema.beside(options, "Method")
    right = 'use psofed with scheme = "coordinated", onlinefed or fedavg'
    whole, block = shared == experiment.dim, schema.values(options).get("mask") == "block"
    if scheme == "uncoordinated" and (not whole or block):
        found = "is uncoordinated: many entries have one contributor, whose value is then the sum"
        if whole:
            found = "is uncoordinated: each client sends its block in an order of its own"
        raise InputError("scheme", found, 'use "coordinated"')
    if not worker.sums:
        found = f"is {options.name}, whose server needs more than a sum of uploads"
        raise InputError("name", found, f"{right}, or leave out [privacy] masks")
    if options.policy is not None or options.selects:
        found = "is given, but with masks who takes part must follow from the seed"
        raise InputError("policy", found, "leave it out")
    if options.wire is not None:
        found = f"is {options.wire!r}, but masked values are whole numbers of 32 bits"
        raise InputError("wire", found, "leave it out")


def _fleet(experiment: Experiment) -> None:
    """The changes of the fleet, one after another."""
    for i, change in enumerate(experiment.fleet):
        if not isinstance(change, Change):
            raise InputError(f"fleet[{i}]", f"is {change!r}", "use psofed.Change")
        if not 0 <= change.round < experiment.rounds:
            found = f"is {change.round}, but there are {experiment.rounds} rounds"
            raise InputError(f"fleet[{i}].round", found, f"use 0 to {experiment.rounds - 1}")
        if change.without:
            found = "is given: that model is folded from answers that a simulation does not keep"
            raise InputError(f"fleet[{i}].without", found, "simulate the rounds before")
    switched = isinstance(experiment.stream, Switching) and experiment.stream.switches
    if experiment.absent and (experiment.fleet or switched):
        what = "[[fleet]]" if experiment.fleet else "[stream] with away or late"
        found = f"is given, but so is {what}, which says who takes part when"
        raise InputError("absent", found, "leave out one of them")
    if not experiment.fleet:
        return
    everybody = Chronicle(experiment.clients, experiment.fleet).everybody
    if everybody > LIMITS["clients"]:
        raise InputError("fleet", f"has client {everybody - 1}", f"use {LIMITS['clients']} at most")
    if measured(experiment.stream):
        raise InputError("fleet", "is given, but a table says who is there when", "leave it out")


def _beset(experiment: Experiment) -> None:
    """The attack and the defence, by themselves and in this federation."""
    for field, owner, contract in (
        ("attack", attacks, contracts.ATTACK),
        ("defence", defences, contracts.DEFENCE),
    ):
        options = getattr(experiment, field)
        if options is None:
            continue
        try:
            if isinstance(options, owner.Options):
                contracts.check(contract, options)
            owner.check(options, experiment.clients, experiment.cohort)
        except InputError as error:
            raise (error.inside(f"{field}.") if error.field else error.inside(field)) from None
    if experiment.attack is not None and experiment.attack.linear and not experiment.learner.linear:
        found = (
            f"is {experiment.attack.describe()!r}, which needs a model that is linear in features"
        )
        raise InputError("attack", found, 'use another way to push, or the learner "lms"')


def _learner(experiment: Experiment) -> None:
    learner = experiment.learner
    if not isinstance(learner, Learner):
        raise InputError("learner", f"is {learner!r}", "use the Options of a learner")
    if not learner.featured and experiment.features != Features():
        raise no_features(learner)
    try:
        learner.check()
        size, taps = experiment.dim, experiment.stream.taps
        if not isinstance(size, int):
            raise InputError("size", f"returns {size!r}", "return a whole number, as an int")
        if not 1 <= size <= MOST_DIM:
            found = f"is {learner.name!r}, which has {size:,} parameters"
            raise InputError("name", found, f"use 1 to {MOST_DIM:,}")
        width = experiment.features.entries if learner.featured else learner.inputs(taps).dim
        examine(learner, taps, size, width)
    except InputError as error:
        raise error.inside("learner.") from None


def sample_check(check: SampleCheck | None) -> None:
    """Refuse what is no sample check, and options of one that are out of range."""
    if not isinstance(check, SampleCheck | None):
        raise InputError("check", f"is {check!r}", "use the Options of a sample check")
    if check is None:
        return
    try:
        contracts.check(contracts.CHECK, check)
        check.check()
    except InputError as error:
        raise error.inside("check.") from None


def no_features(learner: Learner) -> InputError:
    """The error where features are given to a learner that does not use them."""
    found = f"is given, but the learner {learner.name} takes the inputs as they are"
    return InputError("features", found, "leave it out, or use another learner")


def no_targets(given: str) -> InputError:
    """The error where a table is told which targets to test on: it has but one kind."""
    found = f"is {given!r}, but a table has only the targets that were measured, noise included"
    return InputError("targets", found, "leave it out")


def _method(experiment: Experiment, options: Options) -> None:
    """One method, by itself and in this experiment, or in that which is its own."""
    _own(options)
    if options.apart:
        try:
            experiment.alone(options)
        except InputError as error:
            field = error.field.removeprefix("methods[0].")
            raise InputError(field, error.found, error.right) from None
        return
    schema.check(options, skip=("policy",))
    schema.positive(options, "step")
    options.check_policy(experiment.clients, experiment.cohort)
    options.check_wire()
    options.check_learner(experiment.learner)
    options.check(experiment.dim, experiment.clients)
    if options.policy is not None and experiment.absent:
        found = "is given, but a policy may ask any client"
        raise InputError("policy", found, "leave out one of policy and absent")
    _masked(experiment, options)
    longest = experiment.features.longest if experiment.learner.featured else None
    check_noise(experiment.privacy, options, experiment.learner, longest, experiment.step)
    if experiment.fleet:
        _joins(options)
    check_attacked(experiment, options)
    if about(experiment.stream).gaps and (options.policy is not None or options.gapless):
        what = "policy" if options.policy is not None else "name"
        found = "needs a sample of every client in every round; this stream has gaps"
        raise InputError(what, found, "use another stream, or another method")
    if options.average and not options.serves:
        found = f"is true, but the server of {options.name} has no model"
        raise InputError("average", found, "leave it out")


def _joins(options: Options) -> None:
    """Refuse a method whose clients cannot join and leave."""
    if options.policy is not None:
        found = "is given, but a policy may ask any client, and [[fleet]] says who can be asked"
        raise InputError("policy", found, "leave out one of them")
    reason = options.settled or options.simulated
    if reason:
        found = f"is {options.name}, whose clients can neither join nor leave: {reason}"
        raise InputError("name", found, "use another method, or leave out [[fleet]]")


def check_attacked(experiment: Experiment, options: Options) -> None:
    """Refuse an attack or a defence that means nothing to this method."""
    attack, defence = experiment.attack, experiment.defence
    worker = schema.beside(options, "Method")
    if attack is not None and attack.on == "values" and not options.attackable:
        found = f"is {options.name}, which sends no model that [attack] {attack.name} could change"
        raise InputError("name", found, 'leave it out, or use an attack on labels, as "labels"')
    if defence is None or not defence.acts or defence.name in worker.defends:
        return
    if not options.alone and (not options.serves or options.selects):
        found = f"is {options.name}, whose server has no fold that [defence] could change"
        raise InputError("name", found, "leave it out")
    shared, scheme = options.sharing
    alike = worker.entrywise and (scheme != "uncoordinated" or shared == experiment.dim)
    if defence.compares and not (alike and not options.differs):
        found = f"is {options.name}, whose members do not all send the same entries"
        right = f'[defence] {defence.name} compares them: use scheme = "coordinated", or "clip"'
        raise InputError("name", found, right)


def _own(options: Options) -> None:
    """The features and the learner of a method are what they are called."""
    if not isinstance(options.features, Features | None):
        raise InputError("features", f"is {options.features!r}", "use psofed.Features")
    if not isinstance(options.learner, Learner | None):
        raise InputError("learner", f"is {options.learner!r}", "use the Options of a learner")


def _titles(experiment: Experiment) -> None:
    titles = experiment.titles
    for i, title in enumerate(titles):
        if title in titles[:i]:
            found = f"is {title!r}, as that of another method"
            raise InputError(f"methods[{i}].label", found, "give each method its own label")

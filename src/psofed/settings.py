"""The settings of an experiment and their constraints, checked when they are created.

An error names the field, what is there, and what would be right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from psofed.errors import InputError
from psofed.federation import forms, schema
from psofed.federation import policy as policies
from psofed.federation.bases import SCHEMES
from psofed.federation.contract import METHOD
from psofed.federation.feature_table import Features
from psofed.federation.learners import lms
from psofed.federation.learners.contract import LEARNER, MOST_DIM, Learner
from psofed.federation.membership import Change, FleetHistory
from psofed.federation.options import Options, titles
from psofed.federation.plugins import is_ours
from psofed.federation.schema import inside
from psofed.methods import onlinefed, psofed
from psofed.stages.attacks import contract as attacks
from psofed.stages.checks import contract as checks
from psofed.stages.checks.contract import SampleCheck
from psofed.stages.defences import contract as defences
from psofed.stages.mix import MixOptions
from psofed.stages.noise import check_noise, check_samples
from psofed.stages.privacy import Privacy
from psofed.streams import paper
from psofed.streams.contract import STREAM, Stream, about, measured
from psofed.streams.synthetic import Synthetic

TABLES = (  # fields of an experiment that are tables of its file
    "stream", "features", "learner", "attack", "defence", "check", "mix", "privacy", "fleet",
    "methods",
)  # fmt: skip
LIMITS = {"clients": 10**9, "rounds": 10**8, "runs": 10**8, "test_samples": 10**7}
MOST_MARKS = 10_000


def paper_methods() -> tuple[Options, ...]:
    """The curves of the paper's figures (a) and (b)."""
    windows = [psofed.Options(shared=m, scheme=s) for s in SCHEMES for m in (1, 5, 40)]
    return (onlinefed.Options(), *windows)


@dataclass(frozen=True, repr=False)
class Settings(schema.Fields):
    """Everything that decides the numbers of a run. The defaults are the paper's setting."""

    clients: int = 100  # K
    rounds: int = 5000  # N, one sample per client and round
    runs: int = 500  # independent Monte-Carlo runs
    seed: int = 0  # seed of all random numbers
    cohort: int = 4  # |S_n|, clients that take part in a round
    absent: float = 0.0  # share of the clients that never take part; the test set includes them
    step: float = 0.75  # step size mu; a method may have its own
    dtype: Literal["float32", "float64"] = "float32"  # number format of the computation
    evaluate_every: int | None = None  # rounds between two test errors; not set: 10,000 at most
    test_samples: int = 2000  # from all clients
    targets: Literal["clean", "noisy"] = "clean"  # of the test: f(x), or y as the paper prints it
    judge: Literal["global", "personal"] = "global"  # w, or each client's own model by its samples
    world: int | None = None  # all runs share the clients, features and masks of this run
    stream: Stream = field(default_factory=paper.Options)  # where samples come from
    features: Features = field(default_factory=Features)  # from inputs to D numbers
    learner: Learner = field(default_factory=lms.Options)  # what clients learn, and how
    attack: attacks.Options | None = None  # what malicious clients do; not set: there are none
    defence: defences.Options | None = None  # what the server does about it; not set: nothing
    check: SampleCheck | None = None  # what clients do not learn from; not set: they do from all
    mix: MixOptions | None = None  # of which models answers are; not set: clients' own alone
    privacy: Privacy | None = None  # what the server may learn of a client; not set: what is sent
    fleet: tuple[Change, ...] = ()  # who joins and leaves, and when; not set: all clients stay
    methods: tuple[Options, ...] = field(default_factory=paper_methods)  # one per curve

    def __post_init__(self) -> None:
        for name, value in choices(vars(self)).items():
            object.__setattr__(self, name, value)
        check(self)

    @property
    def dim(self) -> int:
        """D, the number of parameters of the model."""
        return self.learner.size(self.stream.taps, self.features.entries)

    @property
    def titles(self) -> list[str]:
        """The methods' names, in order: with what tells them apart, where names would be equal.

        >>> import psofed
        >>> psofed.Experiment(methods=[psofed.PSOFed(step=0.5), psofed.PSOFed()]).titles
        ['PSO-Fed M=40 uncoordinated, step 0.5', 'PSO-Fed M=40 uncoordinated, step 0.75']
        """
        return titles(self.methods, self.step)

    @property
    def baseline(self) -> int | None:
        """What others are compared with: Online-Fed if it is there, else the first of many."""
        methods = self.methods
        found = [j for j, o in enumerate(methods) if o.role == "reference" and o.policy is None]
        if found:  # rather one of the experiment's own world
            return min(found, key=lambda j: methods[j].apart)
        return 0 if len(methods) > 1 else None

    def alone(self, options: Options) -> Self:
        """The experiment with this method, whose own features and learner become the experiment's.

        >>> import psofed
        >>> small = psofed.Experiment().alone(psofed.PSOFed(5, features=psofed.Features(dim=50)))
        >>> small.dim, small.methods[0].features
        (50, None)
        """
        learner = self.learner if options.learner is None else options.learner
        features = self.features if options.features is None else options.features
        if options.features is None and not learner.featured:
            features = Features()
        plain = replace(options, features=None, learner=None) if options.apart else options
        return replace(self, features=features, learner=learner, methods=(plain,))

    @property
    def gone(self) -> int:
        """How many clients never take part."""
        return round(self.absent * self.clients)

    @property
    def every(self) -> int:
        """Rounds between two test errors: as given, or such that a curve has at most 10,000."""
        return self.evaluate_every or -(-self.rounds // MOST_MARKS)


CHOICES = {
    "stream": "psofed.streams", "learner": "psofed.learners", "attack": "psofed.attacks",
    "defence": "psofed.defences", "check": "psofed.sample_checks",
}  # fmt: skip


def choices(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given by name, or alone where several may be, as it is used: `methods="fedavg"`."""
    found = {key: schema.choice(CHOICES[key], key, given[key]) for key in CHOICES & given.keys()}
    if "methods" in given:
        some = given["methods"]
        listed = [some] if isinstance(some, str | Mapping | Options) else some
        if not isinstance(listed, list | tuple):
            right = f"such as [{some.__name__}()]" if isinstance(some, type) else "of methods"
            raise InputError("methods", f"is {some!r:.60}", f"give a list {right}")
        found["methods"] = tuple(
            schema.choice("psofed.methods", f"methods[{i}]", each) for i, each in enumerate(listed)
        )
    if "mix" in given:
        mix = found["mix"] = MixOptions() if given["mix"] is True else given["mix"] or None
        if not isinstance(mix, MixOptions | None):
            right = "use True, or MixOptions of psofed.stages.mix"
            raise InputError("mix", f"is {mix!r:.60}", right)
    if not isinstance(features := given.get("features"), Features | None):
        right = f"write psofed.Features({'dim=' * isinstance(features, int)}{features!r:.40})"
        raise InputError("features", f"is {features!r:.60}", right)
    return found


def check(experiment: Settings) -> None:
    """Refuse an experiment that cannot be run as it is written."""
    _numbers(experiment)
    _outsiders(experiment)
    _sizes(experiment)
    _learner(experiment)
    if experiment.check is not None:
        checks.check(experiment.check)
    if experiment.targets == "noisy" and measured(experiment.stream):
        raise no_targets(experiment.targets)
    if experiment.judge == "personal" and measured(experiment.stream):
        found = 'is "personal", but the test samples of a table may be of other clients'
        raise InputError("judge", found, "leave it out; `psofed fit` has the error of each client")
    _check_threat(experiment)
    _privacy(experiment)
    _fleet(experiment)
    if not experiment.methods:
        raise InputError("methods", "is empty", "give at least one [[methods]] table")
    for i, options in enumerate(experiment.methods):
        with inside(f"methods[{i}]."):
            _method(experiment, options)
    _titles(experiment)


def _numbers(experiment: Settings) -> None:
    """Every number by itself."""
    schema.check(experiment, skip=TABLES)
    counts = ("clients", "rounds", "runs", "cohort", "evaluate_every", "test_samples")
    schema.positive(experiment, *counts, "step")
    schema.at_most(experiment, LIMITS)
    run = experiment.world or 0
    seeded, present = 0 <= experiment.seed < 2**63, 0 <= experiment.absent < 1
    schema.require(experiment, "seed", seeded, "use a whole number from 0 to 2^63 - 1")
    schema.require(experiment, "world", 0 <= run < 2**63, "use the number of a run, 0 or more")
    schema.require(experiment, "absent", present, "use a share of the clients, 0 to 1")


def _outsiders(experiment: Settings) -> None:
    """What is not of this package must have the form of its contract."""
    with inside("stream."):
        _formed(STREAM, experiment.stream)
    if isinstance(experiment.learner, Learner):
        with inside("learner."):
            _formed(LEARNER, experiment.learner)
    for i, options in enumerate(experiment.methods):
        with inside(f"methods[{i}]."):
            _formed(METHOD, options)
            if isinstance(options.policy, policies.Options):
                _formed(policies.POLICY, options.policy)


def _formed(contract: forms.Contract, given: object) -> None:
    if not is_ours(type(given)):
        forms.check(contract, given)


def _sizes(experiment: Settings) -> None:
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


def _privacy(experiment: Settings) -> None:
    """The table [privacy] in this federation; what it asks of a method is in `_masked`."""
    privacy = experiment.privacy
    if not isinstance(privacy, Privacy | None):
        raise InputError("privacy", f"is {privacy!r}", "use psofed.Privacy")
    if privacy is not None:
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
    switched = isinstance(experiment.stream, Synthetic) and experiment.stream.switches
    if experiment.fleet or switched or experiment.absent:
        found = "is true, but who is in a cohort must follow from the seed alone"
        raise InputError("privacy.masks", found, "leave out [[fleet]], absent, away and late")


def _masked(experiment: Settings, options: Options) -> None:
    """Refuse masks for a method whose server needs more than a sum."""
    if experiment.privacy is None or not experiment.privacy.masks:
        return
    shared, scheme = options.sharing
    right = 'use psofed with scheme = "coordinated", onlinefed or fedavg'
    whole, block = shared == experiment.dim, schema.values(options).get("mask") == "block"
    if scheme == "uncoordinated" and (not whole or block):
        found = "is uncoordinated: many entries have one contributor, whose value is then the sum"
        if whole:
            found = "is uncoordinated: each client sends its block in an order of its own"
        raise InputError("scheme", found, 'use "coordinated"')
    if not options.sums:
        found = f"is {options.name}, whose server needs more than a sum of uploads"
        raise InputError("name", found, f"{right}, or leave out [privacy] masks")
    if options.policy is not None or options.selects:
        found = "is given, but with masks who takes part must follow from the seed"
        raise InputError("policy", found, "leave it out")
    if options.wire is not None:
        found = f"is {options.wire!r}, but masked values are whole numbers of 32 bits"
        raise InputError("wire", found, "leave it out")


def _fleet(experiment: Settings) -> None:
    """The changes of the fleet, one after another."""
    for i, change in enumerate(experiment.fleet):
        if not isinstance(change, Change):
            raise InputError(f"fleet[{i}]", f"is {change!r}", "use psofed.Change")
        if not 0 <= change.round < experiment.rounds:
            found = f"is {change.round}, but there are {experiment.rounds} rounds"
            raise InputError(f"fleet[{i}].round", found, f"use 0 to {experiment.rounds - 1}")
    switched = isinstance(experiment.stream, Synthetic) and experiment.stream.switches
    if experiment.absent and (experiment.fleet or switched):
        what = "[[fleet]]" if experiment.fleet else "[stream] with away or late"
        found = f"is given, but so is {what}, which says who takes part when"
        raise InputError("absent", found, "leave out one of them")
    if not experiment.fleet:
        return
    everybody = FleetHistory(experiment.clients, experiment.fleet).everybody
    if everybody > LIMITS["clients"]:
        raise InputError("fleet", f"has client {everybody - 1}", f"use {LIMITS['clients']} at most")
    if measured(experiment.stream):
        raise InputError("fleet", "is given, but a table says who is there when", "leave it out")


def _check_threat(experiment: Settings) -> None:
    """The attack and the defence, by themselves and in this federation."""
    for key, owner, contract in (
        ("attack", attacks, attacks.ATTACK),
        ("defence", defences, defences.DEFENCE),
    ):
        options = getattr(experiment, key)
        if options is None:
            continue
        try:
            if isinstance(options, owner.Options):
                _formed(contract, options)
            owner.check(options, experiment.clients, experiment.cohort)
        except InputError as error:
            raise (error.inside(f"{key}.") if error.field else error.inside(key)) from None
    if experiment.attack is not None and experiment.attack.linear and not experiment.learner.linear:
        found = (
            f"is {experiment.attack.describe()!r}, which needs a model that is linear in features"
        )
        raise InputError("attack", found, 'use another way to push, or the learner "lms"')


def _learner(experiment: Settings) -> None:
    learner = experiment.learner
    if not isinstance(learner, Learner):
        raise InputError("learner", f"is {learner!r}", "use the Options of a learner")
    if not learner.featured and experiment.features != Features():
        raise no_features(learner)
    with inside("learner."):
        learner.check()
        size = experiment.dim
        if not isinstance(size, int):
            raise InputError("size", f"returns {size!r}", "return a whole number, as an int")
        if not 1 <= size <= MOST_DIM:
            found = f"is {learner.name!r}, which has {size:,} parameters"
            raise InputError("name", found, f"use 1 to {MOST_DIM:,}")


def no_features(learner: Learner) -> InputError:
    """The error where features are given to a learner that does not use them."""
    found = f"is given, but the learner {learner.name} takes the inputs as they are"
    return InputError("features", found, "leave it out, or use another learner")


def no_targets(given: str) -> InputError:
    """The error if `targets` is set for a table, which has only one kind."""
    found = f"is {given!r}, but a table has only the targets that were measured, noise included"
    return InputError("targets", found, "leave it out")


def _method(experiment: Settings, options: Options) -> None:
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
    options.check_server()
    options.check_learner(experiment.learner)
    options.check(experiment.dim, experiment.clients)
    if options.policy is not None and experiment.absent:
        found = "is given, but a policy may ask any client"
        raise InputError("policy", found, "leave out one of policy and absent")
    _masked(experiment, options)
    longest = experiment.features.longest if experiment.learner.featured else None
    if experiment.privacy is not None:
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


def check_attacked(experiment: Settings, options: Options) -> None:
    """Refuse an attack or a defence that means nothing to this method."""
    attack, defence = experiment.attack, experiment.defence
    worker = schema.companion(options, "Method")
    if attack is not None and attack.on == "values" and not options.attackable:
        found = f"is {options.name}, which sends no model that [attack] {attack.name} could change"
        raise InputError("name", found, 'leave it out, or use an attack on labels, as "labels"')
    if defence is None or not defence.acts or options.defended(defence) is not None:
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


def _titles(experiment: Settings) -> None:
    titles = experiment.titles
    for i, title in enumerate(titles):
        if title in titles[:i]:
            found = f"is {title!r}, as that of another method"
            raise InputError(f"methods[{i}].label", found, "give each method its own label")

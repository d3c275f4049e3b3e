"""The options that every method has, and what a class of options declares about its method."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

from psofed.errors import InputError
from psofed.federation import feature_table, foreign, schema
from psofed.federation import policy as policies
from psofed.federation.feature_table import Features
from psofed.federation.learners.contract import Learner
from psofed.federation.schema import Named, inside

Learns = Literal["any", "descending", "linear"]
Coded = Literal["", "down", "both"]
Wire = Literal["float32", "float16", "8 bit", "6 bit", "5 bit", "4 bit", "3 bit", "2 bit"]

# The client's memory moves when it answers, the server's when it folds the answer.
LOST = "after a lost answer its two ends no longer agree on what travelled last"


@dataclass(frozen=True)
class Knob:
    """The option that decides a method's traffic: its name, its effect and its range."""

    field: str
    more: bool = True  # whether a larger value sends more
    least: int = 1
    most: Callable[[int, int], int] = lambda dim, rounds: dim  # from D and the number of rounds
    keeps: bool = False  # whether a budget may lower the traffic, but not raise it
    clients: bool = False  # whether it counts clients: beyond the cohort it changes nothing
    bytes: bool = False  # whether it is the budget itself: bytes a round, up and down
    beyond: str = ""  # why it cannot go beyond its end; {} stands for the value there

    def of(self, options: Common) -> Any:
        """Its value in these options; if it is not set, the least, for a search to begin with."""
        value = getattr(options, self.field)
        return self.least if value is None else value


def geometric(least: int, most: int) -> tuple[int, ...]:
    """Values to try from `least` to `most`, each about twice the one before; never none.

    >>> geometric(1, 200)
    (1, 2, 5, 10, 20, 40, 100, 200)
    >>> geometric(3, 4)
    (3,)
    """
    series = [1, 2, 5, *(digit * 10**power for power in range(1, 10) for digit in (1, 2, 4))]
    return tuple(value for value in series if least <= value <= most) or (least,)


@dataclass(frozen=True)
class ServerStep:
    """The table [methods.server]: the server moves with momentum, or by Adam's rule.

    The equations are in stages/server_step.py. Momentum multiplies the step by up to 1/(1 - beta).
    """

    rule: Literal["momentum", "adam"] = "momentum"
    beta: float = 0.9  # what is kept of the directions of earlier rounds
    rate: float = 0.01  # of Adam, whose steps do not grow with those of clients
    second: float = 0.99  # beta_2 of Adam
    tau: float = 1e-3  # of Adam: changes far below it are not scaled up

    def __post_init__(self) -> None:
        schema.check(self)
        schema.positive(self, "rate", "tau")
        for name in ("beta", "second"):
            kept = 0 <= getattr(self, name) < 1
            schema.require(self, name, kept, "use 0 (nothing is kept) to 1, below 1")

    def describe(self) -> str:
        """The rule in short."""
        adam = self.rule == "adam"
        return f"Adam {self.rate:g}" if adam else f"momentum {self.beta:g}"


@dataclass(frozen=True, kw_only=True)
class Common(schema.Named):
    """The options of every method: a step, averaging at the server, a label, a policy, a model.

    The class variables declare what a method is, for all that run or compare it.
    """

    knob: ClassVar[Knob | None] = None  # what decides its traffic, if anything does
    # Shares of traffic are those of the reference; controls are not federated learning.
    role: ClassVar[Literal["reference", "method", "control"]] = "method"
    expected: ClassVar[bool] = False  # whether every fair comparison needs it
    everybody: ClassVar[bool] = False  # whether all clients send in every round
    alone: ClassVar[bool] = False  # whether clients learn alone, without any message
    steps: ClassVar[bool] = True  # whether it has a step to tune
    serves: ClassVar[bool] = True  # whether the server has the model that is judged
    selects: ClassVar[bool] = False  # whether it decides itself who takes part
    gapless: ClassVar[bool] = False  # whether it needs a sample of everybody in every round
    attackable: ClassVar[bool] = True  # whether its clients keep a model that they upload
    simulated: ClassVar[str] = ""  # the reason, if it can only be simulated, not deployed
    # Models that it can learn: any; those whose step is mu e g(w, z); those that are w^T z.
    learners: ClassVar[Learns] = "any"
    # The directions in which its messages are entries of a model, so that `wire` can code them.
    # It is not inherited, because a subclass may send something else.
    coded: ClassVar[Coded] = ""
    uncoded: ClassVar[str] = "does not declare which of its messages are entries of a model"
    # Whether all members upload entries of a model, and where they do so on the same entries their
    # mean is enough for the fold. It is not inherited either.
    sums: ClassVar[bool] = False
    # Rules of `psofed check`, by the names of their functions, that do not apply to it by design.
    exempt: ClassVar[tuple[str, ...]] = ()
    step: float | None = None  # mu of this method; not set: the experiment's
    average: bool = False  # judge a weighted mean of the server's late models
    server: ServerStep | None = None  # the server's own step; not set: w moves as the fold says
    label: str = ""  # the title in tables and figures; not set: made from the options
    policy: policies.Options | None = None  # who takes part; not set: a uniform cohort
    features: Features | None = None  # from inputs to D numbers; not set: the experiment's
    learner: Learner | None = None  # what its clients learn, and how; not set: the experiment's
    wire: Wire | None = None  # form of values in messages; not set: numbers, as [deploy] says

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.coded = cls.__dict__.get("coded", "")
        cls.sums = cls.__dict__.get("sums", False)

    @classmethod
    def readers(cls) -> Mapping[str, schema.Reader]:
        """A policy, features and a learner are tables within that of the method."""
        return {
            "policy": schema.reader("psofed.policies"),
            "features": feature_table.read,
            "learner": schema.reader("psofed.learners"),
            "server": schema.section(partial(schema.build, ServerStep)),
        }

    def to_table(self) -> dict[str, Any]:
        """What is set, as plain values."""
        plain = schema.values(replace(self, features=None, server=None))
        if self.features is not None:
            plain["features"] = self.features.to_table()
        if self.server is not None:
            plain["server"] = schema.values(self.server)
        return plain

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """The forms that are worth comparing with other methods, for this D."""
        return (cls(),)

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """Discrete options that a fair comparison searches, with the values worth trying."""
        return {}

    @property
    def apart(self) -> bool:
        """Whether it has features or a learner of its own: see `Experiment.alone`."""
        return self.features is not None or self.learner is not None

    @property
    def all_matter(self) -> bool:
        """Whether also clients that are never selected change the result."""
        return self.everybody or self.alone

    @property
    def pace(self) -> int:
        """Rounds from one upload to the next."""
        return 1

    @property
    def sharing(self) -> tuple[int | None, str]:
        """M and the scheme of the windows, for tables; None and nothing where there are none."""
        return None, ""

    @property
    def settled(self) -> str:
        """Why clients can neither join nor leave; empty: they can."""
        return ""

    @property
    def not_live(self) -> str:
        """Why it cannot be deployed on a live clock, on which messages may be lost; or nothing."""
        return LOST if self.differs else ""

    @property
    def differs(self) -> bool:
        """Whether differences to what last travelled are sent."""
        return self.wire is not None and self.wire.endswith("bit")

    def defended(self, defence: Any) -> Self | None:
        """The same with a form of this defence that is its own; None: it has none."""
        return None

    def turned(self, value: Any, dim: int) -> Self:
        """The same with the knob at this value, or at the next that is allowed and sends less."""
        assert self.knob is not None
        return replace(self, **{self.knob.field: value})

    def title(self) -> str:
        """The name in tables and figures."""
        given = (self.server, self.policy, self.features, self.learner)
        own = (each for each in given if each is not None)
        parts = [self.describe(), *([self.wire] if self.wire else [])]
        parts += [each.describe() for each in own]
        return self.label or ", ".join(parts + ["averaged"] * self.average)

    def check(self, dim: int, clients: int) -> None:
        """Refuse options that do not fit the experiment."""

    @classmethod
    def learns(cls, learner: Learner) -> bool:
        """Whether the method can learn such a model."""
        needs = {"any": True, "descending": learner.descends, "linear": learner.linear}
        return needs[cls.learners]

    def check_learner(self, learner: Learner) -> None:
        """Refuse a model that the method cannot learn."""
        if self.learns(learner):
            return
        found = f"is {self.name}, which needs a linear model, and {learner.name} is not one"
        right = 'use the learner "lms", "nlms" or "linear", or a method such as psofed'
        if self.learners == "descending":
            found = f"is {self.name}, which changes the step, and {learner.name} has its own rule"
            right = 'use the learner "lms" or "linear", or a method such as psofed'
        raise InputError("name", found, right)

    def check_policy(self, clients: int, cohort: int) -> None:
        """Refuse a policy where the method selects, and one that does not fit the experiment."""
        if self.policy is None:
            return
        if not isinstance(self.policy, policies.Options):
            raise InputError("policy", f"is {self.policy!r}", "use the Options of a policy")
        if self.selects:
            found = f"is given, but {self.name} itself decides who takes part"
            raise InputError("policy", found, "leave it out")
        with inside("policy."):
            schema.check(self.policy)
            self.policy.check(clients, cohort)
        if self.differs and self.policy.scores == "client":
            found = f"is {self.policy.name}, but differences need an upload from every member"
            raise InputError("policy", found, "use another policy, or a wire without differences")

    def check_server(self) -> None:
        """Refuse a step of the server's own where a fold takes none."""
        if self.server is None:
            return
        if not isinstance(self.server, ServerStep):
            raise InputError("server", f"is {self.server!r}", "use psofed.methods.ServerStep")
        if not (self.serves and self.steps):
            found = f"is given, but the server of {self.name} takes no step from w to w"
            raise InputError("server", found, "leave it out")

    def check_wire(self) -> None:
        """Refuse a form of values where messages have none."""
        if self.wire is not None and not self.coded:
            found = f"is {self.wire!r}, but {self.name} {self.uncoded}"
            raise InputError("wire", found, "leave it out")


Options = Common


def titles(methods: Sequence[Options], step: float) -> list[str]:
    """One title for each method, longer only where the short one stands for several.

    `step` is that of the methods without their own. Equal methods keep equal titles.
    """
    short = [options.title() for options in methods]
    made = [short.count(title) > 1 and not o.label for title, o in zip(short, methods, strict=True)]
    known = [settings(options, step) for options in methods]
    found = []
    for j, title in enumerate(short):
        alike = [known[i] for i, other in enumerate(short) if made[i] and other == title]
        found.append(title + "".join(_apart(known[j], alike)) if made[j] else title)
    return found


def settings(options: Options, step: float) -> dict[str, Any]:
    """What a method is set to, flat: all options but its label, those of a policy within.

    The step is the one that it learns with; it is left out where there is nothing to step.

    >>> from psofed.methods import fedavg
    >>> settings(fedavg.Options(), step=0.75)
    {'step': 0.75, 'average': False, 'local_steps': 5}
    """
    found = dict(_flat(options))
    found["step"] = options.step if options.step is not None else step
    if not options.steps:
        del found["step"]
    return {key: value for key, value in found.items() if value is not None}


def _flat(options: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if dataclasses.is_dataclass(value):
            if isinstance(value, Named):
                yield prefix + field.name, value.name
            yield from _flat(value, f"{prefix}{field.name}.")
        elif field.name != "label":
            yield prefix + field.name, foreign.title(value) if callable(value) else value


def _apart(mine: dict[str, Any], all_alike: list[dict[str, Any]]) -> Iterator[str]:
    """The settings of one that are not those of all."""
    for key in dict.fromkeys(key for each in all_alike for key in each):
        values = [each.get(key) for each in all_alike]
        if any(value != values[0] for value in values):
            yield f", {key.replace('_', ' ')} {_show(mine.get(key))}"


def _show(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)

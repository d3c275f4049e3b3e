"""A rule of a contract is a function that raises; its first line says what it asks.

Where a rule says nothing about some, `applies` gives the reason. `subject` finds what is to be
checked: a method, a stream, a policy or the like, in one of its settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

import numpy as np

from psofed.cli.laws.drivers import CLIENTS, COHORT, DIM, largest, small
from psofed.errors import InputError, nearest
from psofed.federation import plugins, schema, texts
from psofed.federation.contract import METHOD
from psofed.federation.forms import Contract, looks
from psofed.federation.learners.contract import LEARNER
from psofed.federation.policy import POLICY
from psofed.stages.attacks.contract import ATTACK
from psofed.stages.checks.contract import CHECK
from psofed.stages.defences.contract import DEFENCE
from psofed.streams.contract import STREAM

Rule = Callable[..., None]
TOLERANCE = 1e-12  # of models that must be the same
CONTRACTS = (METHOD, POLICY, STREAM, LEARNER, ATTACK, DEFENCE, CHECK)
# The module with the rules of each contract, and their name there.
RULES = {
    "method": ("of_methods", "RULES"),
    "policy": ("of_stages", "POLICY"),
    "attack": ("of_stages", "ATTACK"),
    "defence": ("of_stages", "DEFENCE"),
    "stream": ("of_samples", "STREAM"),
    "learner": ("of_samples", "LEARNER"),
    "check": ("of_samples", "CHECK"),
}


class BrokenError(AssertionError):
    """The rule does not hold; the message says what was found."""


def require(holds: Any, found: str) -> None:
    """Raise BrokenError with what was found, unless it holds."""
    if not holds:
        raise BrokenError(found)


def close(found: Any, expected: Any, what: str, size: float = 1.0) -> None:
    """Require models that are the same, relative to their size if that is given."""
    apart = largest(found, expected)
    most = TOLERANCE * max(size, 1.0)
    require(apart <= most, f"{what} differ by {apart:.1e}, not by {most:g} at most")


def goes_on(start: Callable[[], Any], play: Callable[..., list[Any]], stop: int) -> None:
    """Require that a state is a dict of arrays, and all that whoever plays with it remembers."""
    state, half = start(), stop // 2
    arrays = isinstance(state, dict) and all(isinstance(a, np.ndarray) for a in state.values())
    require(arrays, "it does not begin with a dict of arrays")
    expected = play(start(), 0, stop)[half:]
    play(state, 0, half)
    loaded = {name: array.copy() for name, array in state.items()}
    for one, other in zip(play(loaded, half, stop), expected, strict=True):
        require(np.array_equal(one, other), "it goes on otherwise: something is kept elsewhere")
    require(loaded.keys() == state.keys(), "the names in its state change")


def applies(reason: Callable[..., str]) -> Callable[[Rule], Rule]:
    """A rule that applies only where `reason`, of the same arguments, gives none against it."""

    def mark(rule: Rule) -> Rule:
        rule.reason = reason  # type: ignore[attr-defined]
        return rule

    return mark


def why_not(rule: Rule, *arguments: Any) -> str:
    """Why a rule does not apply; nothing if it does."""
    if rule.__name__ in getattr(arguments[0], "exempt", ()):
        return "its options exempt it"
    reason: Callable[..., str] | None = getattr(rule, "reason", None)
    return "" if reason is None else reason(*arguments)


@dataclass(frozen=True)
class Verdict:
    """What was found for one rule."""

    rule: str
    outcome: Literal["ok", "failed", "not applicable"]
    reason: str = ""

    def line(self) -> str:
        """As it is printed."""
        return f"{self.outcome:<14}  {self.rule}" + (f": {self.reason}" if self.reason else "")


def judge(rule: Rule, *arguments: Any) -> Verdict:
    """Try one rule; whatever goes wrong is a reason.

    >>> def even(number):
    ...     '''The number is even.'''
    ...     require(number % 2 == 0, f"{number} is odd")
    >>> judge(even, 3).line()
    'failed          The number is even: 3 is odd'
    """
    title = (rule.__doc__ or rule.__name__).strip().splitlines()[0].rstrip(".")
    try:
        with np.errstate(all="ignore"):
            if reason := why_not(rule, *arguments):
                return Verdict(title, "not applicable", reason)
            rule(*arguments)
    except BrokenError as error:
        return Verdict(title, "failed", str(error))
    except Exception as error:
        blamed = plugins.blamed(error)
        what = plugins.brief(error) if blamed is None else blamed.found
        return Verdict(title, "failed", str(error) if isinstance(error, InputError) else what)
    return Verdict(title, "ok")


@dataclass(frozen=True)
class Subject:
    """One thing in one setting."""

    contract: Contract
    options: Any

    @property
    def title(self) -> str:
        """What it is, in words."""
        own = {key: value for key, value in vars(self.options).items() if value is not None}
        text = ", ".join(f"{key}={value!r}" for key, value in own.items() if value != "")
        name = self.options.name or "without a name"
        return f"{self.contract.word} {name}" + (f" with {text}" if text else "")

    @property
    def rules(self) -> tuple[Rule, ...]:
        """What is tried."""
        module, name = RULES[self.contract.word]
        return getattr(import_module(f"psofed.cli.laws.{module}"), name)

    def verdicts(self) -> Iterator[Verdict]:
        """First what it looks like, then, if that is right, what it does."""
        fine = True
        for asked, problem in looks(self.contract, self.options):
            fine = fine and not problem
            yield Verdict(asked, "failed" if problem else "ok", problem)
        for rule in self.rules if fine else ():
            yield judge(rule, self.options)


def subject(text: str) -> Subject:
    """What a text such as "./mine.py", or "./mine.py:shared=3,idle=false", stands for."""
    table = texts.table(text)
    try:
        options = schema.options_of(found(table.pop("name")))
    except InputError as error:
        raise InputError("FILE", error.found, error.right) from None
    contract = contract_of(options)
    if table or contract is not METHOD:
        chosen = schema.build(options, table, options.readers())
        if contract is METHOD:
            small(chosen)  # refuses a setting that it does not allow
        return Subject(contract, chosen)
    return Subject(contract, _fitting(options))


def found(name: str) -> ModuleType:
    """The module of a file, a dotted name, or one of ours."""
    known = []
    for contract in CONTRACTS:
        here = schema.names(contract.package)
        if name in here:
            return schema.load(contract.package, name)
        known += here
    if plugins.outside(name):
        return plugins.module(name, "FILE")
    raise InputError("FILE", f"is {name!r}, which does not exist", nearest(name, known))


def contract_of(options: Any) -> Contract:
    """The contract whose base the options derive from."""
    for contract in CONTRACTS:
        if issubclass(options, contract.base):
            return contract
    bases = ", ".join(contract.public for contract in CONTRACTS)
    found = f"has Options that derive from none of {bases}"
    raise InputError("FILE", found, "derive them from that of a method, a policy or the like")


def _fitting(cls: Any) -> Any:
    """The default, or the first form to compare, that fits a small federation."""
    try:
        options = cls()
    except TypeError as error:
        right = "give all fields a default"
        raise InputError("Options", f"cannot be made: {error}", right) from None
    if any(problem for _, problem in looks(METHOD, options)):
        return options
    why = ""
    for each in (options, *options.compared(DIM)):
        try:
            small(each)
        except InputError as error:
            why = str(error)
        else:
            return each
    found = f"has no setting for D = {DIM}, K = {CLIENTS}, {COHORT} in a cohort: {why}"
    raise InputError("FILE", found, "give one, as in mine.py:shared=3")

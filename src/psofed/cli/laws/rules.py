"""A rule of a contract is a function that raises; its first line says what it asks.

Where a rule says nothing about some, `applies` gives the reason. `subjects` finds what is to be
checked: a method, a stream, a policy or the like, in some of its settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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


def refuses(act: Callable[[], Any], *words: str) -> None:
    """Require an InputError with these words."""
    try:
        act()
    except InputError as error:
        missing = [word for word in words if word not in str(error)]
        require(not missing, f"it is refused with {str(error)!r}, without {missing}")
        return
    raise BrokenError("it is accepted, and should be refused")


def applies(reason: Callable[..., str]) -> Callable[[Rule], Rule]:
    """A rule that applies only where `reason`, of the same arguments, gives none against it."""

    def mark(rule: Rule) -> Rule:
        rule.reason = reason  # type: ignore[attr-defined]
        return rule

    return mark


def why_not(rule: Rule, *arguments: Any) -> str:
    """Why a rule does not apply; nothing if it does.

    A method may be such that a rule of others cannot hold: then its options say so.
    """
    if rule.__name__ in getattr(arguments[0], "exempt", ()):
        return "it does not apply, says the method"
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
        told = plugins.blamed(error)
        what = f"{type(error).__name__}: {error}" if told is None else told.found
        return Verdict(title, "failed", " ".join(str(what).split()))
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
        return f"{self.contract.word} {self.options.name}" + (f" with {text}" if text else "")

    @property
    def rules(self) -> tuple[Rule, ...]:
        """What is tried."""
        module, name = RULES[self.contract.word]
        found: tuple[Rule, ...] = getattr(import_module(f"psofed.cli.laws.{module}"), name)
        return found

    def verdicts(self) -> Iterator[Verdict]:
        """First what it looks like, then, if that is right, what it does."""
        fine = True
        for asked, problem in looks(self.contract, self.options):
            fine = fine and not problem
            yield Verdict(asked, "failed" if problem else "ok", problem)
        if unknown := set(getattr(self.options, "exempt", ())) - {r.__name__ for r in self.rules}:
            yield Verdict("`exempt` names rules", "failed", f"there is no rule {unknown.pop()!r}")
        for rule in self.rules if fine else ():
            yield judge(rule, self.options)


def subjects(text: str) -> list[Subject]:
    """What a text such as "./mine.py", or "./mine.py:shared=3,idle=false", stands for."""
    table = texts.table(text)
    options = schema.options_of(found(table.pop("name")))
    contract = contract_of(options)
    if table or contract is not METHOD:
        chosen = schema.build(options, table, options.readers())
        if contract is METHOD:
            small(chosen)  # refuses a setting that it does not allow
        return [Subject(contract, chosen)]
    return [Subject(contract, each) for each in _settings(options)]


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
    bases = ", ".join(f"{c.base.__module__}.{c.base.__qualname__}" for c in CONTRACTS)
    found = f"has Options that derive from none of {bases}"
    raise InputError("FILE", found, "derive them from that of a method, a policy or the like")


def _settings(cls: Any) -> list[Any]:
    """The default, the forms to compare, and averaging, as far as they fit a small federation."""
    try:
        options = cls()
    except TypeError as error:
        raise InputError(
            "Options", f"cannot be made: {error}", "give all fields a default"
        ) from None
    if any(problem for _, problem in looks(METHOD, options)):
        return [options]
    some = [options, *options.compared(DIM)]
    some += [replace(options, average=True)] if options.serves else []
    fitting, why = [], ""
    for each in some:
        try:
            small(each)
        except InputError as error:
            why = str(error)
            continue
        if each not in fitting:
            fitting.append(each)
    if not fitting:
        found = f"has no setting for D = {DIM}, K = {CLIENTS}, {COHORT} in a cohort: {why}"
        raise InputError("FILE", found, "give one, as in mine.py:shared=3")
    return fitting

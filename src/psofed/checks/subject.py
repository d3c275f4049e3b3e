"""What is to be checked: a method, a stream, a policy or the like, in some of its settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from psofed import plugins, schema
from psofed.checks import (
    of_attacks,
    of_defences,
    of_learners,
    of_methods,
    of_policies,
    of_sample_checks,
    of_streams,
)
from psofed.checks.bench import CLIENTS, COHORT, DIM, small
from psofed.checks.rules import Rule, Verdict, judge
from psofed.contracts import CONTRACTS, METHOD, Contract, looks
from psofed.errors import InputError, nearest
from psofed.fit.plan import value_of

RULES: dict[str, tuple[Rule, ...]] = {
    "method": of_methods.RULES,
    "policy": of_policies.RULES,
    "stream": of_streams.RULES,
    "learner": of_learners.RULES,
    "check": of_sample_checks.RULES,
    "attack": of_attacks.RULES,
    "defence": of_defences.RULES,
}


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

    def verdicts(self) -> Iterator[Verdict]:
        """First what it looks like, then, if that is right, what it does."""
        fine = True
        for asked, problem in looks(self.contract, self.options):
            fine = fine and not problem
            yield Verdict(asked, "failed" if problem else "ok", problem)
        for rule in RULES[self.contract.word] if fine else ():
            yield judge(rule, self.options)


def subjects(text: str) -> list[Subject]:
    """What a text such as "./mine.py", or "./mine.py:shared=3,idle=false", stands for."""
    name, _, given = text.partition(":")
    options = schema.options_of(found(name))
    contract = contract_of(options)
    values = dict(part.partition("=")[::2] for part in given.split(",") if part)
    if values or contract is not METHOD:
        table = {key.strip(): value_of(value) for key, value in values.items()}
        chosen = schema.build(options, table, options.readers())
        if contract is METHOD:
            small(chosen)  # refuses a setting that it does not allow
        return [Subject(contract, chosen)]
    return [Subject(contract, each) for each in _settings(options)]


def found(name: str) -> ModuleType:
    """The module of a file, a dotted name, an entry point or one of ours."""
    known = []
    for contract in CONTRACTS:
        here = schema.names(contract.package) + plugins.entries(contract.package)
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

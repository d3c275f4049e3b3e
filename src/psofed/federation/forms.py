"""The form of a class from outside: refused when it is used, with the rule that it breaks.

What it returns is checked by shape where it is used, and `psofed check` tries what it does.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from psofed.errors import InputError
from psofed.federation import schema
from psofed.federation.plugins import is_ours

Problems = Iterator[tuple[str, str]]  # what a rule asks, and what was found; nothing if it holds


@dataclass(frozen=True, eq=False)
class Contract:
    """Where something is found, what its Options derive from, and which class does its work."""

    word: str  # what it is called
    package: str
    base: type  # of its Options
    does: str  # the class next to its Options; nothing where Options do it themselves
    like: tuple[Any, ...]  # classes with all its handlers and their arguments, the plainest last
    names: tuple[str, ...]  # what it has to have
    own: tuple[str, ...] = ()  # what it has to write itself, or one of those joined by " or "

    @property
    def public(self) -> str:
        """The base by the name under which others import it."""
        kinds = self.package.rpartition(".")[2].removeprefix("sample_")
        home = "" if kinds in ("methods", "learners") else f"{kinds}."
        return f"psofed.contract.{home}{self.base.__name__}"


def check(contract: Contract, options: Any) -> None:
    """Refuse options of a class from outside that breaks its contract, and say which rule."""
    if is_ours(type(options)):
        return
    for rule, problem in looks(contract, options):
        if problem:
            name = vars(type(options)).get("name", type(options).__qualname__)
            found = f"is {name!r}, a {contract.word} that breaks a rule: {rule}, but {problem}"
            raise InputError("name", found, "correct it; `psofed check` tries all rules")


def looks(contract: Contract, options: Any) -> Problems:
    """Every rule about the form of a class, and what was found where it does not hold."""
    cls: Any = type(options)
    worker = cls
    if contract.does or issubclass(cls, schema.Named):
        frozen = _frozen(cls) if issubclass(cls, contract.base) else "it does not derive from it"
        yield f"Options is a frozen dataclass that derives from {contract.public}", frozen
        if frozen:
            return
    yield f"name is a text that no {contract.word} of psofed has", _name(contract, cls)
    if contract.does:
        try:
            worker, problem = schema.companion(options, contract.does), ""
        except InputError as error:
            problem = error.found.partition(", of ")[2]
        yield f"{contract.does} stands next to Options, or Options declare it as `kind`", problem
        if problem:
            return
    yield from _of_worker(contract, worker)
    chosen = _declared(cls, contract.base) or _declared(worker, contract.like[-1])
    yield "what is declared has a value of the contract", chosen


def _frozen(cls: Any) -> str:
    """What keeps it from being a frozen dataclass with all its fields."""
    known = {field.name for field in dataclasses.fields(cls)}
    hints = inspect.get_annotations(cls)
    lost = [key for key, hint in hints.items() if "ClassVar" not in str(hint) and key not in known]
    return f"{cls.__qualname__} has {lost[0]}, but no @dataclass(frozen=True)" if lost else ""


def _name(contract: Contract, cls: Any) -> str:
    name = getattr(cls, "name", None)
    inherited = not contract.does and "name" not in vars(cls)  # a stream is found by its class
    if name in schema.names(contract.package) and not is_ours(cls) and not inherited:
        return f"{name!r} is that of psofed's own {contract.word}: choose another"
    if not isinstance(name, str) or not name.strip():
        return f"it is {name!r}: write name: ClassVar[str] = ..."
    return ""


def _declared(cls: Any, announced: Any) -> str:
    """What is wrong with a value that is declared, where there are a few to choose from."""
    for name, announced_as in get_type_hints(announced).items():
        hint = get_args(announced_as)[0] if get_origin(announced_as) is ClassVar else announced_as
        value = getattr(cls, name, None)
        if get_origin(hint) is Literal and not isinstance(value, property | None):
            try:
                schema.convert(name, value, hint)
            except InputError as error:
                return str(error)
    return ""


def _of_worker(contract: Contract, worker: Any) -> Problems:
    """What it has, and what arguments that takes: as many as where it is announced."""
    *others, plainest = contract.like
    like = next((each for each in others if issubclass(worker, each)), plainest)
    missing = [
        one for one in contract.own
        if all(getattr(worker, n, None) is getattr(like, n) for n in one.split(" or "))
    ]  # fmt: skip
    called = {contract.does: (worker, like)} if contract.does else {}
    for name in contract.names:
        found = getattr(worker, name, None)
        if found is None:
            missing.append(name)
        elif inspect.isfunction(found):
            called[name] = found, getattr(like, name)
    lacks = f"it has no {', '.join(missing)}" if missing else ""
    yield f"{contract.does or 'the class'} has everything of its contract", lacks
    wrong = [
        f"{name}({', '.join(given)}), not {name}({', '.join(needed)})"
        for name, each in called.items()
        for given, needed in [[inspect.signature(one).parameters for one in each]]
        if not _takes(each[0], len(needed))
    ]
    differs = f"it has {', '.join(wrong)}" if wrong else ""
    yield "the handlers take the arguments of the contract", differs


def _takes(handler: Any, arguments: int) -> bool:
    try:
        inspect.signature(handler).bind(*[None] * arguments)
    except TypeError:
        return False
    return True

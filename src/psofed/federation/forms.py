"""The form of a class from outside: refused when it is used, with the rule that it breaks.

What it returns is checked by shape where it is used, and `psofed check` tries what it does.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from psofed.errors import InputError
from psofed.federation import schema
from psofed.federation.plugins import is_ours

PLAIN = (int, float, bool, str)
Problems = Iterator[tuple[str, str]]  # what a rule asks, and what was found; nothing if it holds


@dataclass(frozen=True, eq=False)
class Contract:
    """Where something is found, what its Options derive from, and which class does its work."""

    word: str  # what it is called
    package: str
    base: type  # of its Options
    does: str  # the class beside its Options; nothing where Options do it themselves
    like: tuple[Any, ...]  # classes with all its handlers and their arguments, the plainest last
    names: tuple[str, ...]  # what it has to have
    own: tuple[str, ...] = ()  # what it has to write itself: `like` only announces it
    counts: tuple[str, ...] = ()  # attributes of its Options that are whole numbers from 1 on


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
    yield from _of_class(contract, cls)
    worker = cls
    if contract.does:
        yield "describe() gives one line of text", _description(options)
        rule = f"{contract.does} stands beside Options, or Options declare it as `kind`"
        try:
            worker = schema.beside(options, contract.does)
        except InputError as error:
            yield rule, error.found.partition(", of ")[2]
            return
        yield rule, "" if isinstance(worker, type) else f"it is {worker!r}"
        if not isinstance(worker, type):
            return
    for name in contract.counts:
        yield f"{name} is a whole number from 1 on", _count(options, name)
    yield from _of_worker(contract, worker)


@cache
def _of_class(contract: Contract, cls: Any) -> tuple[tuple[str, str], ...]:
    base = f"{contract.base.__module__}.{contract.base.__qualname__}"
    found = []
    if contract.does or issubclass(cls, schema.Named):
        derived = "" if issubclass(cls, contract.base) else "it does not derive from it"
        frozen = derived or _frozen(cls)
        found.append((f"Options is a frozen dataclass that derives from {base}", frozen))
        if frozen:
            return tuple(found)
        rule = "fields are numbers, texts, true or false, choices, lists of fixed length"
        found += [(rule, _fields(cls)), ("every field has a default", _defaults(cls))]
    found.append((f"name is a text that no {contract.word} of psofed has", _name(contract, cls)))
    return tuple(found)


def _frozen(cls: Any) -> str:
    who: str = cls.__qualname__
    hints = inspect.get_annotations(cls)
    if not dataclasses.is_dataclass(cls):
        return f"{who} has no @dataclass(frozen=True)"
    known = {field.name for field in dataclasses.fields(cls)}
    lost = [key for key, hint in hints.items() if "ClassVar" not in str(hint) and key not in known]
    if lost:
        return f"{who} has {lost[0]}, but no @dataclass(frozen=True)"
    params: Any = vars(cls).get("__dataclass_params__")
    return "" if params is None or params.frozen else "it is not frozen"


def _fields(cls: Any) -> str:
    try:
        hints = get_type_hints(cls)
    except Exception as error:
        return f"the annotations cannot be read: {error}"
    nested = cls.readers()
    for field in dataclasses.fields(cls):
        if field.name not in nested and not _readable(hints[field.name]):
            return f"{field.name} is {field.type}"
    return ""


def _readable(hint: Any) -> bool:
    if get_origin(hint) in (UnionType, Union):
        left = [arg for arg in get_args(hint) if arg is not NoneType]
        return len(left) == 1 and _readable(left[0])
    if get_origin(hint) is Literal:
        return True
    if get_origin(hint) is tuple:
        return Ellipsis not in get_args(hint) and all(map(_readable, get_args(hint)))
    return hint in PLAIN


def _defaults(cls: Any) -> str:
    for field in dataclasses.fields(cls):
        if field.init and field.default is field.default_factory is dataclasses.MISSING:
            return f"{field.name} has none"
    return ""


def _name(contract: Contract, cls: Any) -> str:
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or not name.strip() or "\n" in name:
        return f"it is {name!r}"
    inherited = not contract.does and "name" not in vars(cls)  # a stream is found by its class
    if name in schema.names(contract.package) and not is_ours(cls) and not inherited:
        return f"{name!r} is that of psofed's own {contract.word}: choose another"
    return ""


def _description(options: Any) -> str:
    try:
        text = options.describe()
    except Exception as error:
        return f"it raises {type(error).__name__}: {error}".rstrip(": ")
    good = isinstance(text, str) and text.strip() and "\n" not in text
    return "" if good else f"it gives {text!r}"


def _count(options: Any, name: str) -> str:
    value = getattr(options, name, None)
    return "" if type(value) is int and value > 0 else f"it is {value!r}"


def _of_worker(contract: Contract, worker: Any) -> Problems:
    """What it has, and what arguments that takes: as many as where it is announced."""
    *others, plainest = contract.like
    like = next((each for each in others if issubclass(worker, each)), plainest)
    missing, wrong = [], []
    for name in contract.names:
        found, announced = getattr(worker, name, None), getattr(like, name, None)
        if found is None or (name in contract.own and found is announced):
            missing.append(name)
        elif inspect.isfunction(found) and not _takes(found, announced):
            wrong.append(f"{name}{inspect.signature(found)}")
    who = contract.does or "the class"
    yield f"{who} has everything of its contract", _list("it has no ", missing)
    yield "the handlers take the arguments of the contract", _list("it has ", wrong)


def _takes(handler: Any, announced: Any) -> bool:
    needed = inspect.signature(announced).parameters.values()
    try:
        inspect.signature(handler).bind(*[None] * len(needed))
    except TypeError:
        return False
    return True


def _list(words: str, names: list[str]) -> str:
    return words + ", ".join(names) if names else ""

"""What a class from outside must have, by its looks: told before anything runs.

`checks` has the rules of what it must do.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from psofed import schema
from psofed.attacks.contract import Options as AttackOptions
from psofed.defences.contract import Options as DefenceOptions
from psofed.errors import InputError
from psofed.learners.contract import Learner
from psofed.methods.contract import Common, Plain
from psofed.plugins import is_ours
from psofed.policies.contract import Options as PolicyOptions
from psofed.sample_checks.contract import SampleCheck
from psofed.streams.contract import StreamOptions

PLAIN = (int, float, bool, str)
Problems = Iterator[tuple[str, str]]  # what a rule asks, and what was found; nothing if it holds


@dataclass(frozen=True, eq=False)
class Contract:
    """Where something is found, what it derives from, and which class does its work."""

    word: str  # what it is called
    package: str
    base: type
    does: str  # the class beside its Options; nothing where Options do it themselves
    handlers: Mapping[str, int]  # and the number of their arguments
    own: tuple[str, ...] = ()  # handlers that the bases only announce


METHOD = Contract(
    "method", "psofed.methods", Common, "Method",
    {
        "cohort": 2, "begins": 1, "ends": 1, "server": 0, "client": 1, "download": 3, "receive": 4,
        "learn": 4, "absorb": 4, "upload": 3, "fold": 4, "touched": 3, "encode": 2, "decode": 2,
        "numbers": 1, "lengths": 1, "downloads": 2, "own": 1, "models": 2,
    },
    ("download", "learn"),
)  # fmt: skip
POLICY = Contract(
    "policy", "psofed.policies", PolicyOptions, "Policy", {"start": 0, "invite": 4, "admit": 3}
)
STREAM = Contract(
    "stream", "psofed.streams", StreamOptions, "", {"samples": 6, "snapshot": 4}
)  # fmt: skip
LEARNER = Contract(
    "learner", "psofed.learners", Learner, "",
    {"size": 2, "inputs": 1, "initial": 3, "predict": 2, "direction": 2, "both": 2, "learn": 4},
    ("size", "predict"),
)  # fmt: skip
ATTACK = Contract(
    "attack", "psofed.attacks", AttackOptions, "Attack",
    {"mix": 0, "offset": 2, "models": 5, "samples": 4},
)  # fmt: skip
DEFENCE = Contract(
    "defence", "psofed.defences", DefenceOptions, "Defence",
    {"start": 0, "defended": 5, "passes": 4, "opinion": 1},
)  # fmt: skip
CHECK = Contract(
    "check", "psofed.sample_checks", SampleCheck, "", {"memory": 2, "judge": 4}, ("judge",)
)
CONTRACTS = (METHOD, POLICY, STREAM, LEARNER, ATTACK, DEFENCE, CHECK)
FLAGS = ("stacked", "lazy", "foresees", "compiled", "idle", "relays", "restless", "common", "peers")


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
    if contract.does:
        yield "describe() gives one line of text", _description(options)
        rule = f"{contract.does} stands beside Options, or Options declare it as `kind`"
        try:
            worker = schema.beside(options, contract.does)
        except InputError as error:
            yield rule, error.found.partition(", of ")[2]
            return
        yield rule, "" if isinstance(worker, type) else f"it is {worker!r}"
    else:
        worker = cls
    if contract is STREAM:
        yield "taps is a whole number from 1 on", _taps(options)
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
        found.append(("fields are numbers, texts, true or false, choices, lists of fixed length",
                      _fields(cls)))  # fmt: skip
        found.append(("every field has a default", _defaults(cls)))
    found.append((f"name is a text that no {contract.word} of psofed has", _name(contract, cls)))
    return tuple(found)


def _frozen(cls: Any) -> str:
    who: str = cls.__qualname__
    if not dataclasses.is_dataclass(cls):
        return f"{who} has no @dataclass(frozen=True)"
    known = {field.name for field in dataclasses.fields(cls)}
    lost = [key for key in _annotated(cls) if key not in known]
    if lost:
        return f"{who} has {lost[0]}, but no @dataclass(frozen=True)"
    params: Any = vars(cls).get("__dataclass_params__")
    return "" if params is None or params.frozen else "it is not frozen"


def _annotated(cls: Any) -> list[str]:
    """The names that look like fields of the class itself."""
    hints = inspect.get_annotations(cls)
    return [key for key, hint in hints.items() if "ClassVar" not in str(hint)]


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


def _taps(options: Any) -> str:
    taps = getattr(options, "taps", None)
    return "" if type(taps) is int and taps > 0 else f"it is {taps!r}"


def _of_worker(contract: Contract, worker: Any) -> Problems:
    missing, wrong = [], []
    announced: Any = Plain if contract is METHOD else contract.base
    for name, count in contract.handlers.items():
        handler: Callable[..., Any] | None = getattr(worker, name, None)
        if handler is None or (name in contract.own and handler is getattr(announced, name, None)):
            missing.append(name)
        elif inspect.isfunction(handler) and not _takes(handler, count + 1):
            wrong.append(f"{name}{inspect.signature(handler)}")
    who = contract.does or "the class"
    yield f"{who} has every handler of its contract", _list("it has no ", missing)
    rule = "the handlers take the arguments of the contract"
    yield rule, _list("it has ", wrong)
    if contract is METHOD:
        absent = [flag for flag in FLAGS if not isinstance(getattr(worker, flag, None), bool)]
        yield "Method declares what it can do, or derives from Plain", _list("it has no ", absent)
        claims = getattr(worker, "compiled", False) is True and not is_ours(worker)
        own = "it does" if claims else ""
        yield "Method does not declare `compiled`: the kernel knows psofed's own only", own


def _takes(handler: Any, count: int) -> bool:
    try:
        inspect.signature(handler).bind(*[None] * count)
    except TypeError:
        return False
    return True


def _list(words: str, names: list[str]) -> str:
    return words + ", ".join(names) if names else ""

"""From plain tables (TOML, JSON) to frozen dataclasses: every key known, every type right.

Methods, policies and streams are found by the name of their file, and so are their tables: adding
one touches nothing else. What is not in the package is found outside it (see `plugins`).
"""

from __future__ import annotations

import dataclasses
import pkgutil
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from inspect import cleandoc, get_annotations
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import psofed
from psofed.errors import InputError, meant, nearest
from psofed.federation import plugins

Reader = Callable[[str, Any], Any]
# The packages in which psofed's own are, by the group of entry points that has those of others.
HOMES = {
    "psofed.methods": ("psofed.methods", "psofed.rivals"),
    "psofed.policies": ("psofed.rivals.policies",),
    "psofed.streams": ("psofed.streams",),
    "psofed.learners": ("psofed.federation.learners",),
    "psofed.sample_checks": ("psofed.stages.checks",),
    "psofed.attacks": ("psofed.stages.attacks",),
    "psofed.defences": ("psofed.stages.defences",),
}
KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    list: "a list",
    dict: "a table",
}


@contextmanager
def inside(prefix: str = "", where: str = "") -> Iterator[None]:
    """What is wrong in here is wrong in this table, or in this file."""
    try:
        yield
    except InputError as error:
        raise error.inside(prefix, where) from None


def read_text(path: str | Path, wanted: str) -> str:
    """The text of a file that the user named, or an InputError that says what it should be."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")  # editors may put a mark before the text
    except OSError as error:
        found = f"cannot be read: {error.strerror}"
        raise InputError("", found, f"give {wanted}", str(path)) from None
    except UnicodeDecodeError:
        raise InputError("", "is not text", f"give {wanted} in UTF-8", str(path)) from None


def read_toml(path: str | Path, wanted: str, right: str) -> dict[str, Any]:
    """The tables of such a file; `right` is what to do about one that is not TOML."""
    text = read_text(path, wanted)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError("", f"is not TOML: {error}", right, str(path)) from None


@cache
def _hints(cls: Any) -> Mapping[str, Any]:
    """The types of a dataclass's fields; working them out takes longer than all checks."""
    return get_type_hints(cls)


def build(cls: Any, table: Mapping[str, Any], nested: Mapping[str, Reader] | None = None) -> Any:
    """An instance of the dataclass `cls` from a table, or an InputError that names the key.

    `nested` has the readers of keys that hold tables themselves.
    """
    hints, nested = _hints(cls), nested or {}
    fields = [field.name for field in dataclasses.fields(cls)]
    values = {}
    for key, value in table.items():
        if key not in fields:
            raise InputError(key, "is not a known key", nearest(key, fields))
        values[key] = nested[key](key, value) if key in nested else convert(key, value, hints[key])
    for field in dataclasses.fields(cls):
        needed = field.default is field.default_factory is dataclasses.MISSING
        if needed and field.name not in values:
            raise InputError(field.name, "is missing", "add it")
    return cls(**values)


def check(owner: Any, skip: tuple[str, ...] = ()) -> None:
    """Refuse fields of a dataclass whose values are not of the annotated types."""
    hints = _hints(owner.__class__)
    for field in dataclasses.fields(owner):
        value = getattr(owner, field.name)
        if field.name in skip or (value is None and NoneType in get_args(hints[field.name])):
            continue
        plain = list(value) if isinstance(value, tuple) else value
        convert(field.name, plain, hints[field.name])


def convert(key: str, value: Any, hint: Any) -> Any:
    """`value` as the type `hint` asks for, or an InputError that says what it is instead."""
    if get_origin(hint) in (UnionType, Union):
        hint = next(arg for arg in get_args(hint) if arg is not NoneType)
    if get_origin(hint) is Literal:
        return _choice(key, value, get_args(hint))
    if get_origin(hint) is tuple:
        return _tuple(key, value, get_args(hint))
    if get_origin(hint) is Mapping:
        kind = get_args(hint)[1]
        table = convert(key, value, dict)
        return {name: convert(f"{key}.{name}", each, kind) for name, each in table.items()}
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        kind = KINDS.get(type(value), f"a {type(value).__name__}")
        raise InputError(key, f"is {_short(value)}, {kind}", f"use {KINDS.get(hint, hint)}")
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:50] + "..."


def _choice(key: str, value: Any, choices: tuple[Any, ...]) -> Any:
    if value in choices:
        return value
    raise InputError(key, f"is {value!r}", "use " + " or ".join(f'"{c}"' for c in choices))


def _tuple(key: str, value: Any, hints: tuple[Any, ...]) -> tuple[Any, ...]:
    value = [value] if isinstance(value, str) and hints == (str, ...) else value
    if hints[1:] == (...,) and isinstance(value, list):  # as many as there are
        return tuple(convert(key, v, hints[0]) for v in value)
    if not isinstance(value, list) or len(value) != len(hints):
        count = "" if hints[1:] == (...,) else f" of {len(hints)} numbers"
        raise InputError(key, f"is {value!r}", f"use a list{count}")
    return tuple(convert(key, v, h) for v, h in zip(value, hints, strict=True))


def positive(owner: Any, *names: str) -> None:
    """Refuse numbers that are not finite and above zero."""
    for name in names:
        value = getattr(owner, name)
        if value is not None and not 0 < value < float("inf"):
            raise InputError(name, f"is {value}", "use a number above 0")


def require(owner: Any, name: str, holds: bool, right: str) -> None:
    """Refuse the value of a field, unless a condition on it holds; `right` says what would be."""
    if not holds:
        raise InputError(name, f"is {getattr(owner, name)}", right)


def at_most(owner: Any, limits: Mapping[str, int]) -> None:
    """Refuse numbers that are too large for any machine."""
    for name, limit in limits.items():
        if getattr(owner, name) > limit:
            raise InputError(name, f"is {getattr(owner, name)}", f"use {limit} at most")


FIELD = re.compile(r"^    (\w+): ([^=#\n]+?)(?: = [^#\n]*?)?  # (.+)$", re.MULTILINE)


class Note(NamedTuple):
    """What the source says about a field."""

    kind: str  # its annotation
    text: str  # the comment next to it


@cache
def comments(module: str, name: str) -> Mapping[str, Note]:
    """The fields of a class of psofed that have a comment next to them; base classes are not read.

    >>> comments("settings", "Settings")["rounds"]
    Note(kind='int', text='N, one sample per client and round')
    """
    file = Path(__file__).parents[1] / f"{module.replace('.', '/')}.py"
    source = file.read_text(encoding="utf-8").partition(f"\nclass {name}")[2]
    found = FIELD.findall(source.partition("\n\n\n")[0])
    return {key: Note(kind.removesuffix(" | None"), text) for key, kind, text in found}


class Fields:
    """A dataclass of psofed whose help has a line for each field, with the comment next to it.

    If a field is given that it does not have, the error says which one is meant.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith("psofed.") and "__doc__" in vars(cls):
            described: Any = _Described(cls.__doc__ or "")
            cls.__doc__ = described

    if not TYPE_CHECKING:

        def __new__(cls, *values, **given):
            known = [each.name for each in dataclasses.fields(cls)] if given else []
            for name in given:
                if name not in known:
                    raise InputError(name, f"is not a field of {cls.__name__}", meant(name, known))
            return super().__new__(cls)


class _Described:
    """The docstring of such a class, put together when somebody reads it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __get__(self, instance: Any, owner: Any) -> str:
        if "__match_args__" not in vars(owner):  # it is still being made
            return self.text
        lines = []
        for field in dataclasses.fields(owner):
            home = next(c for c in owner.__mro__ if field.name in get_annotations(c))
            package, _, module = home.__module__.partition(".")
            note = comments(module, home.__name__).get(field.name) if package == "psofed" else None
            lines += [f"    {field.name}: {note.text}"] if note else []
        return "\n\n".join([cleandoc(self.text), "\n".join(lines)]) if lines else self.text


class Named(Fields):
    """Options that are a table of a file, under the name of their module."""

    name: ClassVar[str] = ""  # of a class that is only derived from: none
    # The class that does what the options say, where it is not the Method or Policy next to them.
    kind: ClassVar[Any] = None

    def describe(self) -> str:
        """The options in short, for titles."""
        return self.name

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """The readers of keys that hold tables themselves."""
        return {}

    def to_table(self) -> dict[str, Any]:
        """What is set, as plain values."""
        return values(self)


def names(group: str) -> list[str]:
    """The names that `load` knows: every file of the group's packages but their helpers."""
    return sorted(_homes(group))


@cache
def _homes(group: str) -> dict[str, str]:
    """The package of each name."""
    found: dict[str, str] = {}
    for package in HOMES[group]:
        home = import_module(package)
        modules = (module.name for module in pkgutil.iter_modules(home.__path__))
        found |= {name: package for name in modules if name not in home.HELPERS}
    return found


def public(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a public package: its classes, loaded on first use."""
    homes = psofed._HOMES_IN[package]

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = homes[name].partition(":")
        return getattr(import_module(module), attribute)

    return find, lambda: sorted(homes)


def load(group: str, name: object) -> ModuleType:
    """The module of that name: ours, or one from outside: a file, a dotted name, an entry point."""
    home = _homes(group).get(str(name))
    if home is not None:
        return import_module(f"{home}.{name}")
    where = str(name) if plugins.outside(name) else plugins.offered(group, name)
    if where is not None:
        return plugins.module(where)
    found = f"is {name!r}, which does not exist"
    if Path(f"{name}.py").name == f"{name}.py" and plugins.has_file(f"{name}.py"):
        raise InputError("name", found, f'for the file next to it, write "./{name}.py"')
    raise InputError("name", found, nearest(str(name), names(group)))


def reader(group: str) -> Reader:
    """A reader of tables whose `name` says which file of `group` knows the other keys."""

    def parse(table: Mapping[str, Any]) -> Any:
        if "name" not in table:
            raise InputError("name", "is missing", nearest("", names(group)))
        options = options_of(load(group, table["name"]))
        rest = {key: value for key, value in table.items() if key != "name"}
        return build(options, rest, options.readers())

    return section(parse)


def choice(group: str, key: str, value: Any) -> Any:
    """Options, or those that a text or a table in their place stands for."""
    if isinstance(value, str):
        if value in ("ar1", "iid"):
            right = f'write psofed.PaperStream(inputs="{value}")'
            raise InputError(key, f"is {value!r}, which says how inputs are drawn", right)
        value = {"name": value}
    if isinstance(value, type):
        raise InputError(key, f"is the class {value.__name__}", f"write {value.__name__}()")
    if isinstance(value, int | float | list | tuple | set):
        right = f"give an object, or its name: {', '.join(names(group))}"
        raise InputError(key, f"is {value!r:.60}", right)
    return reader(group)(key, value) if isinstance(value, Mapping) else value


def section(parse: Callable[[Mapping[str, Any]], Any]) -> Reader:
    """A reader of a table within a file, in which a mistake is named with its place."""

    def read(key: str, value: Any) -> Any:
        table = convert(key, value, dict)
        with inside(key + "."):
            return parse(table)

    return read


def each(one: Reader) -> Reader:
    """A reader of lists of what `one` reads."""

    def read(key: str, tables: Any) -> tuple[Any, ...]:
        entries = convert(key, tables, list)
        return tuple(one(f"{key}[{i}]", table) for i, table in enumerate(entries))

    return read


def options_of(module: ModuleType) -> Any:
    """The class of options in a module that was found by name."""
    options, where = vars(module).get("Options"), module.__file__
    if not isinstance(options, type):
        raise InputError("name", f"is {where}, which has no class Options", "write one")
    if not dataclasses.is_dataclass(options) or not issubclass(options, Named):
        found = f"is {where}, whose Options cannot be read from a table"
        right = "make it a frozen dataclass, derived from Common, policies.Options or the like of"
        right += " psofed.contract"
        raise InputError("name", found, right)
    return options


def companion(options: Any, name: str) -> Any:
    """The class of that name which belongs to options: what they declare, or that of their module.

    In a notebook all cells are one module, so there it has to be declared.
    """
    for cls in type(options).__mro__:
        if vars(cls).get("kind") is not None:
            return vars(cls)["kind"]
        home = vars(sys.modules[cls.__module__]) if cls.__module__ != "__main__" else {}
        named = cls is type(options) or "name" in vars(cls)  # not the base that a contract has
        if home.get("Options") is cls and name in home and named:
            return home[name]
    found = f"is {options.name!r}, of {type(options).__qualname__}, which has no {name}"
    right = f"write a class {name} next to it, or declare it there: kind = {name}"
    raise InputError("name", found, right)


def made(options: Any, name: str, given: Any, *own: str) -> Any:
    """What does the work of these options, refused if its __init__ has left something out."""
    found = companion(options, name)(options, given)
    if missing := [attribute for attribute in own if not hasattr(found, attribute)]:
        from psofed.federation import foreign  # which needs NumPy: the list of commands does not

        right = "call super().__init__ with what it was given"
        raise foreign.broken(type(found), "__init__", f"does not set {' or '.join(missing)}", right)
    return found


def table(options: Any) -> dict[str, Any]:
    """Options as the table that `reader` reads, or an InputError that says why it cannot."""
    cls: Any = type(options)
    if not dataclasses.is_dataclass(cls):
        kind = cls.__qualname__
        right = "make its class a frozen dataclass, whose fields are the keys of the table"
        error = InputError("name", f"is of {kind}, which has no fields to be written", right)
        plugins.unwritten(error)
        return {"name": kind}
    plain = options.to_table() if isinstance(options, Named) else values(options)
    name = options.name if plugins.is_ours(cls) else plugins.spelled(cls)
    return {"name": name, **plain}


def values(options: Any) -> dict[str, Any]:
    """The fields of a dataclass that are set, as plain values."""
    found = {f.name: getattr(options, f.name) for f in dataclasses.fields(options)}
    return {key: _plain(key, value) for key, value in found.items() if value is not None}


def _plain(key: str, value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(key, each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(key, each) for name, each in value.items()}
    if isinstance(value, str | int | float):
        return value
    if dataclasses.is_dataclass(value):
        return table(value)
    found = f"is {_short(value)}, which cannot be written"
    plugins.unwritten(InputError(key, found, "use numbers, texts, lists and tables"))
    return _short(value)

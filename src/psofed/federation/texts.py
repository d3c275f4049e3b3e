"""Settings as people type them: `KEY=VALUE`, read by the type of the field that it sets.

What a field means is said once, in the comment next to it.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from psofed.errors import InputError, nearest
from psofed.federation import schema
from psofed.federation.schema import comments as comments


def value(text: str) -> Any:
    """A value as TOML reads it, or the text itself.

    >>> value("0.5"), value("true"), value("noisy"), value("[1, 2]")
    (0.5, True, 'noisy', [1, 2])
    """
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except ValueError:
        return text.strip()


def table(text: str) -> dict[str, Any]:
    """What is found by its name, with options: a text such as "scale:factor=-5", as a table.

    >>> table("psofed:shared=5,scheme=coordinated")
    {'name': 'psofed', 'shared': 5, 'scheme': 'coordinated'}
    """
    name, _, rest = text.partition(":")
    values = dict(part.partition("=")[::2] for part in rest.split(",") if part)
    return {"name": name} | {key.strip(): value(each) for key, each in values.items()}


def named(group: str, option: str, text: str) -> Any:
    """The options in such a text, of a group such as "psofed.attacks"."""
    try:
        return schema.reader(group)("", table(text))
    except InputError as error:
        field = error.field.removeprefix(".")
        raise InputError(f"{option} {text}: {field}", error.found, error.right) from None


class Assignment(NamedTuple):
    """A key, the text of its value, and what the user has typed to give them."""

    key: str
    text: str
    typed: str

    def blame(self, error: InputError) -> InputError:
        """The error, with the name that was typed if it is about this key."""
        if error.field.rpartition(".")[2] != self.key.rpartition(".")[2]:
            return error
        return InputError(self.typed, error.found, error.right)


def settings(texts: Iterable[str]) -> list[Assignment]:
    """What was given with `--set`."""
    found = []
    for text in texts:
        key, sign, given = text.partition("=")
        if not sign or not key.strip() or not given:
            found_ = f"is {text!r}, which is not KEY=VALUE"
            raise InputError("--set", found_, "write it as step=0.5")
        found.append(Assignment(key.strip(), given, f"--set {key.strip()}"))
    for i, each in enumerate(found):
        if each.key in (other.key for other in found[:i]):
            raise InputError(each.typed, "is given twice", "give it once")
    return found


def assigned(
    classes: Mapping[str, Any],
    given: Iterable[Assignment],
    readers: Mapping[str, Any] | None = None,
) -> dict[str, dict[str, Any]]:
    """What is set, by class, then by field, as plain values.

    A field is known by its name, or with that of its class before it: "form.sep". What follows a
    field that is a mapping is a key of it: "ranges.temp=0,40". `readers` are for other fields.
    """
    found: dict[str, dict[str, Any]] = {part: {} for part in classes}
    for setting in given:
        part, field, inner = _place(classes, setting, readers or {})
        hint = get_type_hints(classes[part])[field]
        if readers and field in readers:
            found[part][field] = readers[field](setting.text)
        elif _is_mapping(hint):
            # A column may have this sign in its name, but no value has.
            more, _, text = f"{inner}={setting.text}".rpartition("=")
            known = found[part].setdefault(field, {})
            known[more] = typed(setting.typed, text, get_args(hint)[1])
        else:
            found[part][field] = typed(setting.typed, setting.text, hint)
    return found


def _is_mapping(hint: Any) -> bool:
    return isinstance(get_origin(hint), type) and issubclass(get_origin(hint), Mapping)


def _place(
    classes: Mapping[str, Any], setting: Assignment, readers: Mapping[str, Any]
) -> tuple[str, str, str]:
    """The class, the field and what follows it."""
    known: dict[str, tuple[str, str, Any]] = {}
    for part, cls in classes.items():
        for name, hint in get_type_hints(cls).items():
            if name in readers or not _is_table(hint):
                known |= {name: (part, name, hint), f"{part}.{name}": (part, name, hint)}
    for name in sorted(known, key=len, reverse=True):
        part, field, hint = known[name]
        if setting.key == name and _is_mapping(hint):
            right = f"write it as {name}.COLUMN={setting.text}"
            raise InputError(setting.typed, "names no column", right)
        if setting.key == name or (_is_mapping(hint) and setting.key.startswith(f"{name}.")):
            return part, field, setting.key[len(name) + 1 :]
    names = sorted({field for _, field, _ in known.values()})
    raise InputError(setting.typed, "is not a known key", nearest(setting.key, names))


def _is_table(hint: Any) -> bool:
    """Whether a type, or one of those that it is made of, has fields of its own."""
    return (
        dataclasses.is_dataclass(hint)
        or (isinstance(hint, type) and issubclass(hint, schema.Named))
        or any(_is_table(each) for each in get_args(hint))
    )


def typed(key: str, text: str, hint: Any) -> Any:
    """The plain value in a text, for a field of this type; lists are written with commas."""
    if get_origin(hint) in (UnionType, Union):
        hint = next(each for each in get_args(hint) if each is not type(None))
    if get_origin(hint) is tuple:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        return [typed(key, part, get_args(hint)[0]) for part in parts]
    if hint is str:
        return text
    if get_origin(hint) is Literal:
        return schema.convert(key, text, hint)
    return schema.convert(key, value(text), hint)

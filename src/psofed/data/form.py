"""How a file is written: found out from its first block, unless it is told."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from psofed import schema
from psofed.errors import InputError

SINCE_1970 = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # dates as numbers: so many a second
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass(frozen=True)
class Form:
    """The [form] table of a plan. What is not set is found out, or refused if it is not clear.

    >>> Form(sep=";", decimal=",").to_table()
    {'sep': ';', 'decimal': ','}
    """

    sep: str | None = None  # between cells; not set: comma, semicolon, tab or bar
    decimal: str | None = None  # "." or ","
    encoding: str | None = None  # such as utf-8, utf-16, latin-1
    time_format: str | None = None  # of dates, as in strptime; or s, ms, us, ns since 1970
    day_first: bool | None = None  # whether 01/02/2024 is in February
    sheet: str | None = None  # of an Excel file; not set: the first one
    large: bool = False  # whether there are no limits of size

    def __post_init__(self) -> None:
        schema.check(self)
        if self.sep is not None and (len(self.sep) != 1 or self.sep in '"\r\n'):
            raise InputError("sep", f"is {self.sep!r}", "use one character, such as ; or \\t")
        if self.decimal not in (None, ".", ","):
            raise InputError("decimal", f"is {self.decimal!r}", "use . or ,")
        if self.sep == self.decimal == ".":
            raise InputError("sep", "is the decimal sign too", "give another one")
        self._check_encoding()
        form = self.time_format
        if form is not None and "%" not in form and form not in SINCE_1970:
            right = f"use signs such as %d.%m.%Y %H:%M, or {', '.join(SINCE_1970)} since 1970"
            raise InputError("time_format", f"is {form!r}", right)

    def _check_encoding(self) -> None:
        if self.encoding is None:
            return
        try:
            text = "a".encode(self.encoding).decode(self.encoding)
        except (LookupError, ValueError, TypeError, AttributeError):
            text = ""
        if text != "a":
            right = "use one such as utf-8, utf-16 or latin-1"
            raise InputError("encoding", f"is {self.encoding!r}", right)

    def to_table(self) -> dict[str, Any]:
        """As plain values: only what is set."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in plain.items() if value not in (None, False)} | (
            {"day_first": False} if self.day_first is False else {}
        )


UNKNOWN = Form()  # everything is found out


def parse(key: str, value: Any) -> Form:
    """The [form] table of a file; a mistake in it is named with its place."""
    try:
        form: Form = schema.build(Form, schema.convert(key, value, dict), {})
    except InputError as error:
        raise error.inside("" if error.field == key else key + ".") from None
    return form

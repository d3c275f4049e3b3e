"""Times in any form that people write: found from the first block, refused if it is not clear."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import numpy as np

from psofed.core.native import Array
from psofed.errors import InputError
from psofed.streams.data.columns import Batch, Missing, is_number, show
from psofed.streams.data.textfile import SINCE_1970

LATEST = 1e15
PARTS = ("year", "month", "day", "hour", "minute", "second")
ISO = "ISO 8601"
FEW = 100  # texts, from which the form is found if not all have the same
REMEMBERED = 100_000  # texts whose times are kept: clients report at the same times
DAYS = (
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d",
    "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%b %d %Y",
    "%b %d, %Y", "%B %d, %Y", "%d-%b-%y", "%Y-%m-%d", "%Y%m%d",
)  # fmt: skip
HOURS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%H.%M", "%H")
MONTHS = ("%Y-%m", "%Y/%m", "%m/%Y", "%m.%Y", "%b %Y", "%B %Y", "%b-%Y")  # their first days
FORMATS = (
    *DAYS,
    *MONTHS,
    *(day + gap + hour for day, hour, gap in product(DAYS, HOURS, (" ", "T", ", "))),
)
COMPACT = {8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
YEARS = range(1900, 2101)  # of dates that are written as one number
EPOCH = 946_684_800, 4_102_444_800  # seconds since 1970, of 2000 and 2100
# The hour 24, which ends a day: 24:00, or 24 after a date, or 2024030124 as one number.
LAST = re.compile(
    r"(?:(?<=[ T,])|^)24(?=:00(?::00(?:\.0+)?)?(?:$|[ Z+-]))|(?<=\d[ T])24$"
    r"|(?<=^\d{8})24(?=(?:00){0,2}$)"
)
QUARTER = re.compile(r"^(\d{4})[ -]?Q([1-4])$")  # which is its first month
SERIAL = 25_569  # 1970-01-01, in the days of spreadsheets


@dataclass
class Clock:
    """Reads the time from one column or several; remembers whether times are dates, and how."""

    columns: tuple[str, ...]
    calendar: bool | None = None
    format: str | None = None  # of dates, as in strptime; ISO; None: not known yet
    hint: str = ""  # the format to take where several fit
    zoned: bool | None = None  # whether times have a zone
    known: dict[Any, float] = field(default_factory=dict)  # from texts to times

    def __call__(self, batch: Batch, missing: Missing) -> Array:
        """Seconds since 1970 in UTC, or the numbers as given; NaN where the time is missing."""
        cells: list[Any] = [batch.cells[c] for c in self.columns]
        if len(cells) == 1:
            return self._single(batch, cells[0], missing)
        rows = zip(*(c.tolist() if isinstance(c, np.ndarray) else c for c in cells), strict=True)
        return self._joined(batch, list(rows), missing)

    def _single(self, batch: Batch, cells: Any, missing: Missing) -> Array:
        if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
            self.calendar = True
            micro = cells.astype("datetime64[us]")
            return np.where(np.isnat(micro), np.nan, micro.astype(np.int64) / 1e6)
        listed = cells.tolist() if isinstance(cells, np.ndarray) else cells
        if self.calendar is None or (self.calendar and self.format is None):
            self._find(batch, [c for c in listed if not (c is None or c in missing.texts)])
        known = self.known
        times = [known.get(cell) for cell in listed]  # most texts have been read before
        for i in [i for i, time in enumerate(times) if time is None]:
            times[i] = known.get(listed[i])  # by now, perhaps
            if times[i] is None:
                gone = missing.has(listed[i])
                times[i] = np.nan if gone else self._read(batch, i, listed[i])
        return np.array(times, np.float64)

    def _joined(self, batch: Batch, rows: list[tuple[Any, ...]], missing: Missing) -> Array:
        """Year, month, day, ... as numbers; or a date and a time of day, as one text."""
        times, texts = np.full(len(rows), np.nan), [""] * len(rows)
        for i, row in enumerate(rows):
            time = self.known.get(row)
            if time is None and not any(map(missing.has, row)):
                if all(map(is_number, row)):
                    time = self._keep(row, self._part(batch, i, row))
                else:
                    texts[i] = " ".join(str(cell).strip() for cell in row)
            times[i] = np.nan if time is None else time
        self.calendar = True
        if any(texts):
            times = np.where(np.isnan(times), self._single(batch, texts, missing), times)
        return times

    def _wrong(self, batch: Batch, i: int, found: str, right: str) -> InputError:
        return batch.wrong(i, ",".join(self.columns), found, right)

    def _part(self, batch: Batch, i: int, row: tuple[Any, ...]) -> float:
        """Seconds since 1970; a year alone, or with a month, begins on its first day."""
        try:
            parts = [float(part) for part in row]
            if parts[0] >= 1e7:  # a date as one number
                parts[:1] = [parts[0] // 10_000, parts[0] // 100 % 100, parts[0] % 100]
            if len(parts) > len(PARTS) or not all(part.is_integer() for part in parts):
                raise ValueError
            late = len(parts) > 3 and parts[3] == 24 and not any(parts[4:])
            parts[3:4] = [0.0] if late else parts[3:4]
            whole = datetime(*map(int, parts + [1] * (3 - len(parts))))  # type: ignore[arg-type]
            return _seconds(whole) + 86400 * late
        except (ValueError, TypeError, OverflowError):
            right = f"use {', '.join(PARTS[: len(row)])}, or a date and a time"
            found = f"is {show(' '.join(map(str, row)))}"
            raise self._wrong(batch, i, found, right) from None

    def _find(self, batch: Batch, cells: list[Any]) -> None:
        """Whether times are dates, and in which form, from the first block that has any."""
        if not cells:
            return
        if self.format is not None:  # as it was told
            self.calendar = True
            return
        if self.calendar is None and is_number(cells[0]):
            self.format = compact(cells) or since_1970(cells, self.hint)
            self.calendar = self.format is not None
            if self.format is None and (day := serial_day(cells)) is not None:
                found = f"is {show(cells[0])}: a spreadsheet's day, {day}, or a number of seconds"
                right = "write times as dates there, or give --set time_format=s"
                raise self._wrong(batch, 0, found, right)
            return
        self.calendar = True
        texts = [_text(c) for c in cells if isinstance(c, str)]
        try:
            self.format = form_of(texts, self.hint) if texts else ISO
        except InputError as error:
            raise self._wrong(batch, 0, error.found, error.right) from None

    def _read(self, batch: Batch, i: int, cell: Any) -> float:
        try:
            time = self._moment(cell) if self.calendar else _float(cell)
        except _ZoneError:
            have, others = ("no", "have one") if self.zoned else ("a", "have none")
            found = f"is {show(cell)}, with {have} time zone, but earlier times {others}"
            raise self._wrong(batch, i, found, "give all of them one") from None
        except (ValueError, TypeError, OverflowError):
            time = np.inf
        if not abs(time) <= LATEST:
            wanted = "a number"
            if self.calendar:
                wanted = f"a time such as {as_written(self.format)}, or give --set time_format=.."
            raise self._wrong(batch, i, f"is {show(cell)}", f"use {wanted}")
        return time

    def _moment(self, cell: Any) -> float:
        """Seconds since 1970; a time without a zone is taken as UTC, so that no hour is lost."""
        if isinstance(cell, datetime):
            return self._zoned(cell)
        if self.format in SINCE_1970 and is_number(cell):
            time = _float(cell) / SINCE_1970[self.format]
        else:
            text = _digits(cell) if self.format in COMPACT.values() else _text(cell)
            time = self._zoned(self._parsed(text))
        return self._keep(cell, time) if isinstance(cell, str) else time

    def _keep(self, cell: Any, time: float) -> float:
        if len(self.known) >= REMEMBERED:
            self.known.clear()
        self.known[cell] = time
        return time

    def _zoned(self, moment: datetime) -> float:
        """Seconds since 1970; all times have a zone, or none has: else nobody knows the others'."""
        zoned = moment.tzinfo is not None
        if self.zoned not in (None, zoned):
            raise _ZoneError
        self.zoned = zoned
        return _seconds(moment)

    def _parsed(self, text: str) -> datetime:
        if (early := _midnight(text)) != text:
            return self._parsed(early) + timedelta(days=1)
        if self.format in (None, ISO, *SINCE_1970):
            return datetime.fromisoformat(text)
        try:
            return datetime.strptime(text, str(self.format))
        except ValueError:
            return datetime.fromisoformat(text)  # cannot be taken for another form


def as_written(form: str | None) -> str:
    """A form in words, or by an example."""
    if form in SINCE_1970:
        return f"{form} since 1970"
    return "2026-03-01T12:00" if form in (ISO, None) else str(form)


class _ZoneError(Exception):
    """A time with a zone among others without, or the other way round."""


def form_of(texts: Sequence[str], hint: str = "") -> str:
    """The form of all these dates: ISO if they are, else the one that fits them."""
    some = list(dict.fromkeys(map(_midnight, texts)))
    if _fits(ISO, some[0]) and all(_fits(ISO, text) for text in some):
        return ISO
    fitting = [f for f in FORMATS if all(_fits(f, text) for text in some)]
    if not fitting:  # a line of totals, say: the form of the others, so that it is named
        some = _alike(some[:FEW])
        fitting = [f for f in FORMATS if some and all(_fits(f, text) for text in some)]
    if hint in fitting:
        return hint
    # Day or month first is never clear from dates such as 05/05: later ones would differ.
    readings = {
        (_day_first(f), *(datetime.strptime(t, f) for t in some)): f for f in reversed(fitting)
    }
    if len(readings) > 1:
        (_, first, *_), one = next(iter(readings.items()))
        (_, other, *_), two = list(readings.items())[-1]
        both = f"{first:%d %B %Y} ({one}) or {other:%d %B %Y} ({two})"
        right = f"say which with --set 'time_format={one}' or --set 'time_format={two}'"
        raise InputError("", f"is {show(some[0])}, which can be {both}", right)
    return next(iter(readings.values()), ISO)


def _day_first(form: str) -> bool | None:
    """Whether the day comes before the month; None if the month has a name or the year is first."""
    clear = "%m" not in form or form.startswith("%Y")
    return None if clear else form.find("%d") < form.find("%m")


def _alike(texts: list[str]) -> list[str]:
    """Those texts that one form fits, if they are most of them."""
    found = max(([t for t in texts if _fits(f, t)] for f in (ISO, *FORMATS)), key=len)
    return found if 2 * len(found) > len(texts) else []


def _fits(form: str, text: str) -> bool:
    try:
        datetime.fromisoformat(text) if form == ISO else datetime.strptime(text, form)
    except ValueError:
        return False
    return True


def compact(cells: Sequence[Any]) -> str | None:
    """The form of dates that are written as one number, or None if these are plain numbers."""
    texts = {_midnight(_digits(cell)) for cell in cells}
    form = COMPACT.get(len(next(iter(texts))))
    if form is None or {len(text) for text in texts} != {len(next(iter(texts)))}:
        return None
    dates = all(t.isdecimal() and int(t[:4]) in YEARS and _fits(form, t) for t in texts)
    return form if dates else None


def since_1970(cells: Sequence[Any], hint: str = "") -> str | None:
    """The unit of numbers that count from 1970, if it is clear: all are of 2000 to 2100.

    Seconds are not taken for granted: they are used as numbers, with the same result.

    >>> since_1970(["1711756800000"]), since_1970(["1711756800"]), since_1970(["1711756800"], "s")
    ('ms', None, 's')
    """
    if hint in SINCE_1970:
        return hint
    units = ("ms", "us", "ns")
    return next((unit for unit in units if _recent(cells, SINCE_1970[unit]) is not None), None)


def serial_day(cells: Sequence[Any]) -> str | None:
    """The first date, if these may be a spreadsheet's days with parts of a day, of 2000 to 2100.

    >>> serial_day(["45381.5", "45381.75"]), serial_day(["45381", "45382"]), serial_day(["0.5"])
    ('2024-03-30', None, None)
    """
    days = _recent(cells, 1 / 86_400, SERIAL)
    if days is None or (days == days.round()).all():
        return None
    return datetime.fromtimestamp((days[0] - SERIAL) * 86_400, UTC).date().isoformat()


def _recent(cells: Sequence[Any], unit: float, origin: float = 0) -> Array | None:
    """The numbers, if all of them are of 2000 to 2100: so many a second, from an origin."""
    try:
        values = np.array([_float(cell) for cell in cells])
    except (ValueError, TypeError, OverflowError):
        return None
    low, high = (unit * limit + origin for limit in EPOCH)
    return values if ((values >= low) & (values < high)).all() else None


def _float(cell: Any) -> float:
    """A time that is a number, with a point if it has decimals."""
    if isinstance(cell, str) and "_" in cell:
        raise ValueError(cell)
    return float(cell)


def _digits(cell: Any) -> str:
    """A whole number as its digits, whatever its type."""
    text = str(cell).strip()
    return text.removesuffix(".0") if isinstance(cell, float) else text


def _text(cell: Any) -> str:
    return QUARTER.sub(lambda q: f"{q[1]}-{3 * int(q[2]) - 2:02}", str(cell).strip())


def _midnight(text: str) -> str:
    """A day that ends at 24:00, as it begins."""
    return LAST.sub("00", text) if "24" in text else text


def _seconds(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

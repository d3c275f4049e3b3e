"""The same data in every form that people bring is the same table, to the bit."""

import bz2
import gzip
import io
import lzma
import zipfile
from datetime import datetime
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.extra import Extra
from helpers.mistakes import refused
from helpers.small_tables import ALONE, LONG
from psofed.errors import InputError
from psofed.streams.data import reading as tables
from psofed.streams.data import textfile
from psofed.streams.data.columns import Columns
from psofed.streams.data.textfile import Form
from psofed.streams.data.times import compact, form_of
from psofed.tables import fitting

pandas, openpyxl, pyarrow = Extra("pandas"), Extra("openpyxl"), Extra("pyarrow")
FIT = {"target": "y", "time": "t", "client": "who", "dim": 16, "width": 2.0, "step": 0.3,
       "compare": False}  # fmt: skip


@pytest.fixture(scope="module")
def frame():
    """Three clients, 60 hours: numbers, a text, gaps."""
    g = np.random.default_rng(4)
    times = pandas.date_range("2024-03-28", periods=60, freq="h")
    parts = []
    for who in ("n10", "n2", "Zürich"):
        rows = pandas.DataFrame({"t": times, "who": who, "a": g.normal(size=60).round(3),
                                 "b": g.normal(5, 100, 60).round(2)})  # fmt: skip
        rows["wind"] = g.choice(list("NESW"), 60)
        rows["y"] = (np.sin(rows.a) + 0.1 * g.normal(size=60)).round(4)
        rows.loc[g.random(60) < 0.1, "b"] = np.nan
        parts.append(rows)
    return pandas.concat(parts, ignore_index=True).sort_values(["t", "who"], ignore_index=True)


def german(frame, path, encoding="utf-8"):
    frame = frame.assign(t=frame.t.dt.strftime("%d.%m.%Y %H:%M"))
    frame.to_csv(path, index=False, sep=";", decimal=",", encoding=encoding)


def american(frame, path):
    frame.assign(t=frame.t.dt.strftime("%m/%d/%Y %I:%M %p")).to_csv(path, index=False)


def packed(pack):
    return lambda frame, path: path.write_bytes(pack(frame.to_csv(index=False).encode()))


def zipped(data):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/._t.csv", "")
        archive.writestr("data/t.csv", data)
    return made.getvalue()


def changed(change):
    """The lines of the file, some of them changed or more."""
    return lambda frame, path: path.write_text("".join(
        line + "\n" for line in change(frame.to_csv(index=False).splitlines())), "utf-8")  # fmt: skip


def late(frame, path):
    """Midnight as the end of the day before."""
    before = (frame.t - pandas.Timedelta(days=1)).dt.strftime("%Y-%m-%d 24:00")
    times = frame.t.dt.strftime("%Y-%m-%d %H:%M").where(frame.t.dt.hour > 0, before)
    frame.assign(t=times).to_csv(path, index=False)


def report(frame, path):
    """A title, a row of units, and numbers that are texts with a comma."""
    texts = frame.assign(a=frame.a.map("{:.3f}".format).str.replace(".", ","))
    units = pandas.DataFrame([["", "", "degC", "hPa", "", "ppm"]], columns=frame.columns)
    whole = pandas.concat([units, texts.astype(object)])
    whole.to_excel(path, index=False, startrow=2)
    book = openpyxl.load_workbook(path)
    book.active["A1"] = "Report of March"
    book.save(path)


def hive(frame, path):
    for who, rows in frame.groupby("who"):
        (path / f"who={quote(who)}").mkdir(parents=True)
        for half in range(2):
            part = rows[half::2].drop(columns="who")
            part.to_parquet(path / f"who={quote(who)}" / f"part{half}.parquet", index=False)


WRITERS = {
    "descending.csv": lambda f, p: f[::-1].to_csv(p, index=False),
    "shuffled.csv": lambda f, p: f.sample(frac=1, random_state=1).to_csv(p, index=False),
    "with_index.csv": lambda f, p: f.to_csv(p),
    "semicolons.csv": german,
    "american.csv": american,
    "utf16.csv": lambda f, p: f.to_csv(p, index=False, encoding="utf-16"),
    "bom.csv": lambda f, p: f.to_csv(p, index=False, encoding="utf-8-sig"),
    "latin1.csv": lambda f, p: german(f, p, "latin-1"),
    "tabs.tsv": lambda f, p: f.to_csv(p, index=False, sep="\t"),
    "packed.csv.gz": packed(gzip.compress),
    "packed.csv.bz2": packed(bz2.compress),
    "packed.csv.xz": packed(lzma.compress),
    "packed.zip": packed(zipped),
    "excel.csv": changed(lambda lines: ["sep=,", *lines]),
    "comments.csv": changed(lambda rows: ["# by", "#, version, 2, 1", *rows[:9], "#", *rows[9:]]),
    "hash.csv": changed(lambda lines: ["# made by a logger", "# " + lines[0], *lines[1:]]),
    "title.csv": changed(lambda lines: ["Report of March", "", "Place,Berlin", *lines]),
    "padded.csv": changed(lambda lines: ["Report of March,,,,,", ",,,,,", *lines]),
    "units.csv": changed(lambda lines: [lines[0], "UTC,,degC,hPa,,ppm", *lines[1:]]),
    "midnight.csv": late,
    "n-a.csv": lambda f, p: f.to_csv(p, index=False, na_rep="n/a"),
    "dashes.csv": lambda f, p: f.to_csv(p, index=False, na_rep="-"),
    "errors.csv": lambda f, p: f.to_csv(p, index=False, na_rep="#N/A"),
    "report.xlsx": report,
    "plain.feather": lambda f, p: f.to_feather(p),
    "folders": hive,
    "markers.csv": lambda f, p: f.fillna({"b": -999.0}).to_csv(p, index=False),
    "compact.csv": lambda f, p: f.assign(t=f.t.dt.strftime("%Y%m%d%H%M")).to_csv(p, index=False),
    "sheet.xlsx": lambda f, p: f.to_excel(p, index=False),
    "plain.parquet": lambda f, p: f.to_parquet(p, index=False),
    "index.parquet": lambda f, p: f.sample(frac=1, random_state=2).to_parquet(p),
}
NEEDS = {".xlsx": "openpyxl", ".parquet": "pyarrow", ".feather": "pyarrow", "": "pyarrow"}


def same(plain, other, name):
    """The same rows of the same clients, and the same model."""
    assert (other.model.own == plain.model.own).all(), name
    a, b = plain.table, other.table
    assert a.clients == b.clients
    assert (a.columns.inputs, a.ticks) == (b.columns.inputs, b.ticks)
    for k in range(len(a.clients)):
        for one, two in zip(values(a, k), values(b, k), strict=True):
            np.testing.assert_array_equal(one, two, name)


def values(table, k):
    """The columns of a client's rows: numbers, and texts."""
    rows, width = np.concatenate([rows for rows, _ in table.read(k)]), 2 + len(table.numeric)
    yield rows[:, :width]
    for codes, column in zip(table.categories.values(), rows[:, width:].T, strict=True):
        yield np.array(list(codes.known))[column.astype(int)]


def test_every_way_to_write_a_table_gives_the_same_model_to_the_bit(frame, tmp_path):
    frame.to_csv(tmp_path / "ascending.csv", index=False)
    plain = fitting.fit_table(tmp_path / "ascending.csv", **FIT)
    assert plain.table.clients == ["Zürich", "n2", "n10"]
    for name, write in WRITERS.items():
        path = tmp_path / name
        pytest.importorskip(NEEDS.get(path.suffix, "numpy"))
        write(frame, path)
        markers = {"markers": ("-999",)} if name.startswith("markers") else {}
        other = fitting.fit_table(path, **FIT, **markers)
        same(plain, other, name)
        assert other.scores.error(0, "frozen") == plain.scores.error(0, "frozen"), name


class Relation:
    """As DuckDB gives it: nothing but a stream of Arrow, as often as it is asked for."""

    def __init__(self, table):
        self.table, self.columns = table, table.column_names

    def __arrow_c_stream__(self, schema=None):
        return self.table.__arrow_c_stream__(schema)


def test_every_frame_gives_the_same_model_to_the_bit(frame):
    plain = fitting.fit_table(frame, **FIT)
    polars = pytest.importorskip("polars")
    others = {
        "polars": polars.from_pandas(frame),
        "lazy": polars.from_pandas(frame).lazy(),
        "arrow": pyarrow.Table.from_pandas(frame, preserve_index=False),
        "a stream": Relation(pyarrow.Table.from_pandas(frame, preserve_index=False)),
        "a time index": frame.set_index("t"),
        "client and time": frame.set_index(["who", "t"]),
        "a zone": frame.assign(t=frame.t.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")),
        "texts": frame.assign(t=frame.t.astype(str)),
        "shuffled": frame.sample(frac=1, random_state=3),
        "new types": frame.convert_dtypes(),
    }
    for name, other in others.items():
        same(plain, fitting.fit_table(other, **FIT), name)
    marked = fitting.fit_table(frame.fillna({"b": -999.0}), **FIT, markers=("-999",))
    same(plain, marked, "marked")
    unnamed = fitting.fit_table(frame.set_index("t").rename_axis(None), **FIT | {"time": "index"})
    same(plain, unnamed, "unnamed")


def test_the_form_is_said_and_a_marker_that_matches_nothing_is_warned_of(frame, tmp_path):
    german(frame, tmp_path / "t.csv")
    table = tables.read(tmp_path / "t.csv", Columns("y", ("t",), "who", markers=("-999", "-1")))
    assert table.notes == [
        "cells separated by semicolons, decimals after a comma",
        "times read as %d.%m.%Y %H:%M",
        "WARNING: marker -999 matched no cell",
        "WARNING: marker -1 matched no cell",
    ]
    frame.fillna({"b": -999.0}).to_csv(tmp_path / "t.csv", index=False)
    table = tables.read(tmp_path / "t.csv", Columns("y", ("t",), "who", markers=("-999",)))
    assert table.notes == [f"marker -999 matched {int(frame.b.isna().sum())} cells"]


def write(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("t,y\n01/02/2024,1\n", r"row 2: .* can be 02 January 2024 .* or 01 February 2024"),
        ("t;y\n1;1,234\n", r"row 2: has '1,234': '1,234' can be 1.234 or 1234"),
        ("t;y\n1;1,25\n2;2.5\n", r"row 2: has '1,25' and '2.5'"),
        ("t;x,y\n1;2,3\n", "row 1: can be cut by commas or by semicolons"),
        ("t,y\n31/12/2024,1\n30/12/2024,2\nTotal,3\n", r"row 4: column 't' is 'Total'"),
        ("t,y\n31/12/2024,1\n12/31/2024,1\n", r"row 2: column 't' is '31/12/2024'"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused_with_both(tmp_path, text, found):
    with pytest.raises(InputError, match=found):
        tables.read(write(tmp_path, text), ALONE)


def test_a_first_block_of_one_day_does_not_decide_between_day_and_month(tmp_path):
    minutes = [f"05/05/2024 {n // 60:02d}:{n % 60:02d},{n}" for n in range(200)]
    path = write(tmp_path, "\n".join(["t,y", *minutes]) + "\n")
    with pytest.raises(InputError, match=r"%m/%d/%Y %H:%M\) or .*%d/%m/%Y %H:%M\); say which"):
        tables.read(path, ALONE)
    assert tables.read(path, ALONE, form=Form(time_format="%d/%m/%Y %H:%M")).ticks.length == 60


def test_options_decide_what_is_not_clear(tmp_path):
    path = write(tmp_path, "t,y\n01/02/2024,1\n02/02/2024,2\n")
    forms = (Form(time_format=form) for form in ("%d/%m/%Y", "%m/%d/%Y"))
    read = (tables.read(path, ALONE, form=form) for form in forms)
    assert [str(table.ticks) for table in read] == ["86400 s", "1 month"]
    path = write(tmp_path, "t;y\n1;1,234\n2;5,678\n")
    for sign, value in ((",", 1.234), (".", 1234.0)):
        table = tables.read(path, ALONE, form=Form(decimal=sign))
        assert next(table.read(0))[0][0, 1] == value
    path = write(tmp_path, "t;y\n1 of March 2024;7\n")
    with pytest.raises(InputError, match="or give --set time_format"):
        tables.read(path, ALONE)
    table = tables.read(path, ALONE, form=Form(time_format="%d of %B %Y"))
    assert table.ticks.start == 1709251200.0


def test_digits_in_groups_are_numbers_and_what_is_no_table_is_refused(tmp_path):
    for text in ("t;y\n1;1.234,5\n2;7\n", 't,y\n1,"1,234.5"\n2,7\n'):
        table = tables.read(write(tmp_path, text), ALONE)
        assert next(table.read(0))[0][:, 1].tolist() == [1234.5, 7]
    frame = pandas.DataFrame({"t": [1, 2], "y": [1.0, 2.0], "c": pandas.Categorical(["a", "b"])})
    assert tables.read(frame, ALONE).clients == ["all"]
    for other in ([1, 2], {"t": [1]}, frame.y, None):
        with pytest.raises(InputError, match="give a file, a folder or a data frame"):
            tables.read(other, ALONE)


test_a_form_that_makes_no_sense_is_refused = refused({
    "sep is ';;'": lambda: Form(sep=";;"),
    "decimal is 'x'": lambda: Form(decimal="x"),
    "encoding is 'klingon'": lambda: Form(encoding="klingon"),
    "time_format is 'd.m.Y'": lambda: Form(time_format="d.m.Y"),
})  # fmt: skip


@given(st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)),
       st.sampled_from(["%d.%m.%Y %H:%M", "%m/%d/%Y %I:%M %p", "%Y/%m/%d %H:%M:%S", "%d %b %Y"]))  # fmt: skip
def test_a_date_is_read_as_it_was_written_or_refused(moment, form):
    text = moment.strftime(form)
    try:
        found = form_of([text])
    except InputError:
        assert "/" in text
        assert moment.day <= 12
        return
    day = pandas.to_datetime(text, format=found)
    assert (day.year, day.month, day.day) == (moment.year, moment.month, moment.day)


@given(st.lists(st.integers(0, 2**33), min_size=1, max_size=5))
def test_seconds_since_1970_are_never_taken_for_dates(times):
    assert compact([10**9 + t % (8 * 10**8) for t in times]) is None


@pytest.mark.parametrize("name", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_unicode_is_told_by_its_bytes(name):
    assert textfile.encoding_of("Zeit;Größe\n1;2\n".encode(name)) == name


ROWS = "".join(f"2024-03-{d:02d},n1,{d}.5,{d}\n" for d in range(1, 29))


@pytest.mark.parametrize(
    ("change", "row", "found"),
    [
        (lambda t: t.replace(".5,", ".5%,"), 2, r"'a' is '1.5%', a number with other signs"),
        (lambda t: t.replace(",n1,", ",n1,$ "), 2, r"a number with other signs"),
        (lambda t: t.replace(",n1,", ",n1,<"), 2, r"'a' is '<1.5', a number with other signs"),
        (lambda t: t.replace(".5,", " 000.5,"), 2, r"'1 000.5', a number with other signs"),
        (lambda t: t.replace("15.5,", "1_0,"), 16, r"'a' is '1_0', not a number"),
        (lambda t: t.replace("15.5,", "(15.5),"), 16, r"'a' is '\(15.5\)', not a number"),
        (lambda t: t.replace("03-15,", "03-15T00:00+01:00,"), 16, "with a time zone, but earlier"),
        (lambda t: "t,who,a\n" + t.partition("\n")[2], 2, "has 4 cells, but the header has 3"),
        (lambda t: "Report,,,\n" + t.partition("\n")[2], 1, "row 1 is taken for the header"),
        (lambda t: '[{"t": 1}]', 1, "is JSON"),
        (lambda t: "<!DOCTYPE html>", 1, "is HTML"),
        (lambda t: "PK\x03\x04" + t, 1, "is a zip archive"),
        (lambda t: bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600), 1,
         r"is an old Excel file \(.xls\).* save it as .csv"),
    ],
)  # fmt: skip
def test_what_offices_export_is_refused_with_its_row_and_what_is_right(
    tmp_path, change, row, found
):
    path = write(tmp_path, change("t,who,a,y\n" + ROWS))
    with pytest.raises(InputError, match=found) as error:
        tables.read(path, LONG)
    assert f"row {row}:" in str(error.value)


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(textfile, "LONGEST", 5000)
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"t,who,a,y\n" + bytes(10**7).replace(b"\0", b"1")))
    with pytest.raises(InputError, match="has a line of 5,000 characters or more"):
        tables.read(path, LONG)


def test_codes_with_underscores_are_categories_and_never_numbers(tmp_path):
    path = write(tmp_path, "t,who,a,y\n" + ROWS.replace(".5,", "_0,"))
    assert "a" not in tables.read(path, LONG).numeric


def test_dressed_up_numbers_may_be_named_as_categories(tmp_path):
    path = write(tmp_path, "t,who,a,y\n" + ROWS.replace(".5,", "%,"))
    columns = Columns(target="y", time=("t",), client="who", categorical=("a",))
    assert len(tables.read(path, columns).categories["a"].known) == 28


def test_line_breaks_in_names_and_the_typographic_minus_are_read(tmp_path):
    path = write(tmp_path, 't,who,"a\n(degC)",y\n' + ROWS.replace(",n1,", ",n1,\u2212"))
    table = tables.read(path, LONG)
    assert table.numeric == ("a (degC)",)
    assert table.findings[2].high == -1.5


@pytest.mark.parametrize(("unit", "scale"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_numbers_since_1970_are_the_dates_that_they_count(frame, tmp_path, unit, scale):
    numbers = [round(t.timestamp()) * scale for t in frame.t]
    path = tmp_path / "table.csv"
    frame.assign(t=numbers).to_csv(path, index=False)
    form = Form(time_format="s") if unit == "s" else Form()
    found, expected = (tables.read(x, LONG, form=form) for x in (path, frame))
    assert found.ticks.dates
    assert f"times read as {unit} since 1970" in found.notes
    assert np.array_equal(found.begin, expected.begin)
    assert found.ticks == expected.ticks


def test_a_model_of_dates_that_are_numbers_predicts_from_both(frame, tmp_path):
    counted = frame.assign(t=[round(t.timestamp()) for t in frame.t])
    done = fitting.fit_table(counted, **FIT, calendar=("hour",), time_format="s")
    assert np.array_equal(done.predict(counted), fitting.fit_table(
        frame, **FIT, calendar=("hour",)).predict(frame), equal_nan=True)  # fmt: skip


def test_one_wrong_time_that_leaves_nothing_to_learn_from_is_refused(frame):
    wrong = frame.assign(t=[*frame.t[:-1], pandas.Timestamp("2099-01-01")])
    with pytest.raises(InputError, match=r"rounds have no label .* look for a wrong time"):
        fitting.fit_table(wrong, **FIT)


def test_days_of_a_spreadsheet_are_not_taken_for_seconds(tmp_path):
    rows = "".join(f"{45381 + i / 24:.6f},n1,{i}.5,{i}\n" for i in range(48))
    path = write(tmp_path, "t,who,a,y\n" + rows)
    with pytest.raises(InputError, match=r"row 2: column 't' is .* day, 2024-03-30, or a num"):
        tables.read(path, LONG)
    told = tables.read(path, LONG, form=Form(time_format="s"))
    assert told.rounds == 48

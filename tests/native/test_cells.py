"""What compiled code reads of CSV: the cells of the csv module, and the bits that Python gives numbers."""

import csv
import io
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from helpers.plain import both
from psofed.core import native
from psofed.errors import InputError
from psofed.streams.data.columns import Batch, Missing, numbers
from psofed.streams.data.textfile import columns

pytestmark = pytest.mark.skipif(not native.available(), reason="nothing is compiled here")
written = st.one_of(
    st.floats(-1e30, 1e30).map(repr),
    st.decimals(-(10**9), 10**9, places=4).map(str),
    st.integers(-(10**18), 10**18).map(str),
    st.from_regex(r"[+-]?[0-9]{0,17}\.?[0-9]{0,25}([eE][+-]?[0-9]{1,4})?", fullmatch=True),
    st.sampled_from(["", "NA", "-999", "-999.0", " 7 ", "1,234.5", "1,234,5", "\u2212 3", "\u0663",
                     "1_000", "inf", "nan", "1e", "e5", ".", "-", "+.5", "5.", "0x10", "a\nb", "-0"]),
)  # fmt: skip


def read(cells, decimal):
    missing = Missing(["-999"])
    try:
        found = numbers(
            Batch("f", range(2, 2 + len(cells)), {"c": cells}, None, decimal), "c", missing
        )
    except InputError as error:
        return str(error)
    return found.view(np.int64).tolist(), missing.found


@given(st.lists(written, min_size=1, max_size=8).map(tuple), st.sampled_from([".", ","]))
@example(("9007199254740993", "123456789012345e22", "0.1", "1e-23"), ".")
@example(("1,5", "2", "NA"), ",")
def test_a_column_has_the_numbers_or_the_error_that_it_has_without_compiled_code(cells, decimal):
    found, plain = both(read, cells, decimal)
    assert found == plain


@given(st.floats(-1e29, 1e29))
def test_numbers_are_the_nearest_to_what_is_written(value):
    text = f"{value:.7g}"
    (found,) = numbers(Batch("f", [2], {"c": (text,)}), "c", Missing())
    assert found == float(text)
    assert math.copysign(1, found) == math.copysign(1, float(text))


signs = st.text(st.sampled_from('ab1"",,;\n\n\r é\udc80\0'), max_size=24)
plain = st.lists(st.lists(st.sampled_from(["1.5", "NA", '"a,b"', "", '""', "x y", "é"]),
                          min_size=2, max_size=2).map(",".join), max_size=6)  # fmt: skip


def by_csv(lines, sep):
    return list(csv.reader(lines, delimiter=sep))


@given(st.one_of(signs, plain.map("\n".join), plain.map("\r\n".join)), st.sampled_from(",;"),
       st.integers(1, 3))  # fmt: skip
@example("1,2\r\n3,4\r\n", ",", 2)
@example('"a,b",2\n"",4', ",", 2)
@example('1,2\n3,"4\n', ",", 2)
@example("1,2\r", ",", 2)
@example('a"b,2\n', ",", 2)
@example('"a"b,2\n', ",", 2)
@example('"a""b",2\n', ",", 2)
@example("\n", ",", 1)
def test_columns_are_those_of_the_csv_module_or_none(text, sep, width):
    lines = list(io.StringIO(text, newline=""))
    found = columns(lines, sep, width) if lines else None
    if found is not None:
        assert [list(row) for row in zip(*found, strict=True)] == by_csv(lines, sep)
        assert all(len(column) == len(lines) for column in found)


@given(plain, st.sampled_from(["\n", "\r\n"]))
def test_usual_lines_are_read_by_column(rows, end):
    lines = [row + end for row in rows]
    if lines:
        found = columns(lines, ",", 2)
        assert found is not None
        assert [list(row) for row in zip(*found, strict=True)] == by_csv(lines, ",")


def test_cells_that_the_csv_module_finds_too_long_are_left_to_it():
    assert columns(["1," + "9" * csv.field_size_limit() + "\n"], ",", 2) is not None
    assert columns(["1," + "9" * (csv.field_size_limit() + 1) + "\n"], ",", 2) is None

"""CSV that is read by column has the cells that the csv module finds, or is left to it."""

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from psofed.core import native
from psofed.streams.data.textfile import columns

pytestmark = pytest.mark.skipif(not native.available(), reason="nothing is compiled here")
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

"""Plain numbers in cells are read by compiled code, and have the bits that Python gives them."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from helpers.plain import uncompiled
from psofed.core import native
from psofed.errors import InputError
from psofed.streams.data.columns import Batch, Missing, numbers

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
    found = read(cells, decimal)
    with uncompiled():
        assert found == read(cells, decimal)


@given(st.floats(-1e29, 1e29))
def test_numbers_are_the_nearest_to_what_is_written(value):
    text = f"{value:.7g}"
    (found,) = numbers(Batch("f", [2], {"c": (text,)}), "c", Missing())
    assert found == float(text)
    assert math.copysign(1, found) == math.copysign(1, float(text))

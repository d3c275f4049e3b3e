"""Tables within a width: nothing is cut, and what is left out is said."""

from hypothesis import given
from hypothesis import strategies as st

from psofed.report.files import Grid

CELL = st.text("abc 0123.", max_size=12).map(str.strip)


@st.composite
def grids(draw):
    columns = draw(st.integers(2, 8))
    row = st.lists(CELL, min_size=columns, max_size=columns)
    rows = draw(st.lists(row, min_size=2, max_size=6))
    rows[0] = [f"head{i}" for i in range(columns)]
    least = draw(st.permutations(range(1, columns)))[: draw(st.integers(0, columns - 1))]
    left = (0, columns - 1) if draw(st.booleans()) else (0,)
    return Grid(rows, left, tuple(least), "all.csv")


@given(grids(), st.integers(40, 120))
def test_no_line_of_the_table_is_wider_than_the_terminal(grid, width):
    for line in grid.within(width).splitlines():
        shown = set(grid.rows[0]) & set(grid.within(width).splitlines()[0].split())
        most = {grid.rows[0][i] for i in grid.least} & shown
        assert len(line) <= width or line.startswith("Not shown: ") or not most


@given(grids(), st.integers(10, 150))
def test_a_column_is_shown_or_named_as_left_out(grid, width):
    text = grid.within(width)
    for head in grid.rows[0]:
        assert head in text
    if "Not shown" in text:
        assert text.endswith("; see all.csv.")


@given(grids())
def test_a_wide_screen_and_a_file_show_all(grid):
    assert grid.within(10_000) == str(grid)


def test_the_least_important_columns_go_first():
    grid = Grid([["a", "bb", "cc"], ["x", "1111111", "2222222"]], least=(1, 2))
    assert "cc" in grid.within(12).splitlines()[0]
    assert "bb" not in grid.within(12).splitlines()[0]


def test_words_in_the_last_column_are_wrapped_before_anything_is_left_out():
    grid = Grid([["a", "why"], ["x", "one two three four five six seven"]], left=(0, 1), least=(1,))
    assert grid.within(25) == (
        "a  why\n---------------------\nx  one two three four\n   five six seven"
    )

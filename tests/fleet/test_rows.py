"""Rows by column on a device: of wrong times, within a tick, with and without a label."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed.fleet.queries import Questions
from psofed.fleet.samples import MalformedError, NamedCells, lines
from psofed.streams.data.columns import Columns
from psofed.streams.data.recipe import Recipe
from psofed.streams.table import Live

NOW = datetime.now(UTC).replace(microsecond=0)
DAY, SPREAD = 86_400.0, 20.0


def numbered(**more):
    """A client whose times are numbers; input a, and what a was two ticks ago if `lags` say so."""
    columns = Columns("y", ("t",), inputs=("a",), **more)
    return Live(Recipe(columns, {"a": (0.0, SPREAD), "y": (0.0, 1.0)}))


def dated(tick=3600.0):
    """A client whose times are dates; no row may be a day ahead."""
    scaling = {"a": (0.0, SPREAD), "y": (0.0, 1.0)}
    start = (NOW - timedelta(days=900)).timestamp()
    recipe = Recipe(Columns("y", ("t",), inputs=("a",)), scaling, {}, tick, start, calendar=True)
    return Live(recipe, ahead=DAY)


def fed(live, *rows):
    """For each row what is learned or asked, as text, or of which kind the skipped row is."""
    found = []
    for sample in lines([str(row).replace("'", '"') for row in rows], NamedCells(live)):
        bad = isinstance(sample, MalformedError)
        found.append(sample.kind if bad else f"{sample.x[0] * SPREAD:g} {sample.y}")
    return found


def row(time, a=None, y=None):
    given = {"t": time if isinstance(time, int | float) else time.isoformat(), "a": a, "y": y}
    return {name: value for name, value in given.items() if value is not None}


def test_a_row_dated_years_ahead_is_skipped_with_its_reason_and_the_next_one_is_learned():
    hours = [NOW + timedelta(hours=h) for h in (-3, -2, 40_000, -1, 20, 30)]
    found = fed(dated(), *(row(hour, i, 1) for i, hour in enumerate(hours)))
    assert found == ["0 1.0", "1 1.0", "from the future", "3 1.0", "4 1.0", "from the future"]


def test_a_machine_without_a_clock_skips_nothing(monkeypatch):
    monkeypatch.setattr("psofed.streams.data.live.wall_clock", lambda: 0.0)
    assert fed(dated(), row(NOW, 1, 1), row(NOW + timedelta(hours=1), 2, 1)) == ["1 1.0", "2 1.0"]


@pytest.mark.parametrize("first", [0, 2])
def test_numbered_rows_go_on_after_one_from_far_ahead_even_if_it_was_the_first(first):
    live, rows = numbered(), [row(t, t, 1) for t in range(8)]
    rows.insert(first, row(10**6, 50, 1))
    found = fed(live, *rows)
    lost = [i for i, what in enumerate(found) if what == "from before the last row"]
    assert lost == [first + 1, first + 2]
    assert found[-1] == "7 1.0"


def test_lags_are_of_the_rows_before_a_step_that_was_taken_back():
    live = numbered(lags=(2,))
    fed(live, *(row(t, t, 1) for t in (0, 1, 2, 3, 10**6, 4, 5, 6, 7)))
    assert (live(row(8, 8, 1))[0] * SPREAD).tolist() == [8, 6]


def test_a_gap_of_any_length_costs_no_row_and_one_row_from_before_it_takes_nothing_back():
    live = numbered()
    found = fed(live, row(0, 1, 1), row(5000, 2, 1), row(10, 3, 1), row(5001, 4, 1), row(20, 5, 1))
    assert found == ["1 1.0", "2 1.0", "from before the last row", "4 1.0", found[2]]


def test_a_question_with_other_inputs_does_not_lend_them_to_the_sample_of_its_tick():
    late = "from before the last row"
    asked = [row(0, 90), row(0, 10, 3), row(1, 10, 3), row(1, 90), row(1, y=3)]
    assert fed(numbered(), *asked) == ["90 None", "10 3.0", "10 3.0", "90 None", late]
    waits = [row(0, 10), row(0, 90), row(1, 20), row(0, 90, 3), row(0, y=4)]
    assert fed(numbered(), *waits) == ["10 None", "90 None", "20 None", late, "10 4.0"]


def test_what_if_leaves_no_trace():
    plain, asked = (numbered(lags=(1,)) for _ in range(2))
    ask = NamedCells(asked)
    for t in range(8):
        if t > 1:
            for time in (f'"t": {t}, ', f'"t": {t - 1}, ', ""):
                found = ask(f'{{{time}"a": 90, "ask": true}}')
                assert (found.what_if, found.y, found.x[0] * SPREAD) == (True, None, 90)
        found = [fed(live, row(t, t + 1, 2)) for live in (plain, asked)]
        assert found[0] == found[1]
    assert [live(row(9, 1))[0].tolist() for live in (plain, asked)] == [[0.05, 0.4]] * 2
    assert plain.asked.keys() == asked.asked.keys() == {9}


def test_rows_at_one_hertz_that_jitter_are_all_learned_and_one_that_is_sent_twice_once():
    times = [NOW - timedelta(seconds=60 - 1.001 * i - 0.45 * (i % 3)) for i in range(50)]
    found = fed(dated(1.0), *(row(time, 1, 1) for time in times))
    assert found == ["1 1.0"] * 50
    twice = [row(0, 1, 1), row(0, 1, 1), row(0.4, 1, 1), row(0.4, 2, 1)]
    assert fed(numbered(), *twice) == ["1 1.0", "the same row again", "1 1.0", "2 1.0"]


@pytest.mark.parametrize("label", ["nan", "NaN", "NA"])
def test_a_label_that_is_no_number_is_no_question(label):
    rows = [row(0, 1, label), row(0, y=4), row(1, 1)]
    assert fed(numbered(), *rows) == ["without a value of the target", "1 4.0", "1 None"]


def test_csv_with_an_empty_target_asks_and_a_clipped_input_is_named():
    read = NamedCells(numbered())
    header, asked, near, learned = map(read, ("t,a,y", "0,1,", "1,200,2", "2,-999,2"))
    assert (near.x.tolist(), near.jumps) == ([6.0], False)
    assert near.clipped == "a is 200: beyond 6 spreads"
    assert (header, asked.y, asked.clipped) == (None, None, "")
    assert learned.x.tolist() == [-6.0]
    assert (learned.clipped, learned.jumps) == ("a is -999: beyond 6 spreads", True)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("2026-01-01")
CELLS = PLAIN | st.lists(PLAIN, max_size=2) | st.dictionaries(st.text(), PLAIN, max_size=2)


@given(st.lists(st.dictionaries(st.sampled_from(["t", "a", "y", "z", "ask"]), CELLS), max_size=8))
def test_no_row_whatever_its_cells_are_ends_the_reading_of_those_after_it(rows):
    """Nor a question of another program: it is answered, or told what is wrong."""
    for live in (numbered(lags=(1,)), dated()):
        read = NamedCells(live)
        asked = Questions(Path(), lambda row, read=read: {"y": float(read.what_if(row)[0])})
        asked.close()
        for row in rows:
            assert len(list(lines([json.dumps(row)], read))) == 1
            found = asked._answered(json.dumps({"id": 1, "row": row}).encode())
            assert found.keys() in ({"id", "y"}, {"id", "error"})

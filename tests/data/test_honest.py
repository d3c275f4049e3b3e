"""Values that are not taken as they are: clipped, unknown, doubtful or not to be understood."""

import numpy as np
import pytest

from helpers.extra import Extra
from helpers.small_tables import ALONE, LONG, read, samples
from psofed.errors import InputError
from psofed.streams.data import reading as tables
from psofed.streams.data import recipe as recipes
from psofed.streams.data.columns import MOST_CATEGORIES, Columns
from psofed.streams.data.rounds import Rounds
from psofed.tables import fitting
from psofed.tables import model as models
from psofed.tables.export import portable

pandas = Extra("pandas")
FIT = {"target": "y", "time": "t", "client": "who", "dim": 16, "width": 2.0, "step": 0.3,
       "compare": False}  # fmt: skip


def made(rows=400, **columns):
    """Two clients, hourly; temperatures in Fahrenheit."""
    g, n = np.random.default_rng(1), np.arange(rows)
    frame = pandas.DataFrame({
        "t": np.repeat(pandas.date_range("2024-01-01", periods=rows // 2, freq="h"), 2),
        "who": np.tile(["p", "q"], rows // 2), "temp": g.normal(50, 10, rows).round(1),
        "wind": np.array(list("NESW"))[n % 4], "y": g.normal(size=rows).round(3),
    })  # fmt: skip
    return frame.assign(**columns)


def put(values, where, value):
    values = values.copy()
    values.iloc[where] = value
    return values


def test_a_few_extremes_in_the_warm_up_do_not_ruin_the_scaling():
    frame = made(2000)
    wild = frame.assign(temp=put(frame.temp, [20], 1e9))
    plain, other = (recipes.learn(tables.read(f, LONG), 500).scaling["temp"] for f in (frame, wild))
    assert other == pytest.approx(plain, rel=0.01)
    rain = frame.assign(temp=np.where(np.arange(2000) % 20, 0.0, 5.0))  # no error, but how it is
    assert recipes.learn(tables.read(rain, LONG), 1000).scaling["temp"][1] > 1


def test_what_is_clipped_is_counted_by_column_in_the_fit_and_in_predictions():
    frame = made()
    odd = frame.assign(temp=put(frame.temp, slice(-80, None), 290.0))
    done = fitting.fit_table(odd, **FIT)
    (line,) = [line for line in done.notes if "clipped" in line]
    assert line.startswith("WARNING: 80 values in 400 rows of 'temp' are outside -")
    model = fitting.fit_table(frame, **FIT).model
    with pytest.warns(UserWarning, match="400 values in 400 rows of 'temp' .* the same unit"):
        model.predict(frame.assign(temp=(frame.temp - 32) / 1.8 + 273.15))
    few = frame.assign(temp=put(frame.temp, [300], 290.0))
    assert any(
        note.startswith("1 values in 400 rows of 'temp'")
        for note in fitting.fit_table(few, **FIT).notes
    )


def test_an_input_that_grows_is_followed_and_one_that_jumps_is_clipped(tmp_path):
    frame, n = made(4000), np.arange(4000)
    grown = (frame.temp + np.maximum(n - 400, 0) / 4).round(1)  # by 90 spreads of the warm-up
    label = (grown / 10 + frame.y / 10).round(3)
    odd = frame.assign(temp=put(grown, n[1000::200], 1e6), y=label)
    done = fitting.fit_table(odd, **FIT)
    assert len([note for note in done.notes if "in 4,000 rows of 'temp'" in note]) == 1
    done.save(tmp_path / "m.psofed")
    found, good = models.load(tmp_path / "m.psofed").predict(odd), odd.temp < 1e6
    assert np.abs(found - label)[good].mean() < 0.5 < 0.02 * label.std()
    assert np.abs(found).max() < 2 * label.max()
    (clip,) = [e.clip for e in portable.entries(done.model.recipe) if e.column == "temp"]
    assert 6 * 2**3 < clip == done.model.recipe.far["temp"] < 6 * 2**6


def test_limits_are_those_of_one_row_after_the_other_with_missing_ones():
    g, first = np.random.default_rng(0), np.array([6.0, 12.0])
    values, far, beyond = g.standard_t(1, size=(600, 2)) * [2, 4], [6, 12], [0, 0]
    good, values[200:290, 1] = [np.nan, np.nan], np.arange(90)
    values[g.random(600) < 0.1, 0] = np.nan
    past, parts = recipes.Past(), np.split(values, [1, 2, 300])
    limits = [np.broadcast_to(past.limits(some, first), some.shape) for some in parts]
    for n, (row, limit) in enumerate(zip(values, np.vstack(limits), strict=True)):
        for j, size in enumerate(np.abs(row)):
            if size > far[j] and abs(row[j] - good[j]) <= 1:
                far[j], beyond[j] = 2 * far[j], 0
            assert limit[j] == far[j]
            good[j] = row[j] if size <= far[j] else good[j]
            beyond[j] += size > far[j]
            if far[j] < size <= 2 * far[j] and beyond[j] > max(0.01 * (n + 1), 10):
                far[j], beyond[j] = 2 * far[j], 0
    assert far == [48, 96]


def test_an_input_that_is_a_trend_is_never_clipped():
    frame, n = made(), np.arange(400) // 2
    done = fitting.fit_table(frame.assign(temp=n, y=n + frame.y), **FIT, inputs="temp")
    assert done.notes == []
    assert done.error < 0.01


def test_the_target_is_clipped_only_where_it_is_an_input():
    odd = made(y=put(made().y, slice(-9, None), 1e6))
    for lags, count in (((), 0), (1, 1)):
        done = fitting.fit_table(odd, **FIT, target_lags=lags)
        assert len([line for line in done.notes if "9 values in 400 rows of 'y'" in line]) == count


def test_texts_that_the_warm_up_did_not_have_are_counted():
    frame = made()
    odd = frame.assign(wind=np.where(np.arange(400) < 200, frame.wind, frame.wind + "2"))
    (line,) = [line for line in fitting.fit_table(odd, **FIT).notes if "wind" in line]
    assert line == ("WARNING: 200 values in 400 rows of 'wind' count for nothing: the warm-up had 4 texts,"
                    " and the table has 8")  # fmt: skip


def test_numbers_that_begin_with_texts_are_refused_with_both_readings(tmp_path):
    lines = [f"{n},{'OFF' if n < 5000 else n % 90},{n % 3}" for n in range(6000)]
    text = "\n".join(["t,a,y", *lines])
    with pytest.raises(
        InputError, match=r"column 'a' begins with texts such as OFF, but has 90 diff"
    ):
        read(tmp_path, text, ALONE)
    table = read(tmp_path, text, Columns("y", ("t",), markers=("OFF",)))
    assert table.numeric == ("a",)
    assert "marker OFF matched 5,000 cells" in table.notes
    table = read(tmp_path, text, Columns("y", ("t",), categorical=("a",)))
    assert len(table.categories["a"].known) == 91


@pytest.mark.parametrize("name", ["temp", "y"])
@pytest.mark.parametrize("marker", ["-9999", "999.9", "1e+06"])
def test_extremes_that_are_repeated_are_named_with_their_count(name, marker):
    frame = made()
    odd = frame.assign(**{name: put(frame[name], slice(50, 57), float(marker))})
    marker = f"{float(marker):.12g}"
    said = (f"WARNING: {name!r} is {marker} in 7 rows, far from its other values: if that means"
            f" missing, give --set markers={marker}")  # fmt: skip
    table = tables.read(odd, LONG)
    assert table.notes == [said]
    told = tables.read(odd, Columns("y", ("t",), "who", markers=(marker,)))
    assert told.notes == [f"marker {marker} matched 7 cells"]
    assert tables.read(frame, LONG).notes == []


def test_states_counts_and_saturated_sensors_are_not_doubted(tmp_path):
    lines = [f"{n},{n % 2},{min(n % 150, 99)},{5 * (n % 9 == 0)},{n % 3}" for n in range(600)]
    assert read(tmp_path, "\n".join(["t,a,b,c,y", *lines]), ALONE).notes == []


def test_a_column_with_too_many_texts_is_not_called_missing(tmp_path):
    lines = [f"{n},{'' if n % 100 == 0 else f'x{n}'},{n % 7},{n % 3}" for n in range(3000)]
    table = read(tmp_path, "\n".join(["t,note,a,y", *lines]), ALONE)
    (note,) = (f for f in table.findings if f.name == "note")
    assert note.why == f"it has more than {MOST_CATEGORIES:,} different texts"
    assert note.missing == pytest.approx(0.01)
    with pytest.raises(InputError, match=f"column 'note' has more than {MOST_CATEGORIES} diff"):
        tables.read(tmp_path / "table.csv", Columns("y", ("t",), missing={"note": "skip"}))


def test_a_row_that_has_nothing_to_hold_is_not_lost_by_the_rule_skip(tmp_path):
    rounds, _ = samples(read(tmp_path, "t,a,y\n0,,1\n1,,2\n2,3,3\n3,,4\n4,5,5", ALONE))
    assert rounds.drops.counts == {"with a missing value, and no earlier one to hold": 2}


def test_a_frame_without_rows_says_so():
    done = fitting.fit_table(made(), **FIT)
    for empty in (made()[:0], made()[:0].set_index("t")):
        with pytest.raises(InputError, match="has no rows"):
            fitting.fit_table(empty, **FIT)
        with pytest.raises(InputError, match="has no rows"):
            done.predict(empty)


def test_a_control_that_has_overflowed_has_diverged():
    from psofed.report import fits

    done = fitting.fit_table(made(), **FIT | {"step": 90.0})
    assert np.isinf(done.scores.error(1, "frozen"))
    grid = next(block for block in fits.blocks(done) if not isinstance(block, str))
    assert grid.rows[2][1:7] == ["diverged"] * 6
    assert np.isfinite(done.error), "a mix has other models than the one that has diverged"


def test_a_model_whose_own_weights_are_no_numbers_is_refused(tmp_path):
    from dataclasses import replace

    model = fitting.fit_table(made(), **FIT).model
    replace(model, own=np.full_like(model.own, np.nan)).save(tmp_path / "m.psofed")
    with pytest.raises(InputError, match="makes no sense"):
        models.load(tmp_path / "m.psofed")


def test_names_that_come_twice_are_told_apart(tmp_path):
    table = read(tmp_path, "t,a,a,y\n0,1,2,3\n1,2,4,5", ALONE)
    assert table.columns.inputs == ("a", "a (2)")
    assert table.notes == ["WARNING: column 'a' appears again; that is called 'a (2)'"]


def test_a_number_that_cannot_be_is_shown_as_it_is_written():
    with pytest.raises(InputError, match=r"'temp' is inf; use numbers up to 1e\+30"):
        tables.read(made(temp=put(made().temp, [3], np.inf)), LONG)


def test_a_number_stands_for_a_list_of_one():
    done = fitting.fit_table(made(), **FIT, target_lags=1, lags_of={"temp": np.int64(2)})
    assert done.recipe.names[-1] == "y[-1]"
    assert "temp[-2]" in done.recipe.names


def test_folders_that_are_not_read_are_named(tmp_path):
    for name in ("p.csv", "old/q.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("t,a,y\n0,1,2\n1,2,3\n")
    table = tables.read(tmp_path, ALONE)
    assert table.clients == ["p"]
    assert table.notes == ["WARNING: the folder 'old' within it is not read"]


def test_notes_of_several_passes_are_of_the_last():
    table = tables.read(made(temp=put(made().temp, [0, 1], 1e6)), LONG)
    rounds = Rounds(table, recipes.learn(table, 100))
    for _ in range(2):
        for _ in rounds.blocks():
            pass
        assert [note[:20] for note in rounds.notes()] == ["2 values in 400 rows"]


def test_labels_that_may_be_wrong_are_counted_with_what_keeps_them_out():
    frame, wild = made(), put(made().y, slice(7, None, 100), 900.0)
    said = "WARNING: 4 of 'y' are far outside the usual range, and learned: if they are wrong, give --set check=outliers"
    assert said in fitting.fit_table(frame.assign(y=wild), **FIT).notes
    level = frame.assign(y=frame.y + 900 * (np.arange(400) > 200))  # which is no error
    for right in (frame, level):
        assert not [
            note for note in fitting.fit_table(right, **FIT, force=True).notes if "wrong" in note
        ]

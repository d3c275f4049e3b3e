"""Tables as streams: what is read, what is dropped and counted, and what the inputs become."""

import gzip
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.small_tables import ALONE, LONG, read, samples, write
from psofed.errors import InputError
from psofed.streams.data import columns as roles
from psofed.streams.data import reading as tables
from psofed.streams.data import recipe as recipes
from psofed.streams.data import table as spools
from psofed.streams.data.columns import Columns
from psofed.streams.data.recipe import Past
from psofed.streams.data.rounds import Delay, Rounds, sampled


def rows_of(k, table):
    return np.concatenate([rows for rows, _ in table.read(k)])


SMALL = """
t,who,a,y
0,p,1,10
0,q,2,20
1,p,3,30
2,p,5,50
2,q,4,40
"""


def test_a_long_table_becomes_one_stream_per_client(tmp_path):
    table = read(tmp_path, SMALL)
    assert table.clients == ["p", "q"]
    assert table.columns.inputs == ("a",)
    assert (table.rounds, table.ticks.length, table.rows) == (3, 1.0, 5)
    assert rows_of(0, table).tolist() == [[0, 10, 1], [1, 30, 3], [2, 50, 5]]
    _, (block,) = samples(table)
    assert block.has.tolist() == [[True, True], [True, False], [True, True]]


def test_a_folder_says_the_same_and_a_damaged_file_is_refused(tmp_path):
    plain, folder = read(tmp_path, SMALL), tmp_path / "folder"
    folder.mkdir()
    write(folder / "p.csv", "t,a,y\n0,1,10\n1,3,30\n2,5,50")
    write(folder / "q.csv", "t,a,y\n0,2,20\n2,4,40")
    other = tables.read(folder, ALONE)
    assert other.clients == plain.clients
    assert all((rows_of(k, other) == rows_of(k, plain)).all() for k in range(2))
    pytest.importorskip("pyarrow")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(InputError, match=r"bad\.parquet: cannot be read as Parquet"):
        tables.read(tmp_path / "bad.parquet", LONG)


def test_a_wide_table_is_split_by_its_header(tmp_path):
    text = "t,rain,p.a,p.y,q.a,q.y\n0,7,1,10,2,20\n1,8,3,30,4,40"
    table = read(tmp_path, text, Columns(target="y", time=("t",), wide="."))
    assert table.clients == ["p", "q"]
    assert table.columns.inputs == ("rain", "a")
    assert rows_of(1, table).tolist() == [[0, 20, 7, 2], [1, 40, 8, 4]]
    with pytest.raises(InputError, match=r"row 1: columns have no '/' in their names"):
        read(tmp_path, text, Columns(target="y", time=("t",), wide="/"))


def test_time_may_be_a_date_or_stand_in_several_columns(tmp_path):
    one = read(tmp_path, "t,a,y\n2024-03-01T00:00,1,1\n2024-03-01T01:00,2,2",
               ALONE)  # fmt: skip
    many = read(tmp_path, "year,month,day,hour,a,y\n2024,3,1,0,1,1\n2024,3,1,1,2,2",
                Columns(target="y", time=("year", "month", "day", "hour")))  # fmt: skip
    parts = read(tmp_path, "d,h,a,y\n2024-03-01,00:00,1,1\n2024-03-01,01:00,2,2",
                 Columns(target="y", time=("d", "h")))  # fmt: skip
    for table in (one, many, parts):
        assert table.ticks.dates
        assert table.ticks.length == 3600
        assert table.ticks.start == 1709251200.0


def test_every_row_is_used_or_counted_with_its_reason(tmp_path):
    table = read(
        tmp_path,
        """
        t,who,a,y
        0,p,1,1
        1,p,1,2
        1,p,2,3
        0,p,2,3
        NA,p,2,3
        3,,2,3
        2.2,p,3,4
        2.4,p,NA,5
        3,p,NA,6
        """,
        Columns(target="y", time=("t",), client="who", missing={"a": "skip"}, tick=1.0),
    )
    assert table.drops.counts == {
        "with the time of an earlier row of the client, but other values": 2,
        "without a time": 1,
        "without a client": 1,
    }
    assert any("table.csv: row 4" in line for line in table.drops.lines())
    rounds, _ = samples(table)
    assert (
        sum(rounds.drops.counts.values()) + sum(table.drops.counts.values()) + rounds.samples == 9
    )
    assert rounds.drops.counts["in the tick of an earlier row"] == 1


WRONG = {
    "t,who,a,y\n0,p,x1,1\n1,p,2,2\n2,p,3,2": r"row 2: column 'a' is 'x1', not a number",
    "t,who,a,y\n0,p,1,1\n1,p,2": r"row 3: has 3 cells, but the header has 4",
    "t,who,a,y\n0,p,1,1\n1,p,1e99,2": r"row 3: column 'a' is '1e99'",
    "t,who,a,y\n0,p,1,1\nsoon,p,1,2": r"row 3: column 't' is 'soon'",
    "t,who,a,y\n0,p,1,1\n1,p,1,inf": r"row 3: column 'y' is 'inf'",
    "t,who,a,z\n0,p,1,1": r"row 1: column 'y' is not there",
    "t,who,a,y": r"row 2: has no rows",
    "t,who,a,y\nNA,p,1,1": r"row 2: has no usable rows: 1 without a time",
}


@pytest.mark.parametrize("text", WRONG)
def test_an_error_names_file_row_and_column(tmp_path, text):
    with pytest.raises(InputError, match=WRONG[text]) as found:
        read(tmp_path, text)
    assert "table.csv" in str(found.value)


def test_bytes_that_are_no_text_are_refused_where_they_stand(tmp_path):
    path = tmp_path / "table.csv"
    # From the first block on it is UTF-8; bytes that are not come too late to be Latin-1.
    path.write_bytes(b"t,who,a,y\n" + b"0,p,1,1\n" * 20_000 + b"0,p\xff,1,1\n")
    with pytest.raises(InputError, match=r"row 20002: column 'who' is 'p\\udcff'"):
        tables.read(path, LONG)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"t,who,a,y\n0,p,1,1\n" * 99)[:-12])
    with pytest.raises(InputError, match="is damaged"):
        tables.read(tmp_path / "t.csv.gz", LONG)


def test_clients_may_start_late_stop_and_tick_at_their_own_rate(tmp_path):
    lines = ["t,who,a,y"] + [f"{t},fast,{t},1" for t in range(10)]
    lines += [f"{t},slow,{t},1" for t in range(0, 10, 3)] + [f"{t},late,{t},1" for t in (8, 9)]
    table = read(tmp_path, "\n".join(lines))
    rounds, (block,) = samples(table)
    assert table.ticks.length == 1
    assert block.has.sum(axis=0).tolist() == [10, 2, 4]
    assert rounds.first.tolist() == [0, 8, 0]
    assert rounds.last.tolist() == [9, 9, 9]


def encoded(tmp_path, text, columns):
    table = read(tmp_path, text, columns)
    encoder = recipes.learn(table, table.rounds)
    rounds = Rounds(table, encoder, dtype=np.float64)
    (block,) = rounds.blocks()
    return encoder, block, rounds


def test_each_rule_for_missing_values_does_what_it_says(tmp_path):
    text = "t,a,y\n0,1,0\n1,NA,0\n2,3,1"
    plain = {"target": "y", "time": ("t",), "ranges": {"a": (0.0, 12.0**0.5), "y": (0.0, 1.0)}}
    middle = 12.0**0.5 / 2
    _, held, _ = encoded(tmp_path, text, Columns(**plain))
    assert held.x[:, 0, 0] == pytest.approx([1 - middle, 1 - middle, 3 - middle])
    _, skipped, rounds = encoded(tmp_path, text, Columns(**plain, missing={"*": "skip"}))
    assert skipped.has[:, 0].tolist() == [True, False, True]
    assert rounds.drops.counts["with a missing value, by the rule skip"] == 1
    encoder, marked, _ = encoded(tmp_path, text, Columns(**plain, missing={"a": "indicator"}))
    assert encoder.names == ["a", "a?"]
    assert marked.x[:, 0, 1].tolist() == [0, 1, 0]
    assert marked.x[1, 0, 0] == 0


def test_lags_look_back_by_time_and_see_no_label_before_it_is_known(tmp_path):
    text = "t,a,y\n0,1,10\n1,2,20\n2,3,30\n4,5,50\n5,6,60"
    ranges = {"a": (-(3.0**0.5), 3.0**0.5), "y": (-(3.0**0.5), 3.0**0.5)}
    columns = Columns(target="y", time=("t",), lags=(1,), target_lags=(2,), ranges=ranges, tick=1.0)
    encoder, block, rounds = encoded(tmp_path, text.replace("0\n", "\n") + "0", columns)
    assert encoder.names == ["a", "a[-1]", "y[-2]"]
    assert rounds.drops.counts["without the older rows that its lags need"] == 2
    assert block.x[2, 0].tolist() == pytest.approx([3, 2, 1])
    assert block.x[4, 0].tolist() == pytest.approx([5, 3, 3])
    assert block.x[5, 0].tolist() == pytest.approx([6, 5, 3])


def test_scaling_is_frozen_after_the_warm_up(tmp_path):
    lines = ["t,a,y"] + [f"{t},{t % 2 if t < 10 else 1000},{t % 2}" for t in range(20)]
    table = read(tmp_path, "\n".join(lines), ALONE)
    encoder = recipes.learn(table, 10)
    assert encoder.centre.tolist() == [0.5, 0.5]
    assert encoder.scale.tolist() == [0.5, 0.5]


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=60), st.integers(1, 59))
def test_moments_of_parts_make_the_moments_of_the_whole(values, cut):
    whole = np.array(values)[:, None]
    parts = recipes.merge(recipes.moments(whole[:cut]), recipes.moments(whole[cut:]))
    for ours, theirs in zip(parts, recipes.moments(whole), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-3)


@given(st.integers(1, 6), st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_lags_do_not_depend_on_how_the_rows_are_cut(lag, cuts):
    ticks = np.arange(sum(cuts))
    values = np.sin(ticks)[:, None]
    past, seen, first = Past(), [], 0
    for cut in cuts:
        here = ticks[first : first + cut]
        seen.append(past.extend(here, values[here], values[here, 0]).values_at(here - lag))
        past.trim(lag)
        first += cut
    wanted = np.concatenate([np.full((lag, 1), np.nan), values])[: len(ticks)]
    np.testing.assert_array_equal(np.concatenate(seen), wanted)


def test_a_label_arrives_so_many_rounds_later(tmp_path):
    text = "t,a,y\n" + "\n".join(f"{t},{t},{t}" for t in range(700))
    table = read(tmp_path, text, Columns(target="y", time=("t",), inputs=("a",)))
    rounds = Rounds(table, recipes.learn(table, 700), dtype=np.float64)
    delay = Delay(300, 1, 1, np.float64)
    arrived = np.concatenate([delay(block)[1] for block in rounds.blocks()])[:, 0]
    real = rounds.recipe.restore(arrived)
    assert np.isnan(real[:300]).all()
    assert real[300:] == pytest.approx(np.arange(400))


def test_a_long_silence_costs_no_rounds_and_no_labels(tmp_path):
    lines = ["t,a,y"] + [f"{t},{t % 3},{t % 2}" for t in (*range(300), *range(10**6, 10**6 + 300))]
    table = read(tmp_path, "\n".join(lines), ALONE)
    rounds = Rounds(table, recipes.learn(table, 300))
    delay = Delay(1000, 1, 1)
    blocks = list(rounds.blocks(linger=1000))
    arrived = [delay(block)[1] for block in blocks]
    assert len(blocks) < 12
    assert sum(int((~np.isnan(y)).sum()) for y in arrived) == 300


def test_columns_survive_a_round_trip_and_refuse_two_roles():
    columns = Columns(target="y", time=("a", "b"), client="k", missing={"*": "skip"}, lags=(1, 2),
                      lags_of={"b": (1, 5)}, ranges={"x": (0.0, 1.0)}, calendar=("hour",))  # fmt: skip
    assert roles.parse(columns.to_table()) == columns
    with pytest.raises(InputError, match="has the target"):
        Columns(target="y", time=("t",), inputs=("y",))
    with pytest.raises(InputError, match="twice"):
        Columns(target="t", time=("t",))


@pytest.mark.parametrize("step", [1, -1])
def test_memory_does_not_grow_with_the_table(tmp_path, monkeypatch, step):
    """Also if its rows have to be sorted."""
    monkeypatch.setattr(spools, "SORTED", 20_000)  # of each client the small table has more
    peaks = []
    for rows in (20_000, 80_000):
        lines = [f"{i // 4},{i % 4},{i % 7},{i % 5},{i % 3}" for i in range(rows)]
        path = write(tmp_path / "table.csv", "\n".join(["t,who,a,b,y", *lines[::step]]))
        del lines
        tracemalloc.start()
        table = tables.read(path, LONG)
        for _ in Rounds(table, recipes.learn(table, 100)).blocks():
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert int(table.counts.sum()) == rows
        table.spool.close()
    assert peaks[1] < (1.2 if step > 0 else 1.3) * peaks[0]


@pytest.mark.parametrize(
    ("lags", "found"),
    [
        ({"c": (1,)}, "row 1: column 'c' is not there"),
        ({"a": (0,)}, "lags_of.a is \\[0\\]; use ticks from 1"),
    ],
)
def test_lags_of_a_column_that_make_no_sense_are_refused(tmp_path, lags, found):
    with pytest.raises(InputError, match=found):
        read(tmp_path, "t,a,y\n1,1,1", Columns("y", ("t",), lags_of=lags))


def test_a_column_without_a_value_in_the_warm_up_is_named(tmp_path):
    text = "t,a,y\n" + "\n".join(f"{n},{n if n >= 40 else ''},{n}" for n in range(100))
    table = read(tmp_path, text, Columns("y", ("t",), inputs=("a",)))
    with pytest.raises(InputError, match=r"table.csv: row 1: column 'a' has no value in the warm"):
        recipes.learn(table, 20)


def test_a_recipe_without_columns_as_inputs_uses_none_of_a_later_table(tmp_path):
    text = "t,note,y\n" + "\n".join(f"{n},always,{n % 5}" for n in range(60))
    table = read(tmp_path, text, Columns("y", ("t",), target_lags=(1,)))
    recipe = recipes.learn(table, 20)
    assert recipe.names == ["y[-1]"]
    again, wanted = sampled(recipe, tmp_path / "table.csv", labelled=True), Rounds(table, recipe)
    assert again.table.columns.inputs == ()
    for one, other in zip(again.blocks(), wanted.blocks(), strict=True):
        assert np.array_equal(one.x, other.x)

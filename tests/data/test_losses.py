"""Nothing is lost in silence: what columns are taken for, which rows are dropped, and limits."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import mutants
from helpers.small_tables import ALONE, read, samples
from psofed.errors import InputError
from psofed.streams.data import reading as tables
from psofed.streams.data import rounds as losses
from psofed.streams.data import table as spools
from psofed.streams.data.columns import Batch, Columns
from psofed.streams.data.table import Spool


def sensors(rows=40, clients=5):
    """Rows with a running number, constants, a firmware, a serial and a note for each row."""
    head = "No,t,who,serial,firmware,site,note,empty,zero,a,y"
    lines = [
        f"{n * clients + k},{n},s{k},S-{k:03d},{1 + (n > 20)}.2.0,roof,text{n}-{k},,0,{(n * 7 + k) % 5},{n % 3}"
        for n in range(rows)
        for k in range(clients)
    ]
    return "\n".join([head, *lines])


def roles(table):
    return {finding.name: (finding.role, finding.why) for finding in table.findings}


def test_each_column_is_explained_and_those_that_cannot_help_are_left_out(tmp_path):
    table = read(tmp_path, sensors())
    assert table.columns.inputs == ("firmware", "a")
    assert roles(table) == {
        "No": ("left out", "a running number, which --inputs with it would keep"),
        "t": ("time", "numbers"),
        "who": ("client", ""),
        "serial": ("left out", "it is another name of the client"),
        "firmware": ("category", ""),
        "site": ("left out", "it is always 'roof'"),
        "note": ("left out", "it has 200 different texts in 200 rows"),
        "empty": ("left out", "it has no value"),
        "zero": ("left out", "it is always 0"),
        "a": ("number", ""),
        "y": ("target", ""),
    }
    text = "\n".join("  ".join(row) for row in table.report)
    assert "a  number  0.0 %  0 to 4" in text
    assert "firmware  category  0.0 %  2 values" in text


def test_a_column_that_is_named_is_an_input_whatever_it_is_like(tmp_path):
    columns = Columns("y", ("t",), "who", inputs=("No", "zero", "serial"))
    table = read(tmp_path, sensors(), columns)
    assert table.columns.inputs == ("No", "zero", "serial")
    assert roles(table)["a"] == ("left out", "not among the named inputs")
    columns = Columns("y", ("t",), "who", categorical=("zero",), drop=("a",))
    table = read(tmp_path, sensors(), columns)
    assert table.columns.inputs == ("firmware", "zero")
    assert roles(table)["a"] == ("left out", "named in drop")


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.booleans()), max_size=9))
def test_every_row_is_found_again_by_its_number(parts):
    places, wanted, row = tables.Places(), [], {"a": 2, "b": 2}
    for file, count, blank in parts:
        step = 2 if blank else 1
        rows = list(range(row[file], row[file] + step * count, step))
        row[file] = rows[-1] + 1
        numbers = places.add(Batch(file, rows, {}))
        wanted += [f"{file}: row {r}" for r in rows]
        assert numbers.tolist() == list(range(len(wanted) - count, len(wanted)))
    assert [places(i) for i in range(len(wanted))] == wanted


def test_a_forgotten_client_is_refused_with_the_column_that_may_be_it(tmp_path):
    table = read(tmp_path, sensors(), ALONE)
    said = r"loses 160 of 200 rows: .*no --client: did you mean .*'who'\?"
    with pytest.raises(InputError, match=said):
        losses.check(table, allowed=False)
    losses.check(table, allowed=True)


@pytest.mark.parametrize(
    ("lines", "columns", "found"),
    [
        ([f"{n % 20},p,{n}" for n in range(40)], {}, "is 'who' the column of the client"),
        ([f"{n if n % 3 else ''},p,{n}" for n in range(40)], {}, "column 't' of the time is empty"),
        ([f"{n},{'p' if n % 3 else ''},{n}" for n in range(40)], {}, "of the client is empty"),
        ([f"{n},p,{n}" for n in range(40)], {"tick": 5.0}, "give a shorter --set tick"),
        ([f"{n},p{n},{n}" for n in range(40)], {}, "40 of 40 clients with fewer than 10 rows"),
    ],
)
def test_a_table_that_would_lose_much_is_refused_with_the_cause(tmp_path, lines, columns, found):
    table = read(tmp_path, "\n".join(["t,who,y", *lines]), Columns("y", ("t",), "who", **columns))
    with pytest.raises(InputError, match=f"{found}.*--set allow_loss=true"):
        losses.check(table, allowed=False)


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from("pq"), st.integers(0, 3)),
                min_size=1, max_size=60), st.randoms())  # fmt: skip
def test_rows_in_are_rows_used_and_rows_reported_in_any_order(rows, dice):
    import pandas

    frame = pandas.DataFrame(rows, columns=["t", "who", "a"]).assign(y=1.0)
    shuffled = frame.sample(frac=1, random_state=dice.randrange(2**31))
    counts = []
    for some in (frame, shuffled):
        table = tables.read(some, Columns("y", ("t",), "who", inputs=("a",), tick=2.0))
        rounds, _ = samples(table)
        assert table.rows == rounds.samples + table.drops.total + rounds.drops.total == len(rows)
        assert losses.crowded(table) == rounds.drops.total
        counts.append((rounds.samples, table.drops.total))
        table.spool.close()
    assert counts[0] == counts[1]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=300), st.integers(1, 4))
def test_rows_are_sorted_in_runs_and_equal_times_stay_in_order(times, width):
    spool = Spool(2 + width)
    rows = np.column_stack([times, *[np.zeros(len(times))] * width, np.arange(len(times))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spools, "SORTED", 16)
        patch.setattr(spools, "ROWS", 4)
        for part in np.array_split(rows, 7):
            if len(part):
                spool.add(0, part.astype(float))
        spool.sort(0, lambda part: part)
        found = np.concatenate(list(spool.read(0)))
    spool.close()
    assert found[:, 0].tolist() == sorted(times)
    first = np.flatnonzero(np.diff(found[:, 0], prepend=-1) > 0)
    assert found[first, -1].tolist() == [times.index(t) for t in sorted(set(times))]
    assert sorted(found[:, -1].tolist()) == list(range(len(times)))


@pytest.mark.parametrize("part", range(4))
def test_mutated_tables_are_used_or_refused_and_every_row_is_counted(tmp_path, part):
    found = Counter(mutants.table(100 * part + i, tmp_path, learn=i % 10 == 0) for i in range(100))
    assert found["used"]
    assert found["refused"]


def test_mutated_plans_are_used_or_refused(tmp_path):
    found = Counter(mutants.toml(i, tmp_path) for i in range(400))
    assert found["refused"] > 100

"""A part of a table: some clients, from a time on."""

import numpy as np

from psofed.data import reading
from psofed.data.columns import Columns

ROWS = ["t,who,a,y", *(f"{n},{who},{n},{n}" for n in range(10) for who in "pqr"), ",p,1,1"]


def test_a_part_has_the_rows_of_its_clients_from_a_time_on(tmp_path):
    (tmp_path / "t.csv").write_text("\n".join(ROWS) + "\n")
    table = reading.read(tmp_path / "t.csv", Columns(target="y", time=("t",), client="who"))
    part = table.part([2, 0])
    assert part.clients == ["r", "p"]
    assert table.clients == ["p", "q", "r"]
    assert (table.rows, part.rows) == (31, 21)  # all but the other's: 20, and one without a time
    late = table.part([1], since=6.5)
    ((block, _),) = late.read(0)
    assert block[:, 0].tolist() == [7, 8, 9]
    assert late.start == 6.5
    assert list(table.part([1], since=99.0).read(0)) == []
    both = np.concatenate([rows for k in range(2) for rows, _ in part.read(k)])
    assert len(both) == 20

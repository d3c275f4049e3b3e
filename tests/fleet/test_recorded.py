"""Samples that were recorded in a file, for a device without a sensor."""

import pytest

from psofed.fleet import samples

ROWS = [[-0.5, -0.25, -1.0], [0.5, 0.25, 1.0]]


@pytest.mark.parametrize("names", ["", "a,b,y\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_no_row_is_taken_for_names_of_columns(tmp_path, names, encoding):
    path = tmp_path / "recorded.csv"
    rows = "\n".join(",".join(map(str, row)) for row in ROWS)
    path.write_text(names + rows, encoding=encoding)
    x, y = samples.table(path, 2)
    assert [
        [*inputs, target] for inputs, target in zip(x.tolist(), y.tolist(), strict=True)
    ] == ROWS

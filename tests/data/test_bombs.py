"""Small files that would be large in memory are refused in one line."""

import zipfile

import pytest

from helpers.extra import Extra
from psofed.errors import InputError
from psofed.streams.data.columns import Columns
from psofed.streams.data.sources import RowSource

openpyxl, pyarrow = Extra("openpyxl"), Extra("pyarrow")
COLUMNS = Columns("y", ("t",))


def rows(path):
    return list(RowSource(path, COLUMNS).batches())


def test_a_long_text_that_a_table_has_once_for_many_rows_is_refused(tmp_path):
    from pyarrow import parquet

    path, many = tmp_path / "a.parquet", 1000
    for length in (10, 200_000):
        texts = pyarrow.array(["x" * length] * many)
        columns = {"t": range(many), "y": [1.0] * many, "plain": texts}
        columns = {name: pyarrow.array(values) for name, values in columns.items()}
        parquet.write_table(pyarrow.table(columns | {"coded": texts.dictionary_encode()}), path)
        if length == 10:
            (batch,) = rows(path)
            assert batch.cells["plain"] == batch.cells["coded"] == ["x" * 10] * many
    assert path.stat().st_size < 50_000
    with pytest.raises(InputError, match=r"has a text of 200,000 bytes; leave out what is above"):
        rows(path)


def test_a_sheet_that_declares_entities_is_refused(tmp_path):
    book, path = openpyxl.Workbook(), tmp_path / "b.xlsx"
    book.active.append(["t", "y"])
    book.active.append([1, 2.0])
    book.save(tmp_path / "a.xlsx")
    assert len(rows(tmp_path / "a.xlsx")) == 1
    entities = '<!DOCTYPE w [<!ENTITY a "0123456789"><!ENTITY b "&a;&a;">]>'
    with zipfile.ZipFile(tmp_path / "a.xlsx") as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            bomb = entities * name.endswith("sheet1.xml")
            new.writestr(name, bomb.encode() + old.read(name))
    with pytest.raises(InputError, match="it declares entities"):
        rows(path)

"""Named arrays in one file: what was written is read, and nothing else is."""

import gzip
import json
import os
from contextlib import suppress
from functools import reduce
from hashlib import blake2b
from itertools import islice
from operator import getitem

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import psofed
from psofed.errors import InputError
from psofed.federation import records
from psofed.federation.records import DamagedError, Record, VersionError, pack, unpack
from psofed.simulate import finished
from psofed.streams.data import reading
from psofed.streams.data.columns import Columns
from psofed.tables import example as examples
from psofed.tables import fitting, model
from psofed.tables.plan import Plan

ABOUT = {"run": "p", "role": "server", "digest": "00000001"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def sealed(header, body=b"", length=None):
    """A file with a right digest, whatever is in it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = (len(text) if length is None else length).to_bytes(4, "little")
    data = records.MAGIC + size + text + body
    return data + blake2b(data, digest_size=16).digest()


def header(**changes):
    right = {"version": records.VERSION, "sequence": 1, "about": ABOUT}
    return right | {"arrays": [["w", "<f8", [2]]]} | changes


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.sampled_from(records.DTYPES).flatmap(
            lambda d: arrays.arrays(d, arrays.array_shapes(min_dims=0, max_dims=2, min_side=0))
        ),
        max_size=4,
    ),
    st.dictionaries(st.text(max_size=5), JSON, max_size=3),
    st.integers(0, 2**40),
)
def test_records_survive(found, about, sequence):
    again = unpack(pack(Record(about, found, sequence)))
    assert again.about == about
    assert again.sequence == sequence
    assert list(again.arrays) == list(found)
    for name, array in found.items():
        assert again.arrays[name].dtype == array.dtype
        assert again.arrays[name].tobytes() == array.tobytes()
        assert again.arrays[name].shape == array.shape
        assert again.arrays[name].flags.writeable


@given(st.data())
def test_any_change_or_cut_of_a_record_is_noticed(data):
    whole = pack(Record(ABOUT, {"w": np.arange(5.0)}, 3))
    at = data.draw(st.integers(0, len(whole) - 1))
    flipped = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    for broken in (flipped, whole[:at], whole + b"\0"):
        with pytest.raises(DamagedError):
            unpack(broken)


@given(st.binary(max_size=80))
def test_any_bytes_are_no_record(data):
    for broken in (data, records.MAGIC + data):
        with pytest.raises(DamagedError):
            unpack(broken)


ENTRY = st.tuples(
    st.sampled_from(["w", "b", "", 3, None]),
    st.sampled_from([*records.DTYPES, "O", "|O", ">f8", "<U9", "<m8[s]", "f8", 8, None]),
    st.lists(st.integers(-2, 4) | st.sampled_from([2**31, 2**63, 10**400, 2.0, True, "2", None]), max_size=3)
    | st.just([0] + [2**60] * 5) | st.just([1] * 70) | JSON,
).map(list)  # fmt: skip


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "version": st.integers(-1, 3) | JSON,
            "made_by": st.just("9.9") | JSON,
            "sequence": st.integers() | JSON,
            "about": st.just(ABOUT) | JSON,
            "arrays": st.lists(ENTRY | JSON, max_size=3) | JSON,
        },
    )
    | JSON,
    st.binary(max_size=40),
    st.none() | st.sampled_from([0, 1, 2**32 - 1]),
)
@example(header(arrays=[["w", "<f8", [10**9, 10**9]]]), bytes(16), None)
@example(header(arrays=[["w", "|u1", [0, 2**62, 2**62]]]), b"", None)
@example(header(arrays=[["w", "|u1", [1]], ["w", "|u1", [1]]]), b"ab", None)
@example(header(), bytes(15), None)
@example(header(), bytes(17), None)
@example(header(), bytes(16), 2**32 - 1)
@example(header(version=True), bytes(16), None)
@example(header(version=10**400), bytes(16), None)
def test_a_header_that_lies_with_a_right_digest_is_read_as_it_stands_or_refused(head, body, length):
    data = sealed(head, body, length)
    try:
        found = unpack(data)
    except (DamagedError, VersionError):
        return
    assert sum(array.nbytes for array in found.arrays.values()) <= len(data)
    assert unpack(pack(found)).arrays.keys() == found.arrays.keys()


def test_a_record_says_its_version_and_who_wrote_it():
    data = pack(Record(ABOUT, {"w": np.ones(2)}))
    head, _ = records.split(data[len(records.MAGIC) :], 4)
    assert (head["version"], head["made_by"]) == (records.VERSION, psofed.__version__)


def test_what_a_record_of_this_version_has_more_is_passed_over():
    more = header(made_by="9.9", shelf=[3], arrays=[["w", "<f8", [2]], ["new", "|u1", [1]]])
    found = unpack(sealed(more, bytes(17)))
    assert (found.about, found.sequence) == (ABOUT, 1)
    assert found.arrays.keys() == {"w", "new"}


OTHER = "with record version 7; this is psofed .*, which reads version 1: use the other one"


@pytest.mark.parametrize(
    ("made_by", "named"),
    [
        ("0.9.1", "psofed 0.9.1"),
        ("1.0rc1+x-y", "psofed 1.0rc1"),
        (None, "another psofed"),
        (3, "another psofed"),
        ("\x1b[2J", "another psofed"),
        ("9" * 99, "another psofed"),
    ],
)
@pytest.mark.parametrize("rest", [header(), {"arrays": "in another form"}])
def test_a_record_of_another_version_is_refused_by_name_whatever_else_is_in_it(
    made_by, named, rest
):
    with pytest.raises(VersionError, match=OTHER) as caught:
        unpack(sealed(rest | {"version": 7, "made_by": made_by}, bytes(16)))
    assert str(caught.value).startswith(f"was written by {named}")


def test_a_model_and_a_checkpoint_of_another_version_are_refused_by_name(tmp_path):
    path = tmp_path / "one"
    path.write_bytes(sealed(header(version=7, made_by="3.0"), bytes(16)))
    for load in (model.load, finished.read):
        with pytest.raises(InputError, match=rf"one: was written by psofed 3.0 {OTHER}"):
            load(path)


USUAL = b'{"version": 1, "sequence": 1, "about": {}, "arrays": []}'


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000, b'{"about": ' * 50_000, b"\xff\xfe", b"", b"3", b"null", b"[]",
        USUAL.replace(b'"version": 1, ', b""), USUAL.replace(b"{}", b'{"a": NaN}'),
        USUAL.replace(b"{}", b'{"a": 1e999}'), USUAL.replace(b"{}", b'{"a": "\\ud800"}'),
        USUAL.replace(b'"sequence": 1', b'"sequence": 1' + b"0" * 5000),
        USUAL + b" " * records.HEADER,
    ],
)  # fmt: skip
def test_headers_that_are_hard_to_read_are_damaged(text):
    assert unpack(sealed(USUAL)).sequence == 1
    with pytest.raises(DamagedError, match="header"):
        unpack(sealed(text))


@pytest.mark.parametrize(
    "wrong", [np.array(["a"]), np.array([{}]), np.ones(2, ">f8"), np.ones(2, "c16")]
)
def test_what_could_not_be_read_is_not_written(wrong):
    with pytest.raises(ValueError, match="arrays of"):
        pack(Record({}, {"w": wrong}))
    with pytest.raises(ValueError, match="JSON"):
        pack(Record({"a": float("nan")}, {}))


def test_a_file_is_there_whole_or_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "file"
    records.write(path, b"one")
    records.write(path, b"two", durable=True)
    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):
        for name in ("fsync", "replace"):
            with monkeypatch.context() as patch:

                def fails(*_, error=error):
                    raise error

                patch.setattr(os, name, fails)
                with pytest.raises(type(error)):
                    records.write(path, b"three", durable=True)
            assert path.read_bytes() == b"two"
            assert os.listdir(tmp_path) == ["file"]
    with pytest.raises(FileNotFoundError):
        records.write(tmp_path / "none" / "file", b"one")


def test_a_durable_file_is_synced_before_it_gets_its_name(tmp_path, monkeypatch):
    done, replace, fsync = [], os.replace, os.fsync
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("rename"), replace(a, b)))
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append("sync"), fsync(fd)))
    records.write(tmp_path / "a", b"", durable=True)
    records.write(tmp_path / "b", b"")
    assert done == ["sync", "rename", "rename"]


HOSTILE = JSON | st.sampled_from([10**18, 10**400, 1e300, -1e300, 1e-300, [10**9], [1e300, 1e-300], "wind"])  # fmt: skip


def places(value, path=()):
    """The paths to everything in a header."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()  # fmt: skip
    return [path, *(p for key, inner in inside for p in places(inner, (*path, key)))]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("t") / "t.csv"
    with gzip.open(examples.PATH, "rt") as file:
        path.write_text("".join(islice(file, 60)))
    return path


@pytest.fixture(scope="module")
def saved():
    """A small model of the example, as bytes."""
    table = reading.read(examples.PATH, examples.COLUMNS)
    plan = Plan(table.columns, dim=10, width=1.0, step=0.5, compare=False)
    return fitting.fit(table, plan).model.to_bytes()


@given(st.data())
def test_a_model_from_anybody_is_used_or_refused(saved, table, tmp_path_factory, data):
    record = unpack(saved)
    about = record.about
    *path, last = data.draw(st.sampled_from([p for p in places(about) if p]))
    reduce(getitem, path, about)[last] = data.draw(HOSTILE)
    file = tmp_path_factory.mktemp("m") / "m.psofed"
    file.write_bytes(pack(Record(about, record.arrays)))
    with suppress(InputError), np.errstate(all="ignore"):
        parts, _ = model.answered(model.load(file), table)
        assert sum(len(rows) for rows, _, _ in parts) <= 60


def test_a_client_column_without_a_name_is_said_to_be_missing(table):
    with pytest.raises(InputError, match="column '' is not there"):
        reading.read(table, Columns(target="pollutant", time=("time",), client=""))

"""State on disk: whole or not at all, and never another's."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from psofed.deploy import store
from psofed.deploy.store import DamagedError, Folder, Record, Store
from psofed.errors import InputError

ABOUT = {"run": "p", "role": "server", "digest": "00000001"}


def opened(path):
    folder = Folder(path)
    return Store(folder, ABOUT), folder


def saved(path, *values):
    kept, folder = opened(path)
    kept.load()
    for value in values:
        kept.save({"w": np.full(3, value)})
    folder.close()


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.sampled_from(store.DTYPES).flatmap(
            lambda d: arrays.arrays(d, arrays.array_shapes(min_dims=0, max_dims=2, min_side=0))
        ),
        max_size=4,
    ),
    st.integers(0, 2**40),
)
def test_records_survive(found, sequence):
    again = store.unpack(store.pack(Record(ABOUT, found, sequence)))
    assert again.about == ABOUT
    assert again.sequence == sequence
    assert list(again.arrays) == list(found)
    for name, array in found.items():
        assert again.arrays[name].dtype == array.dtype
        assert again.arrays[name].tobytes() == array.tobytes()
        assert again.arrays[name].shape == array.shape


@given(st.data())
def test_any_change_or_cut_of_a_record_is_noticed(data):
    whole = store.pack(Record(ABOUT, {"w": np.arange(5.0)}, 3))
    at = data.draw(st.integers(0, len(whole) - 1))
    flipped = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    for broken in (flipped, whole[:at], whole + b"\0"):
        with pytest.raises(DamagedError):
            store.unpack(broken)


def test_a_new_folder_is_empty_and_then_has_the_newest_record(tmp_path):
    kept, folder = opened(tmp_path / "a" / "b")
    assert kept.load() is None
    folder.close()
    saved(tmp_path / "a" / "b", 1.0, 2.0, 3.0)
    kept, folder = opened(tmp_path / "a" / "b")
    assert kept.load()["w"].tolist() == [3.0] * 3
    assert not kept.notes
    folder.close()


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "zeros"])
def test_a_damaged_generation_falls_back_to_the_one_before_and_says_so(tmp_path, damage):
    saved(tmp_path, 1.0, 2.0, 3.0)
    newest = tmp_path / "record.1"
    data = bytearray(newest.read_bytes())
    data[30] ^= 1
    ways = {"flip": data, "cut": data[:40], "empty": b"", "zeros": bytes(len(data))}
    newest.write_bytes(ways[damage])
    kept, folder = opened(tmp_path)
    assert kept.load()["w"].tolist() == [2.0] * 3
    assert "record.1 is damaged" in kept.notes[0]
    assert "the generation before" in kept.notes[0]
    kept.save({"w": np.full(3, 4.0)})
    assert newest.read_bytes() != ways[damage]
    folder.close()


def test_two_damaged_generations_are_an_error_that_says_what_to_do(tmp_path):
    saved(tmp_path, 1.0, 2.0)
    for name in store.SLOTS:
        (tmp_path / name).write_bytes(b"psofed 1\nnonsense")
    kept, folder = opened(tmp_path)
    with pytest.raises(InputError, match=r"record.0 is damaged.*record.1 is damaged.*restore"):
        kept.load()
    folder.close()


def test_the_folder_of_another_run_is_refused(tmp_path):
    saved(tmp_path, 1.0)
    folder = Folder(tmp_path)
    with pytest.raises(InputError, match="holds the state of role server, not client 3"):
        Store(folder, ABOUT | {"role": "client 3"}).load()
    with pytest.raises(InputError, match="holds the state of digest 00000001"):
        Store(folder, ABOUT | {"digest": "00000002"}).load()
    folder.close()


def test_a_folder_is_used_by_one_process_at_a_time_and_is_free_after_a_kill(tmp_path):
    code = f"from psofed.deploy.store import Folder; f = Folder({str(tmp_path)!r}); print(1, flush=True); input()"
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    assert other.stdout.readline() == b"1\n"
    with pytest.raises(InputError, match="is in use by another process; stop"):
        Folder(tmp_path)
    other.kill()
    other.communicate()
    Folder(tmp_path).close()


def test_a_folder_that_cannot_be_made_is_an_input_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be used: Not a directory"):
        Folder(tmp_path / "file" / "sub")


def test_a_record_is_made_durable_before_it_gets_its_name_and_the_name_after(tmp_path, monkeypatch):
    done = []
    kept, folder = opened(tmp_path)
    replace, fsync = os.replace, os.fsync
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("rename"), replace(a, b)))
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append("sync"), fsync(fd)))
    kept.save({"w": np.zeros(2)})
    assert done == ["sync", "rename", "sync"]
    folder.close()

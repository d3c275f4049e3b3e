"""State on disk: whole or not at all, and never another's."""

import errno
import os
import resource
import subprocess
import sys
from contextlib import closing, contextmanager

import numpy as np
import pytest

from psofed.errors import InputError, ResourceError
from psofed.federation import records
from psofed.fleet.protocol import store
from psofed.fleet.protocol.store import StateFolder, Store

ABOUT = {"run": "p", "role": "server", "digest": "00000001"}


@contextmanager
def opened(path, **changes):
    """The store of a folder, which nobody else can use meanwhile."""
    with closing(StateFolder(path)) as folder:
        yield Store(folder, ABOUT | changes)


def saved(path, *values):
    with opened(path) as kept:
        kept.load()
        for value in values:
            kept.save({"w": np.full(3, value)})


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "zeros"])
def test_a_damaged_generation_falls_back_to_the_one_before_and_says_so(tmp_path, damage):
    saved(tmp_path, 1.0, 2.0, 3.0)
    newest = tmp_path / "record.1"
    data = bytearray(newest.read_bytes())
    data[30] ^= 1
    ways = {"flip": data, "cut": data[:40], "empty": b"", "zeros": bytes(len(data))}
    newest.write_bytes(ways[damage])
    with opened(tmp_path) as kept:
        assert kept.load()["w"].tolist() == [2.0] * 3
        assert "record.1 is damaged" in kept.notes[0]
        assert "the generation before" in kept.notes[0]
        kept.save({"w": np.full(3, 4.0)})
    assert newest.read_bytes() != ways[damage]


def test_what_cannot_be_gone_on_with_is_an_error_that_says_what_to_do(tmp_path):
    saved(tmp_path, 1.0, 2.0)
    for name in store.SLOTS:
        (tmp_path / name).write_bytes(b"psofed 1\nnonsense")
    damaged = pytest.raises(InputError, match=r"record.0 is damaged.*record.1 is damaged.*restore")
    with opened(tmp_path) as kept, damaged:
        kept.load()
    (tmp_path / "record.0").unlink()
    os.mkfifo(tmp_path / "record.0")
    odd = pytest.raises(InputError, match=r"record.0 cannot be read: is not a regular file")
    with opened(tmp_path) as kept, odd:
        kept.load()


@pytest.mark.parametrize(("other", "words"), [
    ({"role": "client 3"}, "holds the state of role server, not client 3"),
    ({"digest": "00000002"}, r"another experiment \(00000001, not 00000002\); compare .* run.toml"),
])  # fmt: skip
def test_the_folder_of_another_run_is_refused(tmp_path, other, words):
    saved(tmp_path, 1.0)
    with opened(tmp_path, **other) as kept, pytest.raises(InputError, match=words):
        kept.load()


@pytest.mark.parametrize("version", [records.VERSION - 1, records.VERSION + 1])
def test_a_record_of_another_version_is_refused_by_name_and_the_one_before_it_is_not_gone_on_from(
    tmp_path, monkeypatch, version
):
    saved(tmp_path, 1.0, 2.0)
    with opened(tmp_path) as kept, monkeypatch.context() as patch:
        kept.load()
        patch.setattr(records, "VERSION", version)
        kept.save({"w": np.full(3, 3.0)})
    line = f"has record.1, which was written by psofed .* with record version {version}; .* reads"
    with opened(tmp_path) as kept, pytest.raises(InputError, match=line):
        kept.load()


def test_a_folder_is_used_by_one_process_at_a_time_and_is_free_after_a_kill(tmp_path):
    code = f"from psofed.fleet.protocol.store import StateFolder; f = StateFolder({str(tmp_path)!r}); print(1, flush=True); input()"
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    assert other.stdout.readline() == b"1\n"
    with pytest.raises(ResourceError, match="is in use by another process; stop"):
        StateFolder(tmp_path)
    other.kill()
    other.communicate()
    folder = StateFolder(tmp_path)
    with pytest.raises(InputError, match="in use"):
        StateFolder(tmp_path)
    folder.close()


def test_a_record_is_made_durable_before_it_gets_its_name_and_the_name_after(tmp_path, monkeypatch):
    """A client's first two, too; the others are written over the older one, with one fsync."""
    done, replace = [], os.replace
    with opened(tmp_path) as kept:
        monkeypatch.setattr(os, "replace", lambda a, b: (done.append("rename"), replace(a, b)))
        for sync in (os.fsync, os.fdatasync):

            def counted(handle, sync=sync):
                done.append("sync")
                sync(handle)

            monkeypatch.setattr(os, sync.__name__, counted)
        counts = []
        for over in (False, True, True, True, True):
            kept.over = over
            kept.save({"w": np.zeros(2)})
            counts.append(len(done))
    assert done[:3] == ["sync", "rename", "sync"]
    assert counts == [3, 6, 7, 8, 9]


def test_a_folder_and_its_files_are_for_nobody_else(tmp_path):
    path, before = tmp_path / "s", os.umask(0)
    try:
        saved(path, 1.0, 2.0)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o700
    modes = {each.name: each.stat().st_mode & 0o777 for each in path.iterdir()}
    assert modes == dict.fromkeys(("lock", *store.SLOTS), 0o600)
    path.chmod(0o755)
    for said in (["other users could read it; from now on they cannot (mode 700)"], []):
        with opened(path) as kept:
            assert kept.disk.notes == said
        assert path.stat().st_mode & 0o777 == 0o700
    for mode in (0o770, 0o777, 0o1777, 0o702):
        path.chmod(mode)
        with pytest.raises(InputError, match=f"can be changed by other users.*: chmod 700 {path}$"):
            StateFolder(path)
        assert path.stat().st_mode & 0o1777 == mode


@pytest.mark.parametrize("name", ["record.0", "record.1", "new", "lock"])
def test_a_link_inside_the_folder_is_not_followed(tmp_path, name):
    mine = tmp_path / "mine"
    saved(tmp_path / "s", 1.0, 2.0)
    mine.write_bytes((tmp_path / "s" / "record.0").read_bytes())
    content = mine.read_bytes()
    (tmp_path / "s" / name).unlink(missing_ok=True)
    (tmp_path / "s" / name).symlink_to(mine)
    refused = pytest.raises(InputError, match=f"{name} cannot be .*: is a symbolic link; ")
    with refused, opened(tmp_path / "s") as kept, store.starting(kept.disk):
        kept.load()
        kept.save({"w": np.full(3, 3.0)})
    assert mine.read_bytes() == content


def test_a_draft_that_does_not_fit_is_not_left_on_the_disk(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    try:
        too_large = pytest.raises(OSError, match=r"File too large: '.*/new'")
        with opened(tmp_path) as kept, too_large:
            kept.save({"w": np.zeros(10_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert not (tmp_path / "new").exists()
    no_space = pytest.raises(OSError, match=r"No space left on device: '.*/new'")
    with opened(tmp_path) as kept, no_space:
        monkeypatch.setattr(os, "fdatasync", full)
        kept.save({"w": np.zeros(2)})

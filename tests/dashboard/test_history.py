"""What the dashboard remembers: whole, thinned, damaged, or given up with a note."""

import shutil

import numpy as np

from helpers.devices import wait_for
from psofed.dashboard.history import LINES, RECENT, ROWS, History, thinned
from psofed.dashboard.watch import Note, Row

ABOUT = {"run": "p"}


def row(n, **more):
    return Row(
        **{
            "n": n,
            "time": 100 + n,
            "mse": -n / 10,
            "up": 10 * n,
            "down": 20 * n,
            "accepted": 4 * n,
            "refused": 0,
            "lost": 0,
        }
        | more
    )


def test_a_history_is_found_again_and_forgets_rounds_that_were_taken_back(tmp_path):
    first = History(tmp_path, ABOUT, 0)
    first.add(
        [row(n) for n in range(10)], [Note(1, 2, "gone", "client 3 does not answer")], {3: 99.0}
    )
    again = History(tmp_path, ABOUT, 8)
    assert again.rows == [row(n) for n in range(8)]
    assert again.notes[0].text == "client 3 does not answer"
    assert again.contacts == {3: 99.0}
    assert not again.warnings
    for each in (first, again):
        each.close()


def test_a_kill_costs_the_last_entry_at_most(tmp_path):
    history = History(tmp_path, ABOUT, 0)
    history.add([row(n) for n in range(10)])
    history.close()
    data = (tmp_path / "history").read_bytes()
    for cut in range(1, len(data.splitlines()[-1]) + 2):
        (tmp_path / "history").write_bytes(data[:-cut])
        again = History(tmp_path, ABOUT, 10)
        assert again.rows == [row(n) for n in range(9)]
        assert not again.warnings
        again.add([row(9)])
        again.close()
        last = History(tmp_path, ABOUT, 10)
        assert last.rows[-1] == row(9)
        last.close()


def test_a_damaged_history_is_dropped_with_a_note_and_never_fatal(tmp_path):
    history = History(tmp_path, ABOUT, 0)
    history.add([row(n) for n in range(10)])
    history.close()
    whole = (tmp_path / "history").read_bytes()
    chance = np.random.default_rng(0)
    for at in chance.integers(0, len(whole), 60):
        data = bytearray(whole)
        data[at] ^= 1 << int(chance.integers(8))
        (tmp_path / "history").write_bytes(data)
        again = History(tmp_path, ABOUT, 10)
        assert again.rows == [row(n) for n in range(len(again.rows))]
        assert again.warnings or len(again.rows) >= 9
        again.close()
    for nonsense in (b"", b"\0" * 100, b"{}\n", b"\n\n"):
        (tmp_path / "history").write_bytes(nonsense)
        again = History(tmp_path, ABOUT, 10)
        assert again.rows == []
        assert "a new one begins" in again.warnings[0]
        again.close()
    (tmp_path / "history").write_bytes(whole)
    other = History(tmp_path, {"run": "q"}, 10)
    assert (other.rows, len(other.warnings)) == ([], 1)
    other.close()


def test_a_history_that_cannot_be_written_stays_in_memory_until_it_can(
    tmp_path, stage, monkeypatch
):
    shown = stage()
    shown.play(3)
    wait_for(lambda: len(shown.state()["rows"]) == 3)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("psofed.dashboard.history.os.write", full)
        patch.setattr(History, "_rewrite", full)
        shown.play(3)
        wait_for(lambda: (s := shown.state())["n"] == 6 and len(s["rows"]) == 6)
        history = shown.dashboard._hub._board.history
        assert history.warnings == ["history is kept in memory only: No space left on device"]
        monkeypatch.setattr("psofed.dashboard.history.AGAIN", 0.0)
        shown.play(1)
        wait_for(lambda: len(shown.state()["rows"]) == 7)
        assert len(history.warnings) == 1
    shown.play(1)
    wait_for(lambda: len(shown.state()["rows"]) == 8)
    assert history.warnings[1:] == ["history is kept on disk again"]
    again = History(shown.folder.path, history.about, 100)
    assert [row.n for row in again.rows] == list(range(8))
    again.close()


def test_a_history_whose_folder_is_gone_ends_nothing(tmp_path):
    (tmp_path / "gone").mkdir()
    lost = History(tmp_path / "gone", ABOUT, 0)
    shutil.rmtree(tmp_path / "gone")
    lost.add([row(n) for n in range(LINES + 10)])
    lost.close()


def test_a_history_is_private_and_a_link_is_not_followed(tmp_path):
    History(tmp_path, ABOUT, 0).close()
    assert (tmp_path / "history").stat().st_mode & 0o777 == 0o600
    (tmp_path / "mine").write_text("keep me")
    (tmp_path / "history").unlink()
    (tmp_path / "history").symlink_to(tmp_path / "mine")
    found = History(tmp_path, ABOUT, 0)
    found.add([row(0)])
    found.close()
    assert found.warnings == ["history cannot be read: is a symbolic link"]
    assert (tmp_path / "mine").read_text() == "keep me"


def test_old_rounds_are_thinned_and_the_file_stays_small(tmp_path):
    history = History(tmp_path, ABOUT, 0)
    for start in range(0, 40_000, 10):
        history.add([row(n) for n in range(start, start + 10)])
    rows = history.rows
    assert ROWS / 2 < len(rows) < 2 * ROWS
    assert [r.n for r in rows[-RECENT:]] == list(range(40_000 - RECENT, 40_000))
    gaps = np.diff([r.n for r in rows])
    assert (gaps > 0).all()
    assert gaps.max() <= 256
    assert rows[0].n == 0
    assert (tmp_path / "history").stat().st_size < 400_000
    history.close()
    again = History(tmp_path, ABOUT, 40_000)
    assert again.rows[-1] == rows[-1]
    again.close()
    assert thinned([row(n) for n in range(ROWS + 1)])[:3] == [row(0), row(2), row(4)]

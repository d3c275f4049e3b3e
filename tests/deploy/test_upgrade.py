"""A fleet is upgraded while it runs: server and clients of two versions, as real processes."""

import shutil
import signal
import subprocess

import pytest

from helpers import ROOT
from helpers.devices import wait_for
from helpers.runs import FULL, assert_equal_to_the_engine, needs_mosquitto
from psofed.protocol.store import SLOTS, newest, reader
from psofed.records import MAGIC, VERSION, split

EARLIER = "95b6414"  # the last one before records had a version


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """The source of an earlier version, from the history of this repository."""
    git = shutil.which("git")
    tree = tmp_path_factory.mktemp("earlier")
    command = [git or "git", "-C", ROOT, "archive", "--output", tree / "src.tar", EARLIER, "src"]
    if git is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip(f"needs git, and the history with {EARLIER}")
    shutil.unpack_archive(tree / "src.tar", tree, filter="data")
    return tree / "src"


ORDER = (0, 1, 2, 3, 4, "server", 5, 6, 7, 8, 9)  # old server and new clients, then the reverse


def record(team, who):
    folder = team.folder / str(who)
    return newest(reader(folder), str(folder))[0]


def rounds(team):
    return 0 if (found := record(team, "server")) is None else int(found.arrays["n"])


def version(team, who):
    """That of the newest record, as its header says; the earlier version writes none."""
    data = (team.folder / str(who) / SLOTS[record(team, who).sequence % 2]).read_bytes()
    return split(data[len(MAGIC) :], 4)[0].get("version")


def end(team, who):
    """In order."""
    process = team.running.pop(who)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def replace(team, who, tree=None):
    """Another version on the folder of a process."""
    end(team, who)
    team.trees[who] = tree
    team.start(who)


@pytest.mark.long
@needs_mosquitto
def test_ten_clients_and_their_server_are_upgraded_one_by_one_while_rounds_go_on(
    team, broker, earlier
):
    text = FULL.replace("rounds = 200", "rounds = 9000").replace("dim = 200", "dim = 40")
    run = team(text.replace("shared = 40", "shared = 5"), broker.url, serve=("--every", "0.05"))
    run.trees = dict.fromkeys(ORDER, earlier)
    for who in ORDER:
        run.start(who)
        if who in (0, "server"):  # its source is compiled once, not by everybody
            wait_for(lambda k=who: (run.folder / str(k) / "run.toml").exists())
    wait_for(lambda: all(record(run, who) is not None for who in ORDER))
    assert {version(run, who) for who in ORDER} == {None}
    for who in ORDER:
        before = rounds(run)
        replace(run, who)
        wait_for(lambda n=before: rounds(run) > n + 1)
    wait_for(lambda: all(version(run, who) == VERSION for who in ORDER))
    replace(run, 3, earlier)  # and one goes back
    wait_for(lambda: version(run, 3) is None)
    end(run, "server")
    run.serve = ("--rounds", last := rounds(run) + 3)  # so that no round is open at the end
    run.start("server")
    assert run.running.pop("server").wait(20) == 0
    run.stop()
    for who in ORDER:
        assert "refused" not in run.log(who)
    assert_equal_to_the_engine(run, last)

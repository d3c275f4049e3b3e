"""Real processes on real disks of a few kB: full, read-only, and mended while they run."""

import re

import pytest

from helpers.devices import wait_for
from helpers.full_disk import SmallDisk, needs_mount
from helpers.processes import end_in_order
from helpers.runs import SMALL, assert_equal_to_the_engine

ROUNDS = 300


@pytest.fixture
def disks(tmp_path):
    made = [SmallDisk(tmp_path / name, 1024) for name in ("disk-s", "disk-0")]
    for disk, name in zip(made, ("server", "0"), strict=True):
        (disk.path / "state").mkdir(mode=0o700)
        (tmp_path / name).symlink_to(disk.path / "state")
    yield made
    for disk in made:
        disk.stop()


def spoil(run, who, disk, said, over):
    """And it goes on: the lines of `who` say which file, why, and when it is over.

    A client's records are written over the older ones, for which a full disk has room.
    """
    full = disk.fill, disk.free, "No space left on device"
    read_only = disk.read_only, disk.writable, "Read-only file system"
    ways = [full, read_only] if who == "server" else [read_only]
    for times, (spoil, mend, why) in enumerate(ways):
        spoil()
        line = rf"{run.folder / str(who)}/(new|record..): {why}: {said}"
        wait_for(lambda line=line: re.search(line, run.log(who)))
        mend()
        wait_for(lambda times=times: run.log(who).count(over) > times)


@needs_mount
def test_server_and_client_go_on_by_themselves_when_a_disk_was_full_or_read_only(
    disks, broker, team
):
    text = SMALL.replace("rounds = 40", f"rounds = {ROUNDS}")
    run = team(text, broker.url, serve=("--set", "every=0.01", "--dashboard", "0"))
    run.start("server", 0, 1, 2)
    wait_for(lambda: "round 5:" in run.log("server"))
    spoil(run, "server", disks[0], "round", "Alarm over (disk)")
    spoil(run, 0, disks[1], "still learning, but no answer leaves", "can be written again")
    run.finish()
    for who in ("server", 0, 1, 2):
        assert "Traceback" not in run.log(who)
    assert_equal_to_the_engine(run, ROUNDS)


def test_a_log_on_a_full_disk_ends_neither_server_nor_client(broker, team, start):
    run = team(SMALL, broker.url)
    full = {"stdout": open("/dev/full", "w"), "stderr": open("/dev/full", "w")}  # noqa: SIM115
    try:
        to = ("--broker", broker.url, "--state")
        server = start("deploy", "serve", run.file, *to, run.folder / "server", **full)
        clients = [
            start("deploy", "client", run.file, "--id", k, *to, run.folder / str(k), **full)
            for k in range(3)
        ]
        wait_for(lambda: server.poll() is not None)
        end_in_order(clients)
    finally:
        for stream in full.values():
            stream.close()
    assert_equal_to_the_engine(run, 40)

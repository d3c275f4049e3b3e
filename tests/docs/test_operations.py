"""The page for operators: all of its commands, in order, on a real broker with TLS."""

import re
import sys
import time

import pytest

from helpers import ROOT
from helpers.loopback import disk, play
from helpers.pages import Shell, blocks
from psofed.experiment import Experiment, Features
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.member import Member
from psofed.methods import psofed

PAGE = ROOT / "docs" / "operate.md"
LOOKS = re.compile(
    r"(tail|grep|curl|psofed deploy (fleet (list|readmit)|keys list|restore \w+ --list))\b"
)
SECONDS = 30.0  # until what a command looks at has happened
# On loopback only; as root mosquitto would become a user who may not read the folder of a test.
BROKER = """\
sed -e 's/^listener .*/& 127.0.0.1/' "$2" > "$2".local
[ "$(id -u)" = 0 ] && echo 'user root' >> "$2".local
exec {mosquitto} -c "$2".local
"""
CURL = "exec {python} -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[-1]).read().decode())' \"$@\"\n"


@pytest.fixture
def shell(tmp_path, mosquitto):
    opened = Shell(tmp_path)
    for name, text in {"mosquitto": BROKER, "curl": CURL}.items():
        script = tmp_path / "bin" / name
        script.write_text("#!/bin/sh\n" + text.format(mosquitto=mosquitto, python=sys.executable))
        script.chmod(0o755)
    yield opened
    opened.close()


def alike(quoted, printed):
    """Line by line; other numbers are the same number, but for those with one digit.

    How many answers were lost, at the end of a line, depends on which process starts first.
    """
    lines = [re.escape(" ".join(line.split())) for line in quoted.splitlines()]
    lines = [
        re.sub(r"\d{2,}|\d+(?=\\\.\d)", r"\\d+", line).replace(r"\.\.\.", ".*") for line in lines
    ]
    lines = [re.sub(r"(?<=\+\\ )0$", r"\\d+", line) for line in lines]
    said = "\n".join(" ".join(line.split()) for line in printed.splitlines())
    return re.fullmatch("\n".join(lines), said.strip()) is not None


@pytest.mark.long
def test_the_commands_of_the_page_do_what_it_says(shell):
    found = blocks(PAGE)
    for block, after in zip(found, [*found[1:], None], strict=True):
        if block.how == "save as":
            (shell.work / block.what).write_text(block.text)
        if block.language != "sh":
            continue
        quoted = after.text if after is not None and after.language == "text" else None
        end, looks = time.monotonic() + SECONDS, LOOKS.match(block.text) is not None
        while True:
            printed = shell.run(f"({block.text.strip()}) || true" if looks else block.text)
            if quoted is None or alike(quoted, printed):
                break
            too_late = not looks or time.monotonic() > end
            assert not too_late, f"{block.where}\n{quoted}\n{printed}"
            time.sleep(0.2)
    for log in shell.work.glob("*.log"):
        assert "Traceback" not in log.read_text(), log.name


class Hired(dict):
    """Clients that are there when they are asked for; they have nothing to learn from."""

    def __init__(self, given):
        self.given = given

    def __missing__(self, k):
        return self.setdefault(k, Member(self.given, k, disk(), None))


@pytest.mark.parametrize(("clients", "column"), [(10, 1), (1000, 2)])
def test_state_folders_are_as_large_as_the_page_says(clients, column):
    rows = re.findall(r"^\| (.*?) \| (\S+) \| (\S+) \|$", PAGE.read_text(), re.MULTILINE)
    written = {row[0]: float(row[column]) for row in rows if row[column].isdecimal()}
    world = Experiment(
        clients=clients, cohort=4, rounds=1, features=Features(dim=200),
        methods=(psofed.Options(shared=5),),
    )  # fmt: skip
    given = Deployment(world, Deploy(clock="live"))
    server, members = Coordinator(given, disk()), Hired(given)
    while server.n < 130:  # both generations of what is written every 64 rounds
        play(server, members)
    sizes = {name: len(server.store.disk.read(name)) for name in server.store.disk.names()}
    one = next(iter(members.values())).store.disk
    found = {
        "`record.0` and `record.1`": sizes["record.0"] + sizes["record.1"],
        "`defence.0` and `defence.1`, live": sizes.get("defence.0", 0) + sizes.get("defence.1", 0),
        "50 snapshots (`keep`)": 50 * sizes["snapshot.100"],
        "a client: `record.0` and `record.1`": 2 * len(one.read("record.1")),
    }
    assert {name: size / 1000 for name, size in found.items()} == pytest.approx(written, rel=0.05)

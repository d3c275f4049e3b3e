"""`psofed demo`: broker, server and ten clients here, with crashes, compared with a simulation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from psofed.cli.printing import say

CLIENTS, CRASHES = 10, 3  # how many, and which of them is killed
FILE = """\
clients = {clients}
rounds = {rounds}
cohort = 4
dtype = "float64"
test_samples = 500
methods = [{{ name = "psofed", shared = 40 }}]
deploy = {{ wire = "float64" }}
"""


@click.command()
@click.option("--rounds", type=click.IntRange(min=10), default=300, show_default=True, metavar="N",
              help="Number of rounds.")  # fmt: skip
@click.option("--keep", type=click.Path(path_type=Path),
              help="New folder in which files and logs stay. [default: none stay]")  # fmt: skip
def demo(rounds: int, keep: Path | None) -> None:
    """Run a whole deployment on this machine: broker, server and ten clients as processes.

    Meanwhile the server and a client are killed (kill -9) and started again. At the end the global
    and local models are compared with a simulation. It needs no configuration and uses the
    loopback interface only. A dashboard shows it in the browser.
    """
    from psofed.extras import locks, need

    locks()
    need("paho.mqtt.client", "deploy", "deployments")
    if keep is not None:
        _play(keep, rounds)
        return
    with tempfile.TemporaryDirectory(prefix="psofed-demo-") as folder:
        _play(Path(folder), rounds)


def _play(folder: Path, rounds: int) -> None:
    from psofed.errors import InputError

    file = folder / "run.toml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file.open("x") as new:
            new.write(FILE.format(clients=CLIENTS, rounds=rounds))
    except OSError as error:
        found, right = f"cannot be made: {error.strerror}", "give a new folder"
        raise InputError(str(file), found, right) from None
    from psofed.fleet.broker import Broker

    processes = DemoProcesses(folder, file, rounds)
    broker = Broker(processes.ports[0])
    broker.open()
    say(f"{CLIENTS} clients, cohorts of 4, PSO-Fed, M = 40 of D = 200; MSE on noise-free targets.")
    for number in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C does
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    processes.begin()
    try:
        for who in ("server", *map(str, range(CLIENTS))):
            processes.start(who)
        say(f"Dashboard at http://127.0.0.1:{processes.ports[1]}/")
        bytes_moved = _rounds(processes, rounds)
    finally:
        processes.stop()
        broker.close()
    _prove(file, rounds, bytes_moved)


class DemoProcesses:
    """The processes of the demo, a server and clients: a group that ends with this process.

    Also if that is killed: a shell in the group waits for the end of a pipe that we hold.
    """

    def __init__(self, folder: Path, file: Path, rounds: int) -> None:
        self.folder, self.file = folder, file
        self.pace = max(0.02, 9 / rounds)  # seconds: few rounds must not be over too soon
        self.ports = _free_ports()
        self.running: dict[str, subprocess.Popen[str]] = {}

    def begin(self) -> None:
        """The group, without a member yet."""
        command = ["/bin/sh", "-c", "cat > /dev/null; kill 0"]
        self.group = subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0)

    def start(self, who: str) -> None:
        """The server, or a client by its number."""
        words = ["client", "--id", who]
        if who == "server":
            words = ["serve", "--dashboard", str(self.ports[1])]
            words += ["--set", f"every={self.pace}", "--set", "log=json"]
        words += ["--broker", f"mqtt://127.0.0.1:{self.ports[0]}"]
        command = [sys.executable, "-m", "psofed", "deploy", words[0], str(self.file), *words[1:]]
        with (self.folder / f"{who}.log").open("a") as log:
            self.running[who] = subprocess.Popen(
                [*command, "--state", str(self.folder / who)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if who == "server" else log,
                stderr=log,
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
                process_group=self.group.pid,
                text=True,
            )

    def kill(self, who: str) -> None:
        """kill -9, and start again."""
        name = "the server" if who == "server" else f"client {who}"
        say(f"  kill -9 {name}, and start it again")
        process = self.running.pop(who)
        process.kill()
        process.communicate()
        self.start(who)

    def lines(self) -> Iterator[dict[str, Any]]:
        """What the server reports, until it ends by itself."""
        from psofed.errors import InputError

        while True:
            process = self.running["server"]
            assert process.stdout is not None
            line = process.stdout.readline()
            if line:
                yield json.loads(line)
            elif process.wait():
                text = (self.folder / "server.log").read_text().splitlines()
                raise InputError("the server", f"ended: {text[-1] if text else ''}", "")
            else:
                return

    def stop(self) -> None:
        """End all processes that were started; a SIGTERM meanwhile is ignored."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.group.communicate()
        for process in self.running.values():
            process.communicate()


def _free_ports() -> tuple[int, int]:
    import socket

    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _rounds(processes: DemoProcesses, rounds: int) -> int:
    """Follow the rounds and kill some on the way; the bytes of all frames."""
    kills = {rounds // 3: "server", rounds // 2: str(CRASHES), rounds * 5 // 6: "server"}
    total = 0
    for row in processes.lines():
        total += row["up"] + row["down"]
        if (row["n"] + 1) % max(rounds // 10, 1) == 0 or row["n"] == 0:
            counts = f"{row['total_accepted']} answers, {row['total_lost']} lost"
            say(f"round {row['n'] + 1:4d}: MSE {row['mse_db']:6.2f} dB, {counts}, {total} bytes")
        for n in [n for n in kills if n <= row["n"]]:
            processes.kill(kills.pop(n))
    return total


def _prove(file: Path, rounds: int, bytes_moved: int) -> None:
    from psofed.cli.laws.executors import verified

    say("Simulating the same ...")
    found = verified(file.parent / "server", [file.parent / str(k) for k in range(CLIENTS)])
    print(f"{found.n} rounds, {found.counts['accepted']} of {found.counts['asked']} uploads folded"
          f" in, {bytes_moved} bytes in frames as reported")  # fmt: skip
    print("\n".join(found.lines()))
    sys.exit(0 if found.holds and found.n == rounds and not found.absent else 1)

"""`psofed demo`: broker, server and ten clients here, with crashes, compared with a simulation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from psofed.cli.printing import say

if TYPE_CHECKING:
    from psofed.fleet.protocol.deployment import Deployment

CLIENTS = 10
JOINS, REMOVED, DIES, CRASHES = 10, 8, 6, 3  # clients to whom something happens


@click.command()
@click.option("--rounds", type=click.IntRange(min=10), default=300, show_default=True, metavar="N",
              help="Number of rounds.")  # fmt: skip
@click.option("--shared", type=click.IntRange(1, 200), default=40, show_default=True, metavar="M",
              help="Entries in a message, of D = 200.")  # fmt: skip
@click.option("--keep", type=click.Path(path_type=Path),
              help="New folder in which files and logs stay. [default: none stay]")  # fmt: skip
@click.option("--attack", metavar="NAME", help="What one of the ten clients does, as in"
              " scale:factor=-5. [default: all are honest]")  # fmt: skip
@click.option("--defence", metavar="NAME", help="What the server does about it, as clip."
              " [default: nothing]")  # fmt: skip
@click.option("--open/--no-open", "opened", default=None, help="Open the dashboard in a browser."
              " [default: on a terminal with a display]")  # fmt: skip
def demo(
    rounds: int, shared: int, keep: Path | None, opened: bool | None, **threat: str | None
) -> None:
    """Run a whole deployment on this machine: broker, server and ten clients as processes.

    Meanwhile a device joins, one is removed, one dies for good, the server and a client are killed
    (kill -9) and started again, and the server goes back to a snapshot. At the end the global and
    local models are compared with a simulation of the same history. It needs no configuration and
    uses the loopback interface only. A dashboard shows it in the browser.
    """
    if keep is not None:
        _play(keep, _text(rounds, shared, threat), rounds, opened)
        return
    with tempfile.TemporaryDirectory(prefix="psofed-demo-") as folder:
        _play(Path(folder), _text(rounds, shared, threat), rounds, opened)


def _play(folder: Path, text: str, rounds: int, opened: bool | None) -> None:
    from psofed.errors import InputError
    from psofed.fleet.protocol import deployment as plans

    file = folder / "run.toml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file.open("x") as new:
            new.write(text)
    except OSError as error:
        raise InputError(
            str(file), f"cannot be made: {error.strerror}", "give a new folder"
        ) from None
    plan = plans.read(file)
    say(
        f"{CLIENTS} clients, cohorts of {plan.experiment.cohort}, {plan.experiment.titles[0]} with"
        " D = 200. MSE is on noise-free targets."
    )
    if plan.experiment.threat:
        say(plan.experiment.threat)
    team = Team(folder, file, rounds)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        team.start_all()
        say(f"Dashboard at {team.dashboard}")
        if _is_watched() if opened is None else opened:
            _browse(team)
        bytes_moved = _rounds(team, rounds, plan.settled)
    finally:
        team.stop()
    _prove(plan, folder, rounds, bytes_moved)


def _is_watched() -> bool:
    """Whether a terminal and a display are there, so that a browser may be opened."""
    screen = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    return screen and sys.stderr.isatty()


def _browse(team: Team) -> None:
    """Open the dashboard as soon as it answers; the demo does not wait for the browser."""
    import threading
    import webbrowser

    def work() -> None:
        team.wait_for_dashboard()
        webbrowser.open(team.dashboard)

    threading.Thread(target=work, daemon=True).start()


def _terminated(*_: object) -> None:
    """SIGTERM ends the demo as Ctrl-C does, with all processes that it started."""
    sys.exit(128 + signal.SIGTERM)


def _text(rounds: int, shared: int, threat: dict[str, str | None]) -> str:
    import tomli_w

    from psofed.cli.studies import parsed
    from psofed.federation import schema

    given = {kind: parsed(kind, text) for kind, text in threat.items() if text is not None}
    more = {kind: schema.table(options) for kind, options in given.items()}
    return (
        f"clients = {CLIENTS}\nrounds = {rounds}\ncohort = 4\n"
        'dtype = "float64"\ntest_samples = 500\n'
        f'[[methods]]\nname = "psofed"\nshared = {shared}\n[deploy]\nwire = "float64"\n'
    ) + tomli_w.dumps(more)


class Team:
    """The processes of the demo: a server with its broker, and the clients."""

    def __init__(self, folder: Path, file: Path, rounds: int) -> None:
        self.folder, self.file, self.every = folder, file, max(rounds // 20, 1)
        self.pace = max(0.02, 9 / rounds)  # seconds: few rounds must not be over too soon
        self.port, self.dashboard_port = _free_ports()
        self.dashboard = f"http://127.0.0.1:{self.dashboard_port}/"
        self.running: dict[str, subprocess.Popen[str]] = {}

    def start_all(self) -> None:
        """The server and all clients."""
        for who in ["server", *map(str, range(CLIENTS))]:
            self.start(who)

    def start(self, who: str) -> None:
        """The server, or a client by its number."""
        here = f"127.0.0.1:{self.port}"
        if who == "server":
            shown = ["--dashboard", str(self.dashboard_port)]
            kept = ["--snapshots", str(self.every)]
            pace = ["--every", str(self.pace)]
            rest = ["serve", "--listen", here, *shown, *kept, "--log-json", *pace]
        else:
            rest = ["client", "--id", who, "--broker", f"mqtt://{here}"]
        command = [sys.executable, "-m", "psofed", "deploy", rest[0], str(self.file), *rest[1:]]
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        with (self.folder / f"{who}.log").open("a") as log:
            self.running[who] = subprocess.Popen(
                [*command, "--state", str(self.folder / who)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if who == "server" else log,
                stderr=log,
                env=environment,
                text=True,
            )

    def wait_for_dashboard(self) -> None:
        """Until it listens, or for ten seconds."""
        import socket
        import time

        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.dashboard_port)) == 0:
                    return
            time.sleep(0.1)

    def kill(self, who: str, again: bool = True) -> None:
        """kill -9, and start again."""
        name = "the server" if who == "server" else f"client {who}"
        say(f"  kill -9 {name}" + (", and start it again" if again else " for good"))
        process = self.running.pop(who)
        process.kill()
        process.communicate()
        if again:
            self.start(who)

    def request(self, words: str, **request: Any) -> None:
        """What an operator does with a command; here without waiting for a process to start."""
        from psofed.federation import schema
        from psofed.federation.membership import Change
        from psofed.fleet import requests

        tables = requests.ask(self.folder / "server", request)
        changes = [schema.build(Change, table) for table in tables]
        say(f"  psofed deploy {words}: {'; '.join(requests.in_words(changes))}")

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
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.communicate()


def _free_ports() -> tuple[int, int]:
    import socket

    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _rounds(team: Team, rounds: int, settled: str) -> int:
    """Follow the rounds and disturb them on the way; returns the bytes of all frames."""
    accidents = _accidents(team, rounds, settled)
    total = 0
    for row in team.lines():
        total += row["up"] + row["down"]
        if (row["n"] + 1) % max(rounds // 10, 1) == 0 or row["n"] == 0:
            counts = f"{row['total_accepted']} answers, {row['total_lost']} lost"
            say(f"round {row['n'] + 1:4d}: MSE {row['mse_db']:6.2f} dB, {counts}, {total} bytes")
        for n in [n for n in accidents if n <= row["n"]]:
            accidents.pop(n)()
    return total


def _accidents(team: Team, rounds: int, settled: str) -> dict[int, Callable[[], None]]:
    """What happens after which round."""

    def join() -> None:
        team.request(f"fleet add {JOINS}", act="add", clients=[JOINS])
        team.start(str(JOINS))

    def die() -> None:
        team.kill(str(DIES), again=False)
        team.request(f"fleet remove {DIES}", act="remove", clients=[DIES])

    def go_back() -> None:
        n = rounds // 2 // team.every * team.every
        team.request(f"restore --round {n}", restore=n)

    crashes = {
        rounds // 3: lambda: team.kill("server"),
        rounds // 2: lambda: team.kill(str(CRASHES)),
        rounds * 5 // 6: lambda: team.kill("server"),
    }
    if settled:
        return crashes
    return crashes | {
        rounds // 6: join,
        rounds * 5 // 12: lambda: team.request(
            f"fleet remove {REMOVED}", act="remove", clients=[REMOVED]
        ),
        rounds * 7 // 12: die,
        rounds * 2 // 3: go_back,
    }


def _prove(plan: Deployment, folder: Path, rounds: int, bytes_moved: int) -> None:
    import numpy as np

    from psofed.cli.laws.executors import deployed, simulate, with_history
    from psofed.simulate.reference import TOLERANCE

    say("Simulating the same history ...")
    folders = [folder / str(k) for k in range(CLIENTS + 1) if (folder / str(k)).is_dir()]
    server, local = deployed(plan, folder / "server", folders)
    w, expected = simulate(with_history(plan, folder / "server"), rounds)
    here = ~np.isnan(local).any(axis=1)
    apart = np.abs(local - expected[: len(local)])[here].max(initial=0)
    differences = [np.abs(server.model - w).max(), apart]
    counts = server.ledger.counts
    print(f"{server.n} rounds, {counts['accepted']} of {counts['asked']} uploads folded in, "
          f"{bytes_moved} bytes in frames as reported")  # fmt: skip
    print(f"largest difference to the simulation: global {differences[0]:.1e}, "
          f"local {differences[1]:.1e} ({here.sum()} clients)")  # fmt: skip
    equal = server.n == rounds and max(differences) <= TOLERANCE
    print("The deployment equals the simulation." if equal else "The deployment DIFFERS.")
    sys.exit(0 if equal else 1)

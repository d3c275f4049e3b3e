"""`psofed serve FILE.toml`: the server of a deployment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from psofed.cli.broker_options import Finite, identity, on_stop, options, patiently, say

if TYPE_CHECKING:
    from psofed.dashboard.screen import Dashboard
    from psofed.deploy.mqtt import Address
    from psofed.protocol.coordinator import Closed, Coordinator
    from psofed.protocol.deployment import Deployment


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--state", type=click.Path(path_type=Path), required=True, help="State folder.")
@click.option("--broker", metavar="URL",
              help="mqtt:// or mqtts://HOST:PORT. [default: start an embedded broker]")  # fmt: skip
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:1883", show_default=True,
              help="Address of the embedded broker.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(min=1), metavar="N",
              help="Stop after N rounds. [default: lockstep FILE's rounds, live no end]"
              )  # fmt: skip
@click.option("--deadline", type=Finite(min=0, min_open=True), metavar="S",
              help="Seconds that a round waits for answers. [default: lockstep no limit, live 10]"
              )  # fmt: skip
@click.option("--every", type=Finite(min=0), metavar="S", help="Seconds between rounds."
              " [default: lockstep 0, live 1]")  # fmt: skip
@click.option("--patience", type=Finite(min=0, min_open=True), metavar="S",
              help="Seconds without an answer after which a client is not waited for, nor asked"
              " until it is heard again (live). [default: 4 times as long as it usually takes, at"
              " least 3, or 0.5 while others fall asleep]")  # fmt: skip
@click.option("--spare", type=click.IntRange(min=0), default=0, show_default=True, metavar="N",
              help="Ask N more members in each round than the cohort has, and close it when as"
              " many as that have answered (live).")  # fmt: skip
@click.option("--test", type=click.Path(path_type=Path),
              help="CSV file of test samples. [default: lockstep the experiment's, live none]"
              )  # fmt: skip
@click.option("--start", type=click.IntRange(min=1, max=2**24 - 1), default=1, metavar="N",
              help="Count this start as N at least, after clients were told a higher one than there"
              " was.")  # fmt: skip
@click.option("--snapshots", type=click.IntRange(min=1), default=100, show_default=True,
              metavar="N", help="Rounds from one snapshot of the model to the next"
              " (`psofed restore`).")  # fmt: skip
@click.option("--keep", type=click.IntRange(min=0), default=50, show_default=True, metavar="N",
              help="Snapshots that are kept; 0 makes none.")  # fmt: skip
@click.option("--from", "origin", type=click.Path(path_type=Path), metavar="MODEL",
              help="Begin with this model: a state folder, a file of `psofed fit`, an export as"
              " JSON, or a .npy file. Only for a new state folder.")  # fmt: skip
@click.option("--log-json", is_flag=True, help="Print one line of JSON per round.")
@click.option("--dashboard", metavar="[HOST:]PORT",
              help="Serve a dashboard for browsers; port 0 takes any free port.")  # fmt: skip
@click.option("--dashboard-token-file", type=click.Path(path_type=Path), metavar="FILE",
              help="File with the token of the dashboard, required if other machines can reach it."
              " [default: $PSOFED_DASHBOARD_TOKEN]")  # fmt: skip
@options
def serve(file: Path, state: Path, broker: str | None, listen: str, **wishes: Any) -> None:
    """Run the server of the run in FILE: in each round invite, collect, fold and commit.

    The state folder holds all state. A server that is started again continues after its last
    commit. model.npy in the folder is the global model. SIGTERM and Ctrl-C stop it cleanly.
    """
    from psofed.deploy.mqtt import Address
    from psofed.protocol import deployment as plans

    plan = plans.read(file)
    rounds = last_round(plan, wishes["rounds"])
    only_live(plan, wishes)
    if broker is None:
        address = Address.parse(f"mqtt://{listen}", "--listen")
    else:
        address = Address.parse(broker)
    if warning := address.check(wishes["plain"]):
        say(f"Warning: {warning}")
    run(plan, state, address, rounds, broker is None, wishes)


def last_round(plan: Deployment, wanted: int | None) -> int | None:
    """How many rounds to serve: on the lockstep clock those of the experiment, else no limit."""
    from psofed.errors import InputError

    if plan.deploy.clock == "live":
        return wanted
    most = plan.experiment.rounds
    if wanted is not None and wanted > most:
        raise InputError("--rounds", f"is {wanted}", f"use at most the experiment's {most}")
    return wanted or most


def only_live(plan: Deployment, wishes: Any) -> None:
    """In lockstep every member of a cohort is waited for: its simulation is the twin."""
    from psofed.errors import InputError

    if plan.deploy.clock == "lockstep":
        for name in ("patience", "spare"):
            if wishes[name]:
                found = f"is {wishes[name]:g}, but in lockstep the whole cohort is waited for"
                raise InputError(f"--{name}", found, 'leave it out, or use clock = "live"')


def run(
    plan: Deployment, state: Path, address: Address, rounds: int | None, embedded: bool, wishes: Any
) -> None:
    """Start everything, serve the rounds, stop everything."""
    from psofed.deploy import mqtt, secret
    from psofed.deploy.broker import Broker
    from psofed.deploy.desk import Desk
    from psofed.deploy.roll_call import RollCall
    from psofed.deploy.server_loop import ServerLoop
    from psofed.protocol import seal
    from psofed.protocol.coordinator import Coordinator
    from psofed.protocol.store import StateFolder, starting

    key = None if wishes["secret"] is None else secret.read(wishes["secret"])
    largest = plan.largest + seal.SIZE
    broker = Broker(address, largest) if embedded else None
    who = identity(wishes["ca"], wishes["cert"], wishes["key"])
    if address.tls and who is not None:
        who.check("server")
    dashboard = open_dashboard(wishes["dashboard"], wishes["dashboard_token_file"])
    topic = mqtt.up_topic(plan.deploy.run, "+")
    link = mqtt.Link(address, "server", topic, largest, wishes["qos"], who)
    folder = StateFolder(state)
    w = None if wishes["origin"] is None else _known(plan, wishes["origin"])
    with starting(folder):
        coordinator = Coordinator(plan, folder, key, wishes["start"])
        if w is not None:
            coordinator.warm(w)
        if wishes["spare"]:
            coordinator.over_select(wishes["spare"])
        plan.keep(folder)
    link.clients = coordinator.server.seats
    coordinator.snapshots.every = wishes["snapshots"]
    coordinator.snapshots.most = 0 if plan.settled else wishes["keep"]
    for note in [*folder.notes, *coordinator.store.notes, *coordinator.seldom.notes]:
        say(f"Warning: {state}: {note}")
    live = plan.deploy.clock == "live"
    deadline, every = wishes["deadline"] or (10.0 if live else None), wishes["every"]
    every = (1.0 if live else 0.0) if every is None else every
    log = Log(coordinator, wishes["test"], wishes["log_json"])
    desk = Desk(coordinator, state)
    server = ServerLoop(coordinator, link, deadline, every, log.round, say, desk=desk)
    server.roll_call = RollCall(wishes["patience"]) if live else None
    on_stop(server.stop)
    if broker is not None:
        broker.open()
    if dashboard is not None:
        log.show(server, dashboard, state, rounds)
    link.open()
    where = f"round {coordinator.n}, start {coordinator.incarnation}"
    tested = f"; MSE on {log.targets}" if log.targets else ""
    say(f"Serving run {plan.deploy.run} from {where}{tested}")
    say(plan.defence)
    try:
        log.watch(server)
        server.run(rounds)
    finally:
        log.close()
        link.close()
        if dashboard is not None:
            dashboard.close()
        if broker is not None:
            broker.close()
    say(f"Stopped at round {coordinator.n}; the state is in {state}")


def _known(plan: Deployment, path: Path) -> Any:
    """The model to begin with."""
    from psofed.export import warm_start

    if path.suffix == ".npy":
        say(f"Warning: {path} does not say with which features it was learned")
    return warm_start.weights(plan, path)


def open_dashboard(where: str | None, token_file: Path | None) -> Dashboard | None:
    """Take the dashboard's port before anything else begins, if one is wanted."""
    import os

    from psofed.errors import InputError

    if where is None:
        if token_file is not None:
            right = "add one, e.g. --dashboard 8080"
            raise InputError("--dashboard-token-file", "is given without a --dashboard", right)
        return None
    from psofed.dashboard.screen import Dashboard
    from psofed.deploy import private

    token = os.environ.get("PSOFED_DASHBOARD_TOKEN") or None
    if token_file is not None:
        token = private.read(token_file, "put the token there, on one line").strip()
    return Dashboard(where, token)


class Log:
    """What is said about each round: a line, or a live view on a terminal."""

    def __init__(self, coordinator: Coordinator, test: Path | None, as_json: bool) -> None:
        from psofed.deploy.judge import targets, test_set

        self.coordinator, self.as_json = coordinator, as_json
        self.judge = test_set(coordinator.plan, test)
        self.targets = targets(coordinator.plan, test) if self.judge is not None else ""
        self.view: Any = None
        self.watched: Any = None

    def show(self, server: Any, dashboard: Dashboard, state: Path, rounds: int | None) -> None:
        """Also show it in browsers."""
        dashboard.open(server, state, rounds, self.targets)
        for warning in dashboard.warnings:
            say(f"Warning: {state}: {warning}")
        self.watched = dashboard.watch
        server.on_news = self.news
        say(f"Dashboard at {dashboard.url}")
        if warning := dashboard.listener.access.warning:
            say(f"Warning: {warning}")

    def news(self, line: str) -> None:
        """A message of the server, also shown on the dashboard."""
        self.watched.tell(line)
        say(line)

    def watch(self, server: Any) -> None:
        """Show the status while it runs, if there is a terminal."""
        if sys.stderr.isatty() and not self.as_json:
            from psofed.cli.view import View

            self.view = View(server, self.targets)
            self.view.open()

    def close(self) -> None:
        """End the view."""
        if self.view is not None:
            self.view.close()

    def round(self, closed: Closed) -> None:
        """One line about a round."""
        mse = self.judge(self.coordinator.server.model) if self.judge is not None else None
        if self.watched is not None:
            self.watched.close(closed, mse)
        counts = self.coordinator.server.ledger.counts
        if self.view is not None:
            self.view.update(closed, mse, counts)
        elif self.as_json:
            totals = {f"total_{key}": counts[key] for key in ("accepted", "refused", "lost")}
            table = {**vars(closed), "mse_db": mse, **totals}
            patiently(json.dumps(table), sys.stdout)
        else:
            error = "" if mse is None else f", MSE {mse:.2f} dB"
            missing = f", missing {', '.join(map(str, closed.missing))}" if closed.missing else ""
            patiently(
                f"round {closed.n}: {closed.accepted} of {closed.asked} answered{missing},"
                f" {closed.up} bytes up, {closed.down} down{error}",
                sys.stdout,
            )

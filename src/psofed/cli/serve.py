"""`psofed deploy serve FILE.toml`: the server of a deployment."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from psofed.cli.logs import kept, out, say
from psofed.cli.verbs import FILE, Deploys, deploy_options

if TYPE_CHECKING:
    from psofed.fleet.broker import Address
    from psofed.fleet.dashboard.board import Board
    from psofed.fleet.dashboard.listener import Dashboard
    from psofed.fleet.identity import Identity
    from psofed.fleet.mqtt import Link
    from psofed.fleet.protocol.coordinator import Coordinator
    from psofed.fleet.protocol.deployment import Deployment
    from psofed.fleet.protocol.durable import Closed
    from psofed.fleet.protocol.store import StateFolder
    from psofed.fleet.server_loop import ServerLoop


@click.command(cls=Deploys)
@click.argument("file", type=FILE)
@click.option("--state", type=FILE, required=True, help="State folder.")
@click.option("--broker", metavar="URL", required=True, help="mqtt:// or mqtts://HOST:PORT.")
@click.option("--rounds", type=click.IntRange(min=1), metavar="N",
              help="Stop after N rounds. [default: lockstep FILE's rounds, live no end]"
              )  # fmt: skip
@click.option("--dashboard", metavar="[HOST:]PORT",
              help="Serve a dashboard for browsers, and metrics; port 0 takes any free port."
              )  # fmt: skip
@deploy_options
def serve(file: Path, state: Path, broker: str, **options: Any) -> None:
    """Run the server of the run in FILE: in each round invite, collect, fold and commit.

    The state folder holds all state. A server that is started again continues after its last
    commit. model.npy in the folder is the global model. SIGTERM and Ctrl-C stop it cleanly.
    """
    from psofed.fleet.broker import Address
    from psofed.fleet.protocol import deployment as plans

    plan = plans.read(file, options["settings"])
    rounds = last_round(plan, options["rounds"])
    address = Address.parse(broker)
    with kept(plan.deploy.log):
        if warning := address.check(options["plain"]):
            say(f"Warning: {warning}")
        run(plan, state, address, rounds, options)


def last_round(plan: Deployment, wanted: int | None) -> int | None:
    """How many rounds to serve: on the lockstep clock those of the experiment, else no limit."""
    from psofed.errors import InputError

    most = plan.experiment.rounds
    if plan.deploy.live:
        return wanted
    if wanted is not None and wanted > most:
        raise InputError("--rounds", f"is {wanted}", f"use at most the experiment's {most}")
    return wanted or most


def run(plan: Deployment, state: Path, address: Address, rounds: int | None, options: Any) -> None:
    """Start everything, serve the rounds, stop everything."""
    from psofed.fleet import mqtt
    from psofed.fleet.broker import up_topic
    from psofed.fleet.dashboard.listener import Dashboard
    from psofed.fleet.identity import read_secret
    from psofed.fleet.protocol import wire
    from psofed.fleet.protocol.store import StateFolder

    key = None if options["secret"] is None else read_secret(options["secret"])
    largest = plan.largest + wire.SEAL
    who = identity(options["ca"], options["cert"], options["key"])
    if address.tls and who is not None:
        who.check("server")
    where = options["dashboard"]
    dashboard = None if where is None else Dashboard(where, options["plain"])
    topic = up_topic(plan.deploy.run, "+")
    link = mqtt.Link(address, "server", topic, largest, plan.deploy.qos, who)
    coordinator = started(plan, StateFolder(state), key)
    link.clients = coordinator.server.table
    log = Log(coordinator)
    server = loop(coordinator, link, state, log)
    on_stop(server.stop)
    if dashboard is not None:
        log.show(server, dashboard, rounds)
    link.open()
    where = f"round {coordinator.n}, start {coordinator.incarnation}"
    tested = f"; MSE on {log.targets}" if log.targets else ""
    say(f"Serving run {plan.deploy.run} from {where}{tested}")
    say(plan.defence)
    try:
        with asked(state, global_answers(coordinator)):
            server.run(rounds)
    finally:
        link.close()
        if dashboard is not None:
            dashboard.close()
    say(f"Stopped at round {coordinator.n}; the state is in {state}")


def started(plan: Deployment, folder: StateFolder, key: bytes | None) -> Coordinator:
    """The server of this folder, which goes on or begins: then perhaps with a known model."""
    from psofed.fleet.protocol.coordinator import Coordinator
    from psofed.fleet.protocol.store import starting
    from psofed.tables import export

    origin = plan.deploy.origin
    w = export.weights(plan, Path(origin)) if origin else None
    with starting(folder):
        coordinator = Coordinator(plan, folder, key, plan.deploy.start)
        if w is not None:
            coordinator.warm(w)
        plan.keep(folder)
    for note in [*folder.notes, *coordinator.store.notes, *coordinator.seldom.notes]:
        say(f"Warning: {folder.name}: {note}")
    return coordinator


def loop(coordinator: Coordinator, link: Link, state: Path, log: Log) -> ServerLoop:
    """The loop with the times of the plan: on the live clock nobody is waited for without end."""
    from psofed.fleet.requests import Requests
    from psofed.fleet.server_loop import ServerLoop
    from psofed.fleet.timeouts import Timeouts

    deploy, requests = coordinator.plan.deploy, Requests(coordinator, state)
    deadline = deploy.deadline or (10.0 if deploy.live else None)
    every = (1.0 if deploy.live else 0.0) if deploy.every is None else deploy.every
    server = ServerLoop(coordinator, link, deadline, every, log.round, log.news, requests=requests)
    server.timeouts = Timeouts(deploy.patience) if deploy.live else None
    return server


def dashboard_page(run: str) -> str:
    """The page that shows a board."""
    from psofed.report.page import CHART_STYLES, CHARTS, document

    styles = (*CHART_STYLES, "dashboard.css")
    return document(f"psofed: {run}", {}, (*CHARTS, "dashboard.js"), styles, connects=True)


class Log:
    """What is said about each round, and shown by a dashboard."""

    def __init__(self, coordinator: Coordinator) -> None:
        from psofed.fleet.samples import targets, test_set

        self.coordinator = coordinator
        self.judge = test_set(coordinator.plan)
        self.targets = targets(coordinator.plan) if self.judge is not None else ""
        self.board: Board | None = None

    def show(self, server: ServerLoop, dashboard: Dashboard, rounds: int | None) -> None:
        """Also show it in browsers."""
        from psofed.fleet.dashboard.board import Board

        self.board = Board(server, rounds, self.targets)
        dashboard.open(self.board, dashboard_page(self.coordinator.plan.deploy.run))
        say(f"Dashboard at {dashboard.url}")
        if dashboard.warning:
            say(f"Warning: {dashboard.warning}")

    def news(self, line: str) -> None:
        """A message of the server, also shown on the dashboard."""
        if self.board is not None:
            self.board.note(line)
        say(line)

    def round(self, closed: Closed) -> None:
        """One line about a round."""
        mse = self.judge(self.coordinator.server.model) if self.judge is not None else None
        if self.board is not None:
            self.board.close(closed, mse)
        counts, known = self.coordinator.server.ledger.counts, self.coordinator.names.known()

        def called(clients: tuple[int, ...]) -> list[str | int]:
            return [known.get(k, k) for k in clients]

        if self.coordinator.plan.deploy.log == "json":
            totals = {f"total_{key}": counts[key] for key in ("accepted", "refused", "lost")}
            who = {"missing": called(closed.missing), "left_out": called(closed.left_out)}
            table = {**vars(closed), **who, "mse_db": mse, **totals}
            out(json.dumps(table))
        elif self.coordinator.plan.deploy.log == "text":
            error = "" if mse is None else f", MSE {mse:.2f} dB"
            gone = ", ".join(map(str, called(closed.missing)))
            missing = f", missing {gone}" if gone else ""
            answered = f"{closed.accepted} of {closed.asked} answered{missing}"
            traffic = f"{closed.up} bytes up, {closed.down} down"
            out(f"round {closed.n}: {answered}, {traffic}{error}")


@contextmanager
def asked(state: Path, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> Iterator[None]:
    """Other programs may ask meanwhile; where there can be no socket, they cannot."""
    from psofed.fleet.queries import Questions

    questions = Questions(state, answer)
    try:
        questions.open()
    except OSError as error:
        say(f"Warning: {questions.path}: {error.strerror}: other programs cannot ask")
    try:
        yield
    finally:
        questions.close()


def global_answers(coordinator: Coordinator) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What others ask of the global model; of a table, rows without a past."""
    from psofed.fleet import samples
    from psofed.fleet.protocol import server_state
    from psofed.streams.contract import about

    plan = coordinator.plan
    task, stream = plan.method().task, plan.experiment.stream
    read = samples.reading(stream, plan.experiment.clients)  # rows of nobody in particular

    def answer(row: dict[str, Any]) -> dict[str, Any]:
        question = samples.Sample(read.what_if(row), None)
        x = samples.checked(question, task.taps, task.dtype, plan.deploy.bound).x
        now = coordinator.server.now  # a value that nobody changes
        if (w := server_state.model(now.method, now.state)) is None:
            raise samples.MalformedError("only the clients of this method have models")
        y = float(task.learner.predict(w, task.features(x[None]))[0])
        return {"y": about(stream).restore(y), "round": now.n}

    return answer


def identity(ca: Path | None, cert: Path | None, key: Path | None) -> Identity | None:
    """The identity that the options name, all three or none."""
    from psofed.errors import InputError
    from psofed.fleet.identity import Identity

    if ca is None and cert is None and key is None:
        return None
    if ca is None or cert is None or key is None:
        raise InputError("--ca, --cert and --key", "belong together", "give all three")
    return Identity(ca, cert, key)


def on_stop(stop: Callable[[], None]) -> None:
    """Stop cleanly on SIGTERM and Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())

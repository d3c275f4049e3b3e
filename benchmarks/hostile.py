"""Hostile messages: what strangers and attackers send beside honest clients, in memory and at a
broker. Nothing of it may change a model, end a server or block a client."""

from __future__ import annotations

import sys
import tempfile
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from trials import ROUNDS, WORLDS, Tally, close, same, undisturbed, world

from helpers import programs, stranger
from helpers.devices import Mosquitto, Team, wait_for
from helpers.loopback import Line
from helpers.runs import SMALL, assert_equal_to_the_engine
from helpers.virtual_disk import Chance, VirtualDisk
from psofed.experiment import Experiment, Features
from psofed.fleet import server_loop
from psofed.fleet.broker import down_topic, up_topic
from psofed.fleet.protocol import coordinator, deployment, wire
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.member import Member
from psofed.fleet.samples import replay
from psofed.methods import psofed
from psofed.stages.checks import outliers

SECRET = bytes(range(32))
SHARE, REPLIES = 16, 5  # of rule 16, told again: messages that wait, and answers in a second
FLOOD = 200  # messages at once
TRIES = 40  # how often a round asks before somebody is said to be blocked


class Wire(Line):
    """A link whose messages come from this process, through what a broker's would come through."""

    def __init__(self, clients: int) -> None:
        super().__init__()
        self.clients, self.largest, self.qos = range(clients), 10_000, 0
        self._client = SimpleNamespace(ack=lambda mid, qos: None)

    def arrive(self, topic: str, data: bytes, retain: bool = False) -> None:
        """As if the broker had delivered it."""
        message = SimpleNamespace(topic=topic, payload=data, retain=retain, mid=0, qos=0)
        self._on_message(None, None, message)


class HostileRun:
    """One deployment, in memory, with or without seals, and somebody who wants to disturb it."""

    def __init__(self, seed: int, number: int) -> None:
        self.chance = np.random.default_rng([seed, number])
        self.plan, streams = world(number % WORLDS)
        self.sealed = bool(self.chance.integers(2))
        disk = VirtualDisk("d", Chance(seed, number))
        self.server = Coordinator(self.plan, disk, SECRET if self.sealed else None)
        self.link = Wire(len(streams))
        self.loop = server_loop.ServerLoop(self.server, self.link)  # type: ignore[arg-type]
        self.members = [
            Member(self.plan, k, VirtualDisk(str(k), Chance(seed, k)), source, self.key(k))
            for k, source in enumerate(streams)
        ]
        self.left = self.forged = self.jumps = 0

    def key(self, k: int) -> bytes | None:
        """As `psofed deploy keys` gives it to client k."""
        return coordinator.derive(SECRET, k) if self.sealed else None

    def round(self) -> None:
        """Until all have answered, in between whatever comes to a bad mind."""
        n = self.server.n
        for _ in range(TRIES):
            for k, frame in self.server.frames().items():
                for _ in range(int(self.chance.integers(3))):
                    self.disturb(k, frame)
                answer, _ = self.members[k].take(frame)
                self.link.arrive(up_topic("p", k), answer or b"")
            if len(self.link.inbox) > SHARE * (len(self.members) + 1):
                raise AssertionError(f"{len(self.link.inbox)} messages wait")
            while (event := self.link.get(0)) is not None:
                self.loop._react(event)
            if not self.server.server.missing:
                same(self.server.commit().n, n, "the round that was closed")
                return
        raise AssertionError(f"round {n} waits for {self.server.missing} without end")

    def disturb(self, k: int, frame: bytes) -> None:
        """One hostile act, on the channel of client k or to it."""
        acts = [self.boast, self.leave, self.flood, self.jump, self.repeat]
        acts += [self.forge, self.reflect, self.mirror, self.impersonate] * self.sealed
        acts[int(self.chance.integers(len(acts)))](k, frame)

    def upload(self, k: int, n: int | None = None) -> bytes:
        """What client k could have sent in a round, but for its values and its seal."""
        n = self.server.n if n is None else n
        body = np.full(self.server.server.method.shared, 9.0).tobytes()  # type: ignore[attr-defined]
        return wire.encode(wire.Frame(wire.UPLOAD, self.plan.digest, n, wire="float64", body=body))

    def boast(self, k: int, frame: bytes) -> None:
        """An attacker says that it has taken part in the last round of all."""
        hello = wire.encode(wire.Frame(wire.HELLO, self.plan.digest, wire.LAST_ROUND))
        self.link.arrive(up_topic("p", k), wire.seal(self.key(k), wire.UP, hello))

    def leave(self, k: int, frame: bytes) -> None:
        """An upload is left at the broker."""
        self.left += 1
        data = wire.seal(self.key(k), wire.UP, self.upload(k))
        self.link.arrive(up_topic("p", k), data, retain=True)

    def flood(self, k: int, frame: bytes) -> None:
        """A client greets many times: this one, or another."""
        who = int(self.chance.integers(len(self.members)))
        hello = self.members[who].hello()
        for _ in range(FLOOD):
            self.link.arrive(up_topic("p", who), hello)

    def repeat(self, k: int, frame: bytes) -> None:
        """A client says again and again what it could have said in an earlier round."""
        who = int(self.chance.integers(len(self.members)))
        sealed = wire.seal(self.key(who), wire.UP, self.upload(who, max(self.server.n - 1, 0)))
        for _ in range(FLOOD if self.server.n else 0):
            self.link.arrive(up_topic("p", who), sealed)

    def jump(self, k: int, frame: bytes) -> None:
        """An invitation of the last start that a server can have: all later ones would be older."""
        body = np.full(self.server.server.method.shared, 9.0).tobytes()  # type: ignore[attr-defined]
        made = wire.Frame(wire.INVITE, self.plan.digest, self.server.n, wire.LAST_INCARNATION,
                          "float64", body)  # fmt: skip
        same(self.members[k].take(wire.encode(made) + bytes(8) * self.sealed)[0], None, "an answer")

    def forge(self, k: int, frame: bytes) -> None:
        """An upload with a seal that was guessed."""
        self._wrong(k, self.upload(k) + self.chance.bytes(wire.SEAL))

    def impersonate(self, k: int, frame: bytes) -> None:
        """An attacker uses its own key for another client."""
        other = (k + 1) % len(self.members)
        self._wrong(k, wire.seal(self.key(other), wire.UP, self.upload(k)))

    def reflect(self, k: int, frame: bytes) -> None:
        """What the server has said is said to the server."""
        self._wrong(k, self.server.hello(k))

    def mirror(self, k: int, frame: bytes) -> None:
        """What a client has said is said to the client."""
        found = self.members[k].take(self.members[k].hello())
        same(found[1].startswith("the seal is wrong"), True, f"whether it is refused ({found[1]})")

    def _wrong(self, k: int, data: bytes) -> None:
        """The server's outcome is that of a wrong seal; past the queue, where it might be full."""
        self.forged += 1
        same(self.server.take(k, data), "mac", "the outcome of a forged message")

    def check(self) -> None:
        """As if nobody had disturbed."""
        counts, ledger = self.server.server.ledger.counts, self.server.server.ledger
        same(counts["accepted"], counts["asked"], "the answers that count")
        same(self.link.retained, self.left, "the retained messages that were ignored")
        same(ledger.reasons["mac"], self.forged, "the forged messages that were counted")
        most = 2 * REPLIES * (len(self.members) + 1)  # in one second, or in two
        same(len(self.link.sent) <= most, True, f"whether {len(self.link.sent)} replies are few")
        same(max(m.incarnation for m in self.members), 1, "the start that was seen")


def hostile_run(seed: int, start: int, stop: int) -> Tally:
    """Some deployments in a row, each disturbed in every round."""
    tally = Tally()
    for number in range(start, stop):
        tally.trials += 1
        try:
            one = HostileRun(seed, number)
            for _ in range(ROUNDS):
                one.round()
            one.check()
            w, _ = undisturbed(number % WORLDS)
            close(one.server.server.state["w"], w, "the global model")
            _counted(seed, number)
        except (Exception, SystemExit):
            tally.failures += 1
            tally.first = tally.first or f"number {number}:\n{traceback.format_exc(limit=-3)}"
    return tally


def _counted(seed: int, number: int) -> None:
    """A client that checks its samples and is restarted: every sample is still accounted for."""
    experiment = Experiment(clients=3, cohort=3, rounds=ROUNDS, seed=number, dtype="float64",
                            features=Features(dim=5), methods=(psofed.Options(shared=2),),
                            check=outliers.Options())  # fmt: skip
    plan = Deployment(experiment, Deploy(wire="float64"))
    disk, here = VirtualDisk("d", Chance(seed, number)), VirtualDisk("c", Chance(seed, number))
    server, member = Coordinator(plan, disk), Member(plan, 0, here, replay(experiment, 0))
    for n in range(ROUNDS):
        member.take(server.frames()[0])
        server.commit()
        if n == number % ROUNDS:
            member = Member(plan, 0, here, replay(experiment, 0))
    found = member.client.checked
    same(found["seen"], ROUNDS, "the samples that were seen")
    told = sum(count for name, count in found.items() if name != "seen")
    same(told, found["seen"], "the samples that were learned or refused")


def hostile_broker(acts: int, seed: int = 1) -> tuple[int, int]:
    """Real processes on a real broker, and a stranger there; how often it disturbed, and replies.

    It leaves messages, takes the names of sessions, claims to be ahead, invites with the last
    start of all, sends what is too large, and floods. The run ends with the engine's numbers.
    """
    mosquitto = programs.find("mosquitto")
    chance, done = np.random.default_rng(seed), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "run.toml"
        file.write_text(SMALL.replace("rounds = 40", f"rounds = {max(acts, 10)}"))
        digest, broker = deployment.read(file).digest, Mosquitto(mosquitto, folder)
        team = Team(folder, file, broker.url, serve=("--set", "every=0.2"))
        try:
            for who in ("server", 0, 1, 2):
                team.start(who)
            wait_for(lambda: "round 1" in team.log("server"))
            while done < acts and team.running["server"].poll() is None:
                _act(broker.port, digest, done, chance)
                done += 1
            wait_for(lambda: team.running["server"].poll() is not None, seconds=600)
            same(team.running.pop("server").returncode, 0, "the server's exit code")
        finally:
            team.stop()
            broker.stop()
        assert_equal_to_the_engine(team, max(acts, 10))
        return done, team.log("server").count("Alarm (")


def _act(port: int, digest: int, number: int, chance: Any) -> None:
    k = int(chance.integers(3))
    up, down = up_topic("p", k), down_topic("p", k)
    boast = wire.encode(wire.Frame(wire.HELLO, digest, wire.LAST_ROUND))
    last = wire.Frame(wire.INVITE, digest, number, wire.LAST_INCARNATION, "float64", bytes(320))
    kind = number % 6
    if kind == 0:
        stranger.say(port, up, boast, retain=True)
    elif kind == 1:
        stranger.say(port, down, wire.encode(last), retain=bool(chance.integers(2)))
    elif kind == 2:
        stranger.say(port, up, boast)
    elif kind == 3:
        stranger.say(port, up, bytes(1_000_000))
    elif kind == 4:
        for name in ("server", "p-server", f"p-{k}", str(k)):
            stranger.connect(port, name).close()
    else:
        with stranger.connect(port, "flood") as line:
            line.sendall(stranger.publication(up, boast) * 5_000)
            line.sendall(stranger.packet(0xE0, b""))
            line.recv(1)

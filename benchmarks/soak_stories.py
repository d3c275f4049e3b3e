"""Of the soak: what happens to a fleet, and what an operator has to see of it.

A story yields seconds to wait, or a sign that has to be seen in time.
"""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from soak_fleet import CLIENTS, NAMES, Fleet, damage, row, wipe

from helpers.processes import end
from psofed.fleet.queries import ask

TICK = 0.3  # seconds from one row to the next: an hour of the rows
TERM = 2.0  # seconds within which everybody ends


@dataclass
class Sign:
    """What has to be seen within so many seconds."""

    text: str
    seen: Callable[[], Any]
    seconds: float = 60.0


Story = Iterator[float | Sign]
Change = Callable[[int, dict[str, Any]], list[Any]]  # of hour n and its row: the lines that come


@dataclass
class Scene:
    """The fleet, what its sensors do to rows, and what its dashboard said last."""

    fleet: Fleet
    changes: dict[str, Change] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)  # clients in a story, which are not killed
    state: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # what went wrong otherwise
    slowest: float = 0.0  # seconds until a question of another program was answered

    @contextmanager
    def rows(self, change: Change, *whose: str) -> Iterator[None]:
        """Meanwhile these sensors say something else."""
        self.changes |= dict.fromkeys(whose, change)
        try:
            yield
        finally:
            for who in whose:
                self.changes.pop(who, None)

    def cell(self, who: str, name: str) -> Any:
        """What the dashboard shows of a client."""
        row = self.state.get("clients", {}).get(str(NAMES.index(who)))
        return row and row[self.state["about"]["columns"].index(name)]

    def alarm(self, name: str, text: str = "") -> Callable[[], bool]:
        """Whether an alarm with this text is on."""
        return lambda: name in self.alarms and text in self.alarms[name]

    @property
    def alarms(self) -> dict[str, str]:
        """Those that are on."""
        return dict(self.state.get("alarms", {}))

    def sensor(self, who: str, text: str) -> Sign:
        """The alarm, and what is said of this client."""
        on = self.alarm("sensors")
        seen = lambda: on() and text in (self.cell(who, "sensor") or "")  # noqa: E731
        return Sign(f'alarm sensors: "{text}"', seen, 150)

    def calm(self, who: str) -> Sign:
        """Its samples are fine again."""
        return Sign("and its end", lambda: self.cell(who, "sensor") == "")

    def answers(self, who: str) -> Sign:
        """It takes part in a later round than that of now."""
        n = self.state.get("n", 0)
        return Sign("answers again", lambda: (self.cell(who, "last") or 0) > n)

    def more(self, who: str, name: str, count: float, text: str) -> Sign:
        """A count of this client has risen by so many."""
        before = self.cell(who, name) or 0
        return Sign(text, lambda: (self.cell(who, name) or 0) >= before + count)

    def said(self, who: str, text: str, named: str = "") -> Sign:
        """A new line in its log, which may have a name, and others' too."""
        path = self.fleet.log(who)
        size = path.stat().st_size

        def seen() -> bool:
            lines = path.read_text()[size:].splitlines()
            return any(text in line and named in line for line in lines)

        return Sign(f'log: "{text}"', seen)

    def stop(self, who: str) -> None:
        """SIGTERM, with an end in time and the code of success."""
        seconds, code = self.fleet.stop(who)
        if seconds > TERM or code:
            self.notes.append(f"{who} ended with code {code} after {seconds:.1f} s")


def silent(scene: Scene, who: str) -> Story:
    """A sensor says nothing, and its program stays."""
    with scene.rows(lambda n, row: [], who):
        yield scene.sensor(who, "nothing learned for")
        yield 35
    yield scene.calm(who)


def slow(scene: Scene, who: str) -> Story:
    """A sensor that takes 75 seconds for a row."""
    with scene.rows(lambda n, row: [row] * (n % int(75 / TICK) == 0), who):
        yield scene.sensor(who, "nothing learned for")
        yield scene.calm(who)


def stuck(scene: Scene, who: str) -> Story:
    """Its label stays the same."""
    with scene.rows(lambda n, row: [row | {"load": 26.0}], who):
        yield scene.sensor(who, "the label stays the same")
    yield scene.calm(who)


def ended(scene: Scene, who: str) -> Story:
    """The program of the sensor ends; later both start again."""
    scene.fleet.running[who].stdin.close()  # type: ignore[union-attr]
    yield scene.sensor(who, "its samples have ended")
    scene.stop(who)
    scene.fleet.start(who)
    yield scene.calm(who)


def all_silent(scene: Scene) -> Story:
    """What feeds all sensors fails."""
    with scene.rows(lambda n, row: [], *NAMES):
        alarm = scene.alarm("sensors", "no client has learned anything")
        yield Sign("alarm sensors: no client has learned anything", alarm, 150)
        yield 15
    yield Sign("and its end", lambda: not scene.alarm("sensors", "no client")())


def future(scene: Scene, who: str) -> Story:
    """Rows dated years ahead, between those of now."""
    ahead = datetime.now() + timedelta(days=1500)
    with scene.rows(lambda n, row: [row | {"time": ahead.isoformat()}, row], who):
        yield scene.more(who, "unlearned", 20, "metric of skipped rows")
        yield scene.more(who, "learned", 20, "and the others are learned")


def what_if(scene: Scene, who: str) -> Story:
    """Other programs ask for what is not so, in the tick of each row and before it."""
    wild, state = {"temp": 90.0, "wind": 60.0}, scene.fleet.folder / who

    def asked(n: int, row: dict[str, Any]) -> list[Any]:
        question = {"time": row["time"]} | wild
        return [question | {"ask": True}, question, row, question | {"ask": True}]

    answered = 0
    with scene.rows(asked, who):
        for number in range(100):
            begun = monotonic()
            found = ask(state, id=number, row=wild)
            scene.slowest = max(scene.slowest, monotonic() - begun)
            answered += found["id"] == number and found.keys() >= {"y", "low", "high"}
            yield TICK / 2
    yield Sign("all 100 answered", lambda: answered == 100, 1)


def bad(scene: Scene, who: str) -> Story:
    """Labels that are no numbers, values beyond reason, lines that are none."""

    def lines(n: int, row: dict[str, Any]) -> list[Any]:
        return [row | {"load": "nan"}, row | {"temp": -999}, "garbage\n", "{]\n", row]

    size = scene.fleet.log(who).stat().st_size
    with scene.rows(lines, who):
        yield scene.more(who, "unlearned", 200, "metric of skipped rows")
    found = scene.fleet.log(who).read_text()[size:].count("\n")
    yield Sign("a line a minute and kind", lambda: found < 15, 1)


def again(scene: Scene, who: str) -> Story:
    """Each row twice."""
    with scene.rows(lambda n, row: [row, row], who):
        yield scene.more(who, "unlearned", 20, "metric of skipped rows")


def backwards(scene: Scene, who: str) -> Story:
    """The clock of the sensor goes back by an hour, as each autumn; then by three."""
    hour, before = timedelta(hours=1), scene.cell(who, "unlearned")

    def late(hours: int) -> Change:
        when = lambda row: datetime.fromisoformat(row["time"]) - hours * hour  # noqa: E731
        return lambda n, row: [row | {"time": when(row).isoformat()}]

    with scene.rows(late(1), who):
        yield scene.more(who, "learned", 10, "back an hour: goes on")
    if before != scene.cell(who, "unlearned"):
        scene.notes.append(f"{who} skipped rows of the hour that comes twice")
    with scene.rows(late(4), who):
        yield scene.more(who, "unlearned", 2, "back three: metric of skipped rows")
        yield scene.more(who, "learned", 10, "and goes on")


def fast(scene: Scene, who: str) -> Story:
    """Twenty rows at once where there was one."""

    def many(n: int, one: dict[str, Any]) -> list[Any]:
        begin = datetime.fromisoformat(one["time"])
        times = ((begin + timedelta(minutes=i)).isoformat() for i in range(20))
        return [row(CLIENTS + 1 + n, i) | {"time": time} for i, time in enumerate(times)]

    with scene.rows(many, who):
        yield scene.more(who, "learned", 400, "all are learned")


@contextmanager
def full_pipe() -> Iterator[int]:
    """The end of a pipe that is full, and that nobody reads."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    with suppress(BlockingIOError):
        while os.write(write, b"-" * 4096):
            pass
    os.set_blocking(write, True)
    try:
        yield write
    finally:
        os.close(read)
        os.close(write)


def unread(scene: Scene, who: str) -> Story:
    """Its output and its log go to a pipe that nobody reads."""
    scene.stop(who)
    with full_pipe() as pipe:
        scene.fleet.start(who, stdout=pipe, stderr=pipe)
        question = {"temp": 20.0, "wind": 1.0, "ask": True}
        with scene.rows(lambda n, row: [question] * 20 + [row], who):
            yield scene.more(who, "learned", 60, "goes on learning")
        scene.stop(who)
    scene.fleet.start(who)
    yield scene.answers(who)


def unread_server(scene: Scene) -> Story:
    """The same of the server."""
    scene.stop("server")
    with full_pipe() as pipe:
        scene.fleet.start("server", stdout=pipe, stderr=pipe)
        yield 3
        n = scene.state.get("n", 0)
        yield Sign("rounds go on", lambda: scene.state.get("n", 0) > n + 20)
        scene.stop("server")
    scene.fleet.start("server")
    yield Sign("rounds go on", lambda: scene.state.get("n", 0) > n + 30)


def wiped(scene: Scene, who: str) -> Story:
    """Its card is replaced by an empty one."""
    named = scene.said("server", "without state: client", who)
    scene.fleet.kill(who)
    wipe(scene.fleet.folder / who)
    scene.fleet.start(who)
    yield named
    yield Sign("alarm blank", scene.alarm("blank"))
    yield scene.answers(who)


def wiped_unseen(scene: Scene, who: str) -> Story:
    """The same while the server is off: what it hears of it first is an answer."""
    for one in ("server", who):
        scene.fleet.kill(one)
    wipe(scene.fleet.folder / who)
    connected = scene.said(who, "connected to")
    scene.fleet.start(who)
    yield connected
    named = scene.said("server", "without state: client", who)
    scene.fleet.start("server")
    yield named
    yield scene.answers(who)


def damaged(scene: Scene, who: str) -> Story:
    """Both records are damaged: a stop with code 3, or a new beginning."""
    scene.fleet.kill(who)
    assert list(damage(scene.fleet.folder / who))
    refused = scene.fleet.start(who, "--set", "on_damage=stop")
    yield Sign("exit code 3", lambda: refused.poll() == 3)
    scene.fleet.kill(who)
    anew = scene.said(who, "starting over"), scene.said("server", "without state: client", who)
    scene.fleet.start(who)
    yield from anew
    yield Sign("alarm blank", scene.alarm("blank"))
    yield scene.answers(who)


def full_disk(scene: Scene, who: str) -> Story:
    """No file of its folder can be written for a while."""
    limits = resource.RLIM_INFINITY, resource.RLIM_INFINITY
    process = scene.fleet.running[who]
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (100, limits[1]))
    yield Sign("state gone", lambda: scene.cell(who, "state") == "gone")
    state = scene.fleet.folder / who
    yield Sign("answers questions", lambda: "y" in ask(state, row={"temp": 1.0, "wind": 1.0}))
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, limits)
    yield scene.answers(who)


def two(scene: Scene, who: str) -> Story:
    """A second device has the same name, and a folder of its own."""
    other = scene.fleet.folder / f"{who}-other"
    process = scene.fleet.running[who]
    second = scene.fleet.start(who, "--state", other, stdin=subprocess.PIPE)
    scene.fleet.running[who] = process
    try:
        yield Sign("alarm shared", scene.alarm("shared"))
    finally:
        end(second)
        wipe(other)
    yield scene.answers(who)


def broker_off(scene: Scene) -> Story:
    """No broker for a while; then the same again."""
    scene.fleet.broker.stop()
    yield Sign("alarm broker", scene.alarm("broker"))
    yield 18
    scene.fleet.broker.start()
    yield Sign("and its end", lambda: not scene.alarm("broker")())
    n = scene.state.get("n", 0)
    yield Sign("rounds go on", lambda: scene.state.get("n", 0) > n + 5)


def server_killed(scene: Scene) -> Story:
    """kill -9 of the server."""
    n = scene.state.get("n", 0)
    scene.fleet.kill("server")
    scene.fleet.start("server")
    yield Sign("rounds go on", lambda: scene.state.get("n", 0) > n + 2)


def killed(scene: Scene, who: str) -> Story:
    """kill -9 of a client."""
    scene.fleet.kill(who)
    scene.fleet.start(who)
    yield scene.answers(who)


# Second of a cycle, story, and client (which changes from cycle to cycle).
CYCLE = 360.0
SCRIPT: list[tuple[float, Callable[..., Story], int | None]] = [
    (15, silent, 0), (15, slow, 1), (15, stuck, 2), (15, future, 3), (15, what_if, 4),
    (15, bad, 5), (15, unread, 6), (75, wiped, 3), (75, damaged, 4), (75, again, 5),
    (75, backwards, 6), (120, full_disk, 7), (120, ended, 8), (120, two, 9), (120, fast, 2),
    (165, unread_server, None), (205, broker_off, None), (247, server_killed, None),
    (254, server_killed, None), (261, wiped_unseen, 0), (275, all_silent, None),
]  # fmt: skip


def script(cycles: int) -> list[tuple[float, Callable[..., Story], str | None]]:
    """All of it, in order: when, what, to whom."""
    return [
        (cycle * CYCLE + at, story, None if k is None else NAMES[(k + cycle) % CLIENTS])
        for cycle in range(cycles)
        for at, story, k in SCRIPT
    ]

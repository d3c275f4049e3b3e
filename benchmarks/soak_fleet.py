"""Of the soak: sensors whose rows are known, and a fleet of real processes that read them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from helpers import programs
from helpers.devices import Mosquitto, free_port, wait_for
from helpers.processes import ENV, PSOFED, end, start
from psofed.errors import InputError
from psofed.fleet.queries import ask

CLIENTS, COHORT, EVERY, NOISE = 10, 4, 0.5, 0.5
NAMES = [f"gw{k:02d}" for k in range(CLIENTS)]
BEGIN = datetime(2020, 1, 1)
RUN = f"""
clients = {CLIENTS}
cohort = {COHORT}
step = 0.4
[stream]
name = "table"
file = ""
clients = {json.dumps(NAMES)}
tick = 3600.0
start = {(BEGIN - datetime(1970, 1, 1)).total_seconds()}
calendar = true
[stream.columns]
target = "load"
time = ["time"]
client = "site"
inputs = ["temp", "wind"]
[stream.scaling]
temp = [10.0, 7.5]
wind = [4.0, 3.0]
load = [26.0, 6.0]
[features]
dim = 100
width = 1.5
[[methods]]
name = "psofed"
shared = 10
[mix]
[deploy]
run = "soak"
clock = "live"
on_damage = "restart"
snapshots = 20
"""
# Counts fsyncs of the process that imports it, and leaves the count where SOAK_SYNCS says.
COUNTING = """
import atexit, os
if path := os.environ.get("SOAK_SYNCS"):
    counts, real = [0], {name: getattr(os, name) for name in ("fsync", "fdatasync")}
    def counted(sync):
        def count(handle):
            counts[0] += 1
            sync(handle)
        return count
    for name, sync in real.items():
        setattr(os, name, counted(sync))
    def tell():
        with open(path, "w") as file:
            file.write(str(counts[0]))
    atexit.register(tell)
"""


def truth(temp: Any, wind: Any) -> Any:
    """The load without noise."""
    return 20 + 0.04 * (temp - 18) ** 2 + 4 * np.sin(wind / 3)


def row(k: int, n: int) -> dict[str, Any]:
    """What sensor k measures in hour n."""
    rng = np.random.default_rng([k, n])
    temp, wind = 10 + 7 * np.sin(n * np.pi / 12) + 3 * rng.normal(), abs(5 * rng.normal())
    load = truth(temp, wind) + NOISE * rng.normal()
    when = (BEGIN + timedelta(hours=n)).isoformat()
    return {"time": when, "temp": round(temp, 3), "wind": round(wind, 3), "load": round(load, 3)}


def held_out(n: int) -> tuple[dict[str, Any], float]:
    """A question and its label, later than all rows that are measured."""
    found = row(CLIENTS, n)
    question = {"time": "2026-01-01T00:00:00", "temp": found["temp"], "wind": found["wind"]}
    return question, found["load"]


HELD_OUT = [held_out(n) for n in range(300)]


def error(state: Path) -> float:
    """The root mean square error of who answers for this folder, on rows nobody has learned."""
    off = [ask(state, row=question)["y"] - load for question, load in HELD_OUT]
    return float(np.sqrt(np.mean(np.square(off))))


class Fleet:
    """A broker, a server and clients whose sensors are pipes."""

    def __init__(self, folder: Path, counted: bool = False) -> None:
        folder.mkdir()
        self.folder, self.file, self.counted = folder, folder / "run.toml", counted
        self.file.write_text(RUN)
        self.broker = Mosquitto(programs.find("mosquitto"), folder)
        self.port, self.lost = free_port(), 0
        self.running: dict[str, subprocess.Popen[Any]] = {}
        (folder / "count").mkdir()
        (folder / "count" / "sitecustomize.py").write_text(COUNTING)

    def start(self, who: str, *more: Any, **pipes: Any) -> subprocess.Popen[Any]:
        """The server or a client; both append to a log of their own."""
        words = ["serve", self.file, "--dashboard", self.port, "--set", f"every={EVERY}"]
        if who != "server":
            words = ["client", self.file, "--id", who, "--stream", "-"]
        words += ["--state", self.folder / who, "--broker", self.broker.url, *more]
        paths = (str(self.folder / "count"), ENV.get("PYTHONPATH", ""))
        count = {"PYTHONPATH": os.pathsep.join(paths), "SOAK_SYNCS": str(self.syncs(who))}
        with self.log(who).open("ab") as log, (self.folder / f"{who}.out").open("ab") as out:
            given = {"stdout": out, "stderr": log, "stdin": subprocess.PIPE} | pipes
            env = ENV | (count if self.counted else {})
            begun = start(*PSOFED, "deploy", *words, env=env, **given)
        os.set_blocking(begun.stdin.fileno(), False)  # type: ignore[union-attr]
        self.running[who] = begun
        return begun

    def log(self, who: str) -> Path:
        """What it says of itself."""
        return self.folder / f"{who}.log"

    def syncs(self, who: str) -> Path:
        """Where the fsyncs of one are counted."""
        return self.folder / f"{who}.syncs"

    def kill(self, who: str) -> None:
        """kill -9: whatever it was doing, it does no more."""
        end(self.running.pop(who))

    def stop(self, who: str) -> tuple[float, int]:
        """SIGTERM: seconds until it has ended, and its exit code."""
        process, begun = self.running.pop(who), time.monotonic()
        process.terminate()
        try:
            code = process.wait(20)
        except subprocess.TimeoutExpired:
            code = -9
        seconds = time.monotonic() - begun
        end(process)
        return seconds, code

    def tell(self, who: str, *lines: Any) -> None:
        """Lines from its sensor, which does not wait for a reader."""
        if (process := self.running.get(who)) is None or process.stdin.closed:  # type: ignore[union-attr]
            self.lost += len(lines)
            return
        data = "".join(s if isinstance(s, str) else json.dumps(s) + "\n" for s in lines)
        try:
            os.write(process.stdin.fileno(), data.encode())  # type: ignore[union-attr]
        except (BlockingIOError, BrokenPipeError):
            self.lost += len(lines)

    def read(self, page: str) -> str:
        """A page of the dashboard; empty while there is none."""
        with suppress(OSError), urlopen(f"http://127.0.0.1:{self.port}/{page}", timeout=3) as found:
            return str(found.read().decode())
        return ""

    def error(self, who: str) -> float | None:
        """That of its model, or None while it does not answer."""
        with suppress(InputError, KeyError):
            return error(self.folder / who)
        return None

    def traffic(self) -> float:
        """Bytes that the broker has read and written."""
        from paho.mqtt import subscribe

        topics = [f"$SYS/broker/bytes/{way}" for way in ("received", "sent")]
        found = subscribe.simple(topics, msg_count=2, port=self.broker.port, hostname="127.0.0.1")
        return float(sum(int(message.payload) for message in found))

    def begin(self) -> None:
        """Everybody, the server first."""
        for who in ("server", *NAMES):
            self.start(who)
        for who in self.running:
            wait_for(lambda who=who: (self.folder / who / "ask").exists(), 120)

    def finish(self) -> dict[str, tuple[float, int]]:
        """Ask all to stop; seconds and exit codes."""
        try:
            return {who: self.stop(who) for who in list(self.running)}
        finally:
            for process in self.running.values():
                end(process)
            self.broker.stop()


class Usage:
    """What a process has used so far, by the system's own accounts."""

    def __init__(self, process: subprocess.Popen[Any]) -> None:
        proc = Path(f"/proc/{process.pid}")
        lines = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        self.mb = int(lines["VmRSS"].split()[0]) / 1024
        ticks = (proc / "stat").read_text().rpartition(")")[2].split()[11:13]
        self.seconds = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        io = dict(line.split(": ") for line in (proc / "io").read_text().splitlines())
        self.written = int(io["wchar"])  # sockets are not in it


def wipe(folder: Path) -> None:
    """As if the card of a device had been replaced."""
    shutil.rmtree(folder)


def damage(folder: Path) -> Iterator[str]:
    """Both records of a folder, in the middle; their names."""
    for path in sorted(folder.glob("record.*")):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 255
        path.write_bytes(data)
        yield path.name

"""Years in the field in an hour: a fleet in trouble beside one that is left alone.

    python benchmarks/soak.py [--minutes 60] [--kills 100] [--keep FOLDER]
    python benchmarks/soak.py --alone         no trouble at all: what chance does to two fleets

Two fleets of real processes, each with a mosquitto, a server and ten clients, live. Both get the
same rows on pipes, one each 0.3 s, dated an hour apart. One fleet has everything of
soak_stories.py, and `kill -9` at random moments. Each trouble has to show its sign in time, and to
fire its alert; each process has to end within 2 s of SIGTERM, and the model has to be within 2 % of
the other fleet's: judged by the root mean square error on rows that nobody has learned, whose
labels are as noisy as all, asked of both servers at the same moments. The mean over the second half
counts, in which the troubles go on. What a silent sensor does not measure neither fleet has; what a
killed client had not recorded, and what a sensor says wrongly, concerns one only.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from time import monotonic, sleep

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from soak_alerts import SCRAPE, fired
from soak_fleet import CLIENTS, NAMES, Fleet, Usage, row
from soak_stories import CYCLE, TICK, Scene, Sign, Story, killed, script

JUDGE = 15.0  # seconds between two questions of how good both are
REST = 20.0  # seconds at the end without new trouble
# Alerts of docs/monitoring that these troubles have to fire, with the labels of their causes.
CAUSES: dict[str, set[str]] = {
    "PsofedStuck": {"broker"}, "PsofedAlarm": {"blank", "sensors", "shared"},
    "PsofedStatesLost": set(), "PsofedHalfSilent": set(), "PsofedRestarts": set(),
}  # fmt: skip


@dataclass
class Act:
    """A story that goes on, and the sign that it waits for."""

    what: str
    who: str | None
    story: Story
    sign: Sign | None = None
    since: float = 0.0
    until: float = 0.0


Pair = tuple[float, float, float]  # when, and both errors


@dataclass
class Watch:
    """What is seen from outside while it runs, in a thread of its own."""

    calm: Fleet
    rough: Fleet
    scene: Scene
    errors: list[Pair] = field(default_factory=list)  # of the servers
    own: list[Pair] = field(default_factory=list)  # of clients, one after another
    troubled: list[Pair] = field(default_factory=list)  # the same, of those that are in a story
    scrapes: list[tuple[float, str]] = field(default_factory=list)
    over: bool = False
    _turn: int = 0

    def run(self, begun: float) -> None:
        """The dashboard each second; metrics and errors more seldom."""
        scrape = judge = begun
        while not self.over:
            page = self.rough.read("state.json")
            self.scene.state = json.loads(page) if page else {}
            if monotonic() >= scrape:
                self.scrapes.append((monotonic() - begun, self.rough.read("metrics")))
                scrape += SCRAPE
            if monotonic() >= judge:
                judge += JUDGE
                self._judge(begun)
            sleep(0.5)

    def _judge(self, begun: float) -> None:
        """Both servers, and one client of both; not if one of them is just being started."""
        self._turn += 1
        client = NAMES[self._turn % CLIENTS]
        own = self.troubled if client in self.scene.busy else self.own
        for who, found in (("server", self.errors), (client, own)):
            ours, theirs = self.rough.error(who), self.calm.error(who)
            if ours is not None and theirs is not None:
                found.append((monotonic() - begun, ours, theirs))


class Soak:
    """The clock, the sensors of both fleets, and all stories."""

    def __init__(self, folder: Path, seconds: float, kills: int, alone: bool) -> None:
        self.seconds, self.rng = seconds, np.random.default_rng(0)
        self.calm, self.rough = Fleet(folder / "calm", counted=True), Fleet(folder / "rough")
        self.scene = Scene(self.rough)
        self.watch = Watch(self.calm, self.rough, self.scene)
        self.acts: list[Act] = []
        self.script = [] if alone else script(max(1, int(seconds / CYCLE)))
        kills = 0 if alone else kills
        self.kills = sorted(self.rng.uniform(5, seconds - REST, kills).tolist())
        self.signs: dict[tuple[str, str], list[float | None]] = defaultdict(list)

    def run(self) -> None:
        """All rows, each in its time."""
        for fleet in (self.calm, self.rough):
            fleet.begin()
        begun, n = monotonic(), 0
        self.first = self._usage(self.calm)
        threading.Thread(target=self.watch.run, args=(begun,), daemon=True).start()
        while (now := monotonic() - begun) < self.seconds or self.acts:
            for k, who in enumerate(NAMES):
                line, change = row(k, n), self.scene.changes.get(who)
                told = [line] if change is None else change(n, line)
                self.rough.tell(who, *told)
                if told:
                    self.calm.tell(who, line)
            n += 1
            self._due(now)
            self._play(monotonic())
            sleep(max(begun + n * TICK - monotonic(), 0))
        self.rows = n
        sleep(JUDGE)
        self.watch.over = True
        self.usage = {fleet: self._usage(fleet) for fleet in (self.calm, self.rough)}
        self.bytes = self.calm.traffic()
        self.last = json.loads(self.calm.read("state.json"))

    def _usage(self, fleet: Fleet) -> dict[str, Usage]:
        return {who: Usage(process) for who, process in fleet.running.items()}

    def _due(self, now: float) -> None:
        """New stories; a client that is in one is not killed, and nobody who is not there."""
        while self.script and now >= self.script[0][0]:
            _, story, who = self.script[0]
            if who in self.scene.busy:
                break  # a moment later
            del self.script[0]
            self._begin(story, who)
        free = [who for who in NAMES if who not in self.scene.busy]
        if self.kills and now >= self.kills[0] and free:
            del self.kills[0]
            self._begin(killed, str(self.rng.choice(free)))

    def _begin(self, story: Callable[..., Story], who: str | None) -> None:
        given = () if who is None else (who,)
        self.scene.busy.update(given)
        self.acts.append(Act(story.__name__, who, story(self.scene, *given)))

    def _play(self, now: float) -> None:
        """What each story waits for; what does not come is noted, and the story goes on."""
        for act in list(self.acts):
            if act.sign is not None:
                seen = act.sign.seen()
                if not seen and now < act.since + act.sign.seconds:
                    continue
                found = now - act.since if seen else None
                self.signs[act.what, act.sign.text].append(found)
                if not seen:
                    print(f"{act.what} of {act.who}: not seen: {act.sign.text}", file=sys.stderr)
                act.sign = None
            if now < act.until:
                continue
            step = next(act.story, None)
            if step is None:
                self.acts.remove(act)
                self.scene.busy.discard(act.who or "")
            elif isinstance(step, Sign):
                act.sign, act.since = step, now
            else:
                act.until = now + step

    def finish(self) -> None:
        """Everybody ends; how."""
        self.ends = [*self.calm.finish().items(), *self.rough.finish().items()]


def report(soak: Soak) -> bool:
    """The tables; whether all is as it should be."""
    good = True
    print("| trouble | sign | seen | seconds, median and most |\n|---|---|---|---|")
    for (what, text), found in soak.signs.items():
        seconds = [each for each in found if each is not None]
        good &= len(seconds) == len(found)
        took = f"{median(seconds):.1f}, {max(seconds):.1f}" if seconds else ""
        print(f"| {what.replace('_', ' ')} | {text} | {len(seconds)} of {len(found)} | {took} |")
    late = [(who, *how) for who, how in soak.ends if how[0] > 2 or how[1]]
    slowest = max(seconds for _, (seconds, _) in soak.ends)
    print(
        f"\nEnds by SIGTERM: {len(soak.ends)}, the slowest {slowest:.2f} s, wrong: {late or 'none'}"
    )
    print(f"Otherwise: {soak.scene.notes or 'nothing'}; {soak.rough.lost} rows had no reader;"
          f" the slowest answer took {soak.scene.slowest:.2f} s")  # fmt: skip
    watch = soak.watch
    for whose, pairs in (("clients'", watch.own), ("server's", watch.errors)):
        half = [pair for pair in pairs if pair[0] >= soak.seconds / 2]
        ours, theirs = (mean(pair[i] for pair in half) for i in (1, 2))
        print(f"The {whose} error {ours:.4f}, of the fleet left alone {theirs:.4f}:"
              f" {ours / theirs - 1:+.2%} ({len(half)} moments)")  # fmt: skip
    for what, pairs in (("In time", watch.errors[::8]), ("Clients in trouble", watch.troubled),
                        ("Others", watch.own)):  # fmt: skip
        print(f"{what}:", ", ".join(f"{t:.0f} s {a:.3f} {b:.3f}" for t, a, b in pairs))
    good &= not late and not soak.scene.notes and ours / theirs < 1.02
    footprint(soak)
    print("\nAlerts, if a second were ten:")
    alerts = fired(soak.watch.scrapes)
    for name, labels in alerts.items():
        print(f"- {name}: {', '.join(sorted(labels)) or 'fired'}")
    causes = CAUSES if soak.signs else {}
    silent = [name for name, why in causes.items() if not (name in alerts and why <= alerts[name])]
    print(f"Alerts that should have fired: {silent or 'all have'}")
    return good and not silent


def footprint(soak: Soak) -> None:
    """Of the fleet that was left alone."""
    now, answers = soak.usage[soak.calm], soak.last["counts"]["accepted"] / len(NAMES)
    print(f"\n{soak.rows} samples and {answers:.0f} answers of each client:")
    print("\n| process | MB at first | MB | CPU ms a sample | kB written an answer |"
          " fsyncs an answer |\n|---|---|---|---|---|---|")  # fmt: skip
    for who, label in (("server", "server"), (NAMES[0], "a client")):
        used, per = now[who], soak.last["n"] if who == "server" else answers
        logs = soak.calm.log(who).stat().st_size + (soak.calm.folder / f"{who}.out").stat().st_size
        syncs = int(soak.calm.syncs(who).read_text()) / per
        cpu = (used.seconds - soak.first[who].seconds) * 1000 / soak.rows
        written = (used.written - logs) / per / 1000
        print(f"| {label} | {soak.first[who].mb:.1f} | {used.mb:.1f} | {cpu:.2f} | {written:.2f} |"
              f" {syncs:.2f} |")  # fmt: skip
    rough = [used.mb for who, used in soak.usage[soak.rough].items() if who != "server"]
    print(f"\nBytes of MQTT for an answer: {soak.bytes / 2 / soak.last['counts']['accepted']:.0f};"
          f" the largest client of the other fleet: {max(rough):.1f} MB")  # fmt: skip


def main() -> None:
    """Both fleets, then the tables; code 1 if a sign was missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--alone", action="store_true")
    wishes = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = wishes.keep or Path(name)
        folder.mkdir(exist_ok=True)
        soak = Soak(folder, 60 * wishes.minutes, wishes.kills, wishes.alone)
        try:
            soak.run()
        finally:
            soak.finish()
        sys.exit(not report(soak))


if __name__ == "__main__":
    main()

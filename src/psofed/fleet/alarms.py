"""Alarms: what an operator has to know, each with its cause and what would help.

They are looked for once a second by the server's loop. No result depends on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic

import numpy as np

from psofed.federation.progress import duration
from psofed.fleet.identity import ending
from psofed.fleet.mqtt import Link
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.members import NAMED, Names
from psofed.fleet.sensors import Sensors
from psofed.stages.defences.contract import Opinion

OFFLINE = 10.0  # seconds without a broker
SILENCE = 60.0  # seconds without an accepted answer, while clients are asked
HOLD = 600.0  # seconds for which an alarm about something that happened stays
ALARMS = (
    "disk", "broker", "silence", "ahead", "shared", "expiry", "dropped", "forged", "retained",
    "oversized", "unfolded", "quarantine", "sensors", "blank",
)  # fmt: skip


@dataclass
class Status:
    """What the loop notes for alarms and for a dashboard; times are of the monotonic clock."""

    connected: bool = False
    trouble: str = ""  # why there is no broker
    connects: int = 0  # how often the broker was reached since the start
    asked_at: float | None = None  # when the cohort of the open round was first asked
    unanswered_since: float | None = None  # when somebody was asked after the last answer
    opinion: Opinion | None = None  # what the defence thinks of each client, once a second
    disk: str = ""  # why the last round could not be written; it is held until it is


class Alarms:
    """Those that are on, by name, with their text; `news` are lines for the log."""

    def __init__(self) -> None:
        self.on: dict[str, str] = {}
        self.news: list[str] = []
        self._until: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._held: set[int] = set()  # clients in quarantine
        self._blank: dict[int, int] = {}  # clients that came without state, and how often
        self._faulty: dict[int, str] = {}  # clients whose sensors are silent or stuck
        self._next = 0.0
        self._online = monotonic()  # when there was a broker

    def look(self, status: Status, link: Link, coordinator: Coordinator, sensors: Sensors) -> None:
        """Once a second: what has happened, and what is over."""
        now = monotonic()
        if now < self._next:
            return
        self._next = now + 1.0
        self._online = now if status.connected else self._online
        status.opinion, names = coordinator.server.opinion(), coordinator.names
        self._quarantine(status.opinion, coordinator.server.table.ids.tolist(), names)
        self._sensors(sensors, names)
        no_broker = f"no broker at {link.address}: {status.trouble or 'it was not reached yet'}"
        for name, text in (
            ("disk", _disk(status, coordinator.n)),
            ("broker", no_broker if now > self._online + OFFLINE else ""),
            ("silence", _silence(status, now)),
            ("ahead", _ahead(coordinator.ahead, coordinator.n, names)),
            ("expiry", _expiry(ending(link.ends), sensors.expiring, names)),
            ("quarantine", _quarantined(self._held, names)),
            ("sensors", _sensors(sensors, names)),
        ):
            if text:
                self._say(name, text)
            elif name in self.on:
                self._end(name)
        shared = {k: count for k, count in coordinator.doubles.items() if count > 1}
        dropped = dict(link.inbox.dropped)  # another thread goes on counting
        forged = coordinator.server.ledger.reasons["mac"]
        self._count("shared", sum(shared.values()), f"{names.words(shared)}{SHARED}")
        self._count("dropped", sum(dropped.values()), _dropped(dropped, names))
        self._count("forged", forged, SEALS)
        self._count("unfolded", coordinator.server.ledger.reasons["together"], UNFOLDED)
        blank = {k: count for k, count in coordinator.blanks.items() if count}
        if new := [k for k in blank if blank[k] > self._blank.get(k, 0)]:
            self.news.append(f"Warning: without state: {names.words(new)}")
        self._blank = blank
        self._count("blank", sum(blank.values()), _stateless(blank, coordinator))
        self._count("retained", link.retained, RETAINED)
        self._count("oversized", link.oversized, OVERSIZED)
        for name in [name for name, until in self._until.items() if now > until]:
            self._end(name)

    def _quarantine(self, opinion: Opinion | None, ids: list[int], names: Names) -> None:
        """Who is in quarantine since now, and why; who is released."""
        held: dict[int, str] = {}
        if opinion is not None:
            rows = np.flatnonzero(opinion.quarantined).tolist()
            held = {ids[row]: opinion.reason[row] for row in rows}
        new = [k for k in held if k not in self._held]
        self.news += [f"client {names(k)} is in quarantine: {held[k]}" for k in new[:NAMED]]
        if len(new) > NAMED:
            self.news.append(f"{len(new) - NAMED} more clients are in quarantine")
        if free := self._held - held.keys():
            self.news.append(f"{names.words(free)} {_are(free)} released")
        self._held = set(held)

    def _sensors(self, sensors: Sensors, names: Names) -> None:
        """Who has a fault since now, while the alarm is on for another: it is not said again."""
        found = {k: sensor.state[0] for k, sensor in sensors.of.items() if sensor.state[0]}
        new = {k: state for k, state in found.items() if state != self._faulty.get(k)}
        for state in sorted(set(new.values())) if "sensors" in self.on else ():
            whose = names.words(k for k in new if new[k] == state)
            self.news.append(f"Warning: {state}: {whose}")
        self._faulty = found

    def _count(self, name: str, count: int, text: str) -> None:
        """On for a while when something has happened once more."""
        before = self._counts.setdefault(name, count if name in RECORDED else 0)
        self._counts[name] = count
        if count > before:
            self._until[name] = monotonic() + HOLD
        if name in self._until:
            self._say(name, text.replace("COUNT", str(count)))

    def _say(self, name: str, text: str) -> None:
        if name not in self.on:
            self.news.append(f"Alarm ({name}): {text}")
        self.on[name] = text

    def _end(self, name: str) -> None:
        self._until.pop(name, None)
        del self.on[name]
        self.news.append(f"Alarm over ({name})")


RECORDED = ("forged", "unfolded")  # those that are counted since the first start
UNFOLDED = (
    "COUNT answers could not be folded into the model, and were left out; the log names their"
    " clients: if one comes again and again, `psofed deploy fleet exclude`"
)
SEALS = "COUNT messages had a wrong seal: another --secret at one end, or a stranger"
RETAINED = (
    "COUNT retained messages were ignored: somebody left them at the broker; set"
    " retain_available false"
)
OVERSIZED = "COUNT messages were larger than any of this run: set max_packet_size at the broker"
SHARED = (
    ": answers or greetings contradict each other, as if two devices had the same --id: look for a"
    " second device, or a copied state folder"
)


def _stateless(clients: Mapping[int, int], coordinator: Coordinator) -> str:
    """What becomes of clients that have taken part, and know nothing of it."""
    if not clients:
        return "a client said so, but has its state"
    begin = "they start over with the whole model"
    if not coordinator.welcomes:
        begin = "`psofed deploy fleet exclude` and `readmit` let them start over"
    found = "came without the state that they had: folders are new, or were damaged"
    return f"{coordinator.names.words(clients)} {found}; {begin}"


def _disk(status: Status, n: int) -> str:
    held = f"round {n} is held, and no other begins, until it can be written"
    return f"{status.disk}: {held}" if status.disk else ""


def _silence(status: Status, now: float) -> str:
    since = status.unanswered_since
    if since is None or now < since + SILENCE:
        return ""
    right = "are the clients running, with the same file and the same run?"
    return (
        f"no client has answered for {now - since:.0f} s, though the broker is connected: {right}"
    )


def _ahead(ahead: Mapping[int, int], n: int, names: Names) -> str:
    """One client may err or lie; several that are ahead by as much look like a lost record."""
    if not ahead:
        return ""
    rounds = sorted(Counter(ahead.values()).items())
    claims = ", ".join(f"{count} in round {n}" for n, count in rounds[:NAMED])
    says = "says that it has" if len(ahead) == 1 else "say that they have"
    found = f"{names.words(ahead)} {says} taken part in later rounds than {n}: {claims}"
    if len(ahead) == 1:
        return f"{found}; give that client a new state folder, or set a deadline"
    return (
        f"{found}; the server's newest record was lost (a damaged file, an old copy), or another"
        " server of this run is at work. Stop that one; or, if there is none, this one, run"
        " `psofed deploy restore STATE` and start it again; or set a deadline"
    )


def _expiry(own: str, clients: list[int], names: Names) -> str:
    """What this machine has to renew, and who else."""
    if not clients:
        return own
    their = "have certificates that end" if len(clients) > 1 else "has a certificate that ends"
    theirs = f"{names.words(clients)} {their} within 30 days: psofed deploy keys renew"
    return "; ".join(filter(None, (own, theirs)))


def _sensors(sensors: Sensors, names: Names) -> str:
    """Clients that answer, but have nothing new to say."""
    look = "look at the sensors, and at the programs that read them"
    if seconds := sensors.silence:
        return f"no client has learned anything for {duration(seconds)}, though they answer: {look}"
    faults = sensors.faults
    text = "; ".join(f"client {names(k)}: {faults[k]}" for k in sorted(faults)[:NAMED])
    more = f"; and {len(faults) - NAMED} more" if len(faults) > NAMED else ""
    return f"{text}{more}; {look}" if faults else ""


def _dropped(dropped: Mapping[int, int], names: Names) -> str:
    most = sorted(dropped, key=lambda k: -dropped[k])[:NAMED]
    whose = [f"client {names(k)}" if k >= 0 else "strangers" for k in most]
    counts = ", ".join(f"{dropped[k]} of {who}" for k, who in zip(most, whose, strict=True))
    many = f"messages come faster than they are read, and some were dropped: {counts}"
    return f"{many}; if it goes on, `psofed deploy keys revoke`"


def _quarantined(held: set[int], names: Names) -> str:
    if not held:
        return ""
    their = "their" if len(held) > 1 else "its"
    found = f"{names.words(held)} {_are(held)} in quarantine, {their} answers are not folded in"
    look = "look for a broken sensor, a wrong unit, or somebody who wants to spoil the model"
    return f"{found}: {look}"


def _are(clients: set[int]) -> str:
    return "are" if len(clients) > 1 else "is"

"""Alarms: what an operator has to know, each with its cause and what would help.

They are looked for once a second by the server's loop. No result depends on them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psofed.deploy.certificates import refused

if TYPE_CHECKING:
    from psofed.defences.contract import Opinion
    from psofed.deploy.server_loop import ServerLoop
    from psofed.protocol.coordinator import Coordinator

OFFLINE = 10.0  # seconds without a broker
RESTLESS = 6, 60.0  # so many greetings of one client in so many seconds
RIVAL = 3, 60.0  # so many answers to what was not asked, of two clients, in so many seconds
SILENCE = 60.0  # seconds without an accepted answer, while clients are asked
HOLD = 600.0  # seconds for which an alarm about something that happened stays
AGAIN = 60.0  # seconds until the log repeats an alarm whose text has changed
NAMED = 5  # clients that an alarm names
ALARMS = (
    "disk", "broker", "silence", "ahead", "rival", "shared", "restless", "clock", "expiry",
    "contested", "dropped", "flood", "forged", "retained", "oversized", "logins", "quarantine",
    "spoiled",
)  # fmt: skip


class Alarms:
    """Those that are on, by name, with their text; `news` are lines for the log."""

    def __init__(self) -> None:
        self.on: dict[str, str] = {}
        self.news: list[str] = []
        self._until: dict[str, float] = {}
        self._told: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._held: dict[int, int] = {}  # clients in quarantine
        self._next = 0.0
        self._online = monotonic()  # when there was a broker
        self._minute = 0.0  # when the next one begins
        self._opened = 0  # the round that was open when this one began
        self._unasked: Counter[int] = Counter()  # as of then
        self._rivals = 0

    def look(self, server: ServerLoop) -> None:
        """Once a second: what has happened, and what is over."""
        now = monotonic()
        if now < self._next:
            return
        self._next = now + 1.0
        link, coordinator = server.link, server.coordinator
        link.hush()
        self._while("disk", _disk(server))
        self._online = now if server.status.connected else self._online
        self._while("broker", _broker(server) if now > self._online + OFFLINE else "")
        link.renew()
        self._while("silence", _silence(server, now))
        self._while("ahead", _ahead(coordinator.ahead, coordinator.n, server.deadline))
        self._rival(coordinator, now)
        self._while("restless", _restless(server.status.hellos, now))
        self._while("clock", link.untimely)
        self._while("expiry", link.ending or refused(link.alert))
        self._while("contested", _contested(link.contested))
        shared = {k: count for k, count in coordinator.doubles.items() if count > 1}
        self._count("shared", sum(shared.values()), _shared(shared))
        dropped = dict(link.inbox.dropped)  # another thread goes on counting
        self._count("dropped", sum(dropped.values()), _dropped(dropped))
        self._while("flood", _flood(link.muted))
        forged = coordinator.server.ledger.reasons["mac"]
        self._count("forged", forged, f"{forged} messages had a wrong seal: {SEALS}")
        self._count("retained", link.retained, f"{link.retained} {RETAINED}")
        self._count("oversized", link.oversized, f"{link.oversized} {OVERSIZED}")
        logins, address = server.status.logins
        text = f"the dashboard was given {logins} wrong tokens, the last by {address}"
        self._count("logins", logins, text)
        huge = {k: count for k, count in coordinator.huge.items() if count}
        self._count("spoiled", sum(huge.values()) if len(huge) > 1 else 0, _spoiled(huge))
        guard = coordinator.server.guard
        server.status.opinion = None if guard is None else guard.opinion()
        self._quarantine(server.status.opinion, coordinator.server.seats.ids)
        for name, until in list(self._until.items()):
            if now > until:
                self._end(name)

    def _rival(self, coordinator: Coordinator, now: float) -> None:
        """Clients answer what this server has not asked for, and one alone might err or lie."""
        if now >= self._minute:
            coordinator.settled, self._opened = self._opened, coordinator.n
            self._minute, self._unasked = now + RIVAL[1], coordinator.unasked.copy()
        new = coordinator.unasked - self._unasked
        if new.total() >= RIVAL[0] and len(new) >= min(2, len(coordinator.server.seats.present)):
            self._rivals += new.total()
            self._unasked = coordinator.unasked.copy()
        self._count("rival", self._rivals, f"{self._rivals} {RIVALS}")

    def _quarantine(self, opinion: Opinion | None, ids: NDArray[Any]) -> None:
        """Who is in quarantine since now, and why; who is released."""
        held: dict[int, str] = {}
        if opinion is not None:
            rows = np.flatnonzero(opinion.quarantined).tolist()
            held = {int(ids[row]): opinion.reason[row] for row in rows}
        new = [k for k in held if k not in self._held]
        for k in new[:NAMED]:
            self.news.append(f"client {k} is in quarantine: {held[k]}")
        if len(new) > NAMED:
            self.news.append(f"{len(new) - NAMED} more clients are in quarantine")
        if free := {k: 1 for k in self._held if k not in held}:
            self.news.append(f"{_clients(free)} {'are' if len(free) > 1 else 'is'} released")
        self._held = dict.fromkeys(held, 1)
        self._while("quarantine", _quarantined(self._held))

    def _while(self, name: str, text: str) -> None:
        """On while there is something to say."""
        if text:
            self._say(name, text)
        elif name in self.on:
            self._end(name)

    def _count(self, name: str, count: int, text: str) -> None:
        """On for a while when something has happened once more."""
        before = self._counts.setdefault(name, 0 if name != "forged" else count)
        self._counts[name] = count
        if count > before:
            self._until[name] = monotonic() + HOLD
            self._say(name, text)

    def _say(self, name: str, text: str) -> None:
        now, old = monotonic(), self.on.get(name)
        self.on[name] = text
        if old is None or (old != text and now >= self._told[name] + AGAIN):
            self._told[name] = now
            self.news.append(f"Alarm ({name}): {text}")

    def _end(self, name: str) -> None:
        self._until.pop(name, None)
        del self.on[name]
        self.news.append(f"Alarm over ({name})")


RIVALS = (
    "answers were to rounds that this server has not asked for: another server of this run is"
    " running, with another state folder or a copy of this one: stop one of the two"
)
SEALS = "another --secret at one end, or somebody else sends"
RETAINED = (
    "retained messages were ignored: somebody left them at the broker; set retain_available false"
)
OVERSIZED = "messages were larger than any of this run: set max_packet_size at the broker"


def _disk(server: ServerLoop) -> str:
    if not server.status.disk:
        return ""
    return (
        f"{server.status.disk}: round {server.coordinator.n} is held, and no other begins, until"
        " it can be written"
    )


def _broker(server: ServerLoop) -> str:
    why = server.status.trouble or "it was not reached yet"
    return f"no broker at {server.link.address}: {why}"


def _silence(server: ServerLoop, now: float) -> str:
    since = server.status.unanswered_since
    if since is None or now < since + SILENCE:
        return ""
    return (
        f"no client has answered for {now - since:.0f} s, though the broker is connected: are the"
        " clients running, with the same file and the same run?"
    )


def _ahead(ahead: Mapping[int, int], n: int, deadline: float | None) -> str:
    """One client may err or lie; several that are ahead by as much look like a lost record."""
    if not ahead:
        return ""
    later = sorted(Counter(ahead.values()).items())
    claims = ", ".join(f"{count} in round {n}" for n, count in later[:NAMED])
    says = "says that it has" if len(ahead) == 1 else "say that they have"
    found = f"{_clients(ahead)} {says} taken part in later rounds than {n}, which is open: {claims}"
    goes_on = "the round goes on waiting" if deadline is None else "rounds go on at their deadlines"
    if len(ahead) == 1:
        right = "nobody else says so: give that client a new state folder, or use --deadline"
    else:
        right = (
            "several that are ahead by the same few rounds mean that the server's newest record"
            " was lost (a damaged file, an old copy), or that another server of this run is at"
            " work: stop that one; or, if not, stop this one, run"
            " `psofed restore STATE` and start it again; or continue without these clients until"
            " it has caught up (--deadline)"
        )
    return f"{found}; {goes_on}; {right}"


def _shared(shared: Mapping[int, int]) -> str:
    return (
        f"{_clients(shared)}: answers or greetings contradict each other, as if two devices had"
        " the same --id: look for a second device, or a copied state folder"
    )


def _restless(hellos: Mapping[int, deque[float]], now: float) -> str:
    most, seconds = RESTLESS
    found = {k: 1 for k, at in hellos.items() if len(at) == most and now < at[0] + seconds}
    if not found:
        return ""
    verb = "connect" if len(found) > 1 else "connects"
    return (
        f"{_clients(found)} {verb} again and again: two devices with one --id or certificate evict"
        " each other, another server of this run asks, too, or the network is bad"
    )


def _contested(contested: bool) -> str:
    if not contested:
        return ""
    return (
        "the connection was lost three times in a minute right after others came: another program"
        " may use the server's certificate, or the network is bad"
    )


def _dropped(dropped: Mapping[int, int]) -> str:
    most = sorted(dropped, key=lambda k: -dropped[k])[:NAMED]
    counts = ", ".join(f"{dropped[k]} of {_name(k)}" for k in most)
    return f"messages come faster than they are read, and some were dropped: {counts}"


def _flood(muted: Mapping[int, float]) -> str:
    if not muted:
        return ""
    names = ", ".join(map(_name, sorted(muted)[:NAMED]))
    return f"{names} sent far more than can be read: for some seconds nobody listens to them"


def _quarantined(held: Mapping[int, int]) -> str:
    if not held:
        return ""
    are, their = ("are", "their") if len(held) > 1 else ("is", "its")
    return (
        f"{_clients(held)} {are} in quarantine, {their} answers are not folded in: look for a"
        " broken sensor, a wrong unit, or somebody who wants to spoil the model"
    )


def _spoiled(huge: Mapping[int, int]) -> str:
    """A client that learns on from a spoiled model sends such values, too: it is a victim."""
    return (
        f"{len(huge)} clients sent values that are too large or not finite: look for the cause in"
        " the global model, which somebody else may have spoiled, before you blame these clients"
    )


def _name(k: int) -> str:
    return "strangers" if k < 0 else f"client {k}"


def _clients(clients: Mapping[int, int]) -> str:
    named = ", ".join(map(str, sorted(clients)[:NAMED]))
    more = f" and {len(clients) - NAMED} more" if len(clients) > NAMED else ""
    return f"client{'s' if len(clients) > 1 else ''} {named}{more}"

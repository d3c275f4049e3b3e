"""Views of messages that were not made here: frames from a broker, and a server's state folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from psofed.audit.server_view import Contact, ServerView, seen
from psofed.errors import InputError
from psofed.methods.contract import Method
from psofed.protocol import wire
from psofed.protocol.deployment import PLAN, Deployment
from psofed.protocol.seal import SIZE
from psofed.protocol.server import RefusedError, Server, allowed
from psofed.protocol.snapshots import Snapshots
from psofed.protocol.store import reader

CAPTURE = (
    """mosquitto_sub -h HOST -t 'RUN/#' -F '{"topic": "%t", "payload": "%x"}' > frames.jsonl"""
)


def from_frames(plan: Deployment, path: Path) -> ServerView:
    """What `CAPTURE` wrote: a line of JSON for each message, its payload in hexadecimal digits."""
    _refuse_live(plan)
    downs: dict[tuple[int, int], wire.Frame] = {}
    ups: dict[tuple[int, int], bytes] = {}
    foreign = 0
    for k, up, data in _messages(path, plan.deploy.run):
        try:
            frame = wire.decode(data, plan.largest + SIZE)
        except wire.WireError:
            foreign += 1
            continue
        if frame.digest != plan.digest:
            foreign += 1
        elif up and frame.kind == wire.UPLOAD:
            ups.setdefault((frame.n, k), _unsealed(plan.method(), frame.n, frame.body))
        elif not up and frame.kind in wire.INVITATIONS:
            downs[frame.n, k] = frame
    if not downs:
        found = f"has no invitation of this run, and {foreign} messages of others"
        raise InputError("", found, f"give the file of that run, and capture with: {CAPTURE}",
                         str(path))  # fmt: skip
    sealed = _sealed(plan.method(), downs)
    contacts = [
        Contact(n, k, frame.body[: len(frame.body) - sealed], ups.get((n, k), b""),
                frame.kind == wire.BEGIN)
        for (n, k), frame in downs.items()
    ]  # fmt: skip
    rounds = [n for n, _ in downs]
    return seen(plan, contacts, min(rounds), max(rounds) + 1)


def _refuse_live(plan: Deployment) -> None:
    if plan.deploy.clock == "live":
        found = "is 'live': which samples the clients had is not in the file, so nothing is judged"
        raise InputError("deploy.clock", found, "audit FILE alone, which plays it in lockstep")


def _messages(path: Path, run: str) -> Iterator[tuple[int, bool, bytes]]:
    """The client, whether it is from it, and the payload, of each line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            "", f"cannot be read: {error}", "give another --frames", str(path)
        ) from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            table = json.loads(line)
            parts, data = str(table["topic"]).split("/"), bytes.fromhex(table["payload"])
        except (ValueError, KeyError, TypeError):
            found, right = f"is no message: {line[:40]!r}", f"capture with: {CAPTURE}"
            raise InputError(f"line {number}", found, right, str(path)) from None
        if len(parts) == 3 and parts[0] == run and parts[1].isdecimal() and parts[2] in "ud":
            yield int(parts[1]), parts[2] == "u", data


def _unsealed(method: Method, n: int, body: bytes) -> bytes:
    """Without a seal: the server has the key that it is checked with, and needs it for no more."""
    sizes = allowed(method, n)
    if sizes is None or len(body) in sizes or len(body) - SIZE not in sizes:
        return body
    return body[:-SIZE]


def _sealed(method: Method, downs: dict[tuple[int, int], wire.Frame]) -> int:
    """Bytes of the seal of each invitation."""
    (n, k), frame = next(iter(downs.items()))
    lengths = (*method.downloads(k, n), *method.welcomes(k, n))
    sizes = {
        0 if m is None else len(method.encode(method.task.zeros(m), up=False)) for m in lengths
    }
    return SIZE if len(frame.body) not in sizes and len(frame.body) - SIZE in sizes else 0


class _Kept:
    """A state folder that is only read."""

    def __init__(self, path: Path) -> None:
        self.name, self.path, self.read = str(path), path, reader(path)

    def names(self) -> list[str]:
        return [each.name for each in self.path.iterdir()]


def from_state(plan: Deployment, path: Path) -> ServerView:
    """A server's folder: from its oldest snapshot on, what was folded in tells what went down."""
    _refuse_live(plan)
    if not (path / PLAN).exists():
        raise InputError("", "is no state folder of a server", "give the one of --state", str(path))
    snapshots = Snapshots(_Kept(path), plan.about("server"))  # type: ignore[arg-type]
    rounds = snapshots.rounds()
    if not rounds:
        found = "keeps no snapshot, so what clients answered is not known any more"
        raise InputError("", found, "capture the messages instead: --frames", str(path))
    server, contacts = Server(plan.method(), plan.deploy.bound), []
    known: list[tuple[int, dict[int, bytes]]] = []
    while rounds and not known:
        first = rounds.pop(0)
        known = _answers(snapshots, first)
    server.state, server.n = server.state | snapshots.state(first), first
    for n, answers in known:
        invited = server.invite()
        try:
            for k, answer in answers.items():
                server.collect(k, n, answer)
        except RefusedError as error:
            found = f"does not follow from the file in round {n}: {error}"
            raise InputError(
                "", found, "capture the messages instead: --frames", str(path)
            ) from None
        contacts += [Contact(n, k, down, answers.get(k, b"")) for k, down in invited.items()]
        server.commit()
    if not contacts:
        raise InputError(
            "", "has no answers since its snapshots", "wait for more rounds", str(path)
        )
    return seen(plan, contacts, first, server.n)


def _answers(snapshots: Snapshots, first: int) -> list[tuple[int, dict[int, bytes]]]:
    """All rounds in a row from a snapshot on, of which the answers are kept."""
    found: list[tuple[int, dict[int, bytes]]] = []
    while True:
        try:
            found += snapshots.answers(first + len(found), first + len(found) + 1)
        except InputError:
            return found

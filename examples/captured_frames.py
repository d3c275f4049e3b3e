"""Which samples an eavesdropper reconstructs from frames that were captured at a broker.

Subscribe as who may read all topics of a run, in lockstep, then give the lines and its file:

    mosquitto_sub -h HOST -t 'RUN/#' -F '{"topic": "%t", "payload": "%x"}' > frames.jsonl
    python examples/captured_frames.py run.toml frames.jsonl

It prints what `psofed study privacy run.toml` prints of messages that it plays itself.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from psofed.errors import InputError
from psofed.federation.contract import Method
from psofed.fleet.protocol import deployment, wire
from psofed.fleet.protocol.deployment import Deployment
from psofed.fleet.protocol.wire import SEAL
from psofed.privacy import audit
from psofed.privacy.view import Contact, ServerView, seen
from psofed.report import privacy

CAPTURE = (
    """mosquitto_sub -h HOST -t 'RUN/#' -F '{"topic": "%t", "payload": "%x"}' > frames.jsonl"""
)


def from_frames(plan: Deployment, path: Path) -> ServerView:
    """What `CAPTURE` wrote: a line of JSON for each message, its payload in hexadecimal digits."""
    if plan.deploy.clock == "live":
        found = "is 'live': which samples the clients had is not in the file, so nothing is judged"
        raise InputError("deploy.clock", found, "attack a run in lockstep")
    downs: dict[tuple[int, int], wire.Frame] = {}
    ups: dict[tuple[int, int], bytes] = {}
    foreign = 0
    for k, up, data in _messages(path, plan.deploy.run):
        try:
            frame = wire.decode(data, plan.largest + SEAL)
        except wire.RefusedError:
            foreign += 1
            continue
        if frame.digest != plan.digest:
            foreign += 1
        elif up and frame.kind == wire.UPLOAD:
            ups.setdefault((frame.n, k), _unsealed(plan.method(), frame.body, up=True))
        elif not up and frame.kind in wire.INVITATIONS:
            downs[frame.n, k] = frame
    if not downs:
        found = f"has no invitation of this run, and {foreign} messages of others"
        raise InputError("", found, f"give the file of that run, and capture with: {CAPTURE}",
                         str(path))  # fmt: skip
    first = next(iter(downs.values())).body  # all have a seal, or none has
    sealed = len(first) - len(_unsealed(plan.method(), first, up=False))
    begun = {k: n for (n, k), frame in sorted(downs.items()) if frame.kind == wire.BEGIN}
    contacts = [
        Contact(n, (k,), frame.body[: len(frame.body) - sealed], ups.get((n, k), b""))
        for (n, k), frame in downs.items()
        if n >= begun.get(k, 0)  # who starts over is another client
    ]
    rounds = [n for n, _ in downs]
    return seen(plan, contacts, min(rounds), max(rounds) + 1)


def _messages(path: Path, run: str) -> Iterator[tuple[int, bool, bytes]]:
    """The client, whether it is from it, and the payload, of each line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            "", f"cannot be read: {error}", "give the file of captured frames", str(path)
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


def _unsealed(method: Method, body: bytes, up: bool) -> bytes:
    """Without a seal: the server has the key that it is checked with, and needs it for no more."""
    sealed = not _fits(method, body, up) and _fits(method, body[:-SEAL], up)
    return body[:-SEAL] if sealed else body


def _fits(method: Method, body: bytes, up: bool) -> bool:
    """Whether it is a message of the method."""
    try:
        return not body or method.decode(body, up) is not None
    except (ValueError, IndexError):
        return False


def attacked(file: Path, frames: Path, clients: int) -> audit.Audit:
    """The audit of the method of a file, by the frames of its run."""
    plan = deployment.read(file)
    view = from_frames(plan, frames)
    whom = audit.whom(view, clients)
    title = plan.world.methods[0].title()
    one = audit.of_view(view, whom, title, lambda what: lambda done, of: None)
    shown = replace(plan.experiment, methods=plan.world.methods)
    return audit.Audit(shown, plan.wire, view.stop - view.first, len(whom), (one,))


def main() -> None:
    """Print what was read."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="the file of the run")
    parser.add_argument("frames", type=Path, help="captured messages, a line of JSON each")
    parser.add_argument("--clients", type=int, default=audit.CLIENTS, help="how many are attacked")
    asked = parser.parse_args()
    try:
        found = attacked(asked.file, asked.frames, asked.clients)
    except InputError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    print(*privacy.blocks(found), sep="\n")


if __name__ == "__main__":
    main()

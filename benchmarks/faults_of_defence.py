"""Planted faults in what keeps a federation from harm: the defence, seals, shares, starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from faults import Faults, fault

from psofed.fleet import mqtt, server_loop
from psofed.fleet.protocol import (
    client,
    coordinator,
    folding,
    member,
    server,
    server_state,
    wire,
)
from psofed.stages.checks.contract import COUNTS
from psofed.stages.defences import clip
from psofed.stages.defences.contract import OWN, Defended

DEFENCE: Faults = {}  # each is caught by an audit
LINE: Faults = {}  # each is caught by hostile messages


@fault(clip.Defence, "__init__", "nothing is clipped", DEFENCE)
def _(good: Any) -> Any:
    return lambda self, options, setting: good(self, replace(options, clip=1e300), setting)


@fault(clip, "SLOW", "a vote never falls", DEFENCE)
def _(good: Any) -> Any:
    return 0.0


@fault(clip, "upper", "a mean is taken where a median should be", DEFENCE)
def _(good: Any) -> Any:
    return lambda values: float(np.mean(values))


@fault(clip.Defence, "_scaled", "the scale is that of this round alone", DEFENCE)
def _(good: Any) -> Any:
    def scaled(self: Any, state: Any, k: Any, r: Any) -> Any:
        return clip.upper(r) if good(self, state, k, r) else 0.0

    return scaled


@fault(clip, "fallen", "weights are not applied", DEFENCE)
def _(good: Any) -> Any:
    return lambda far: np.ones_like(far)


@fault(clip, "CHANGES", "the memory of changes is not updated", DEFENCE)
def _(good: Any) -> Any:
    return 0.0


@fault(clip.Defence, "_review", "the review never comes", DEFENCE)
def _(good: Any) -> Any:
    return lambda self, state: None


@fault(clip.Defence, "_review", "a weight that has fallen never comes back", DEFENCE)
def _(good: Any) -> Any:
    def review(self: Any, state: Any) -> None:
        before = state["weight"].copy()
        good(self, state)
        np.minimum(state["weight"], before, out=state["weight"])

    return review


@fault(clip.Defence, "_sized", "the size of a client is its last one", DEFENCE)
def _(good: Any) -> Any:
    return lambda self, state, k, r: np.minimum(r, clip.HUGE) ** 2


@fault(
    server_state.ServerState, "to_arrays",
    "a server that restarts forgets what its defence knew", DEFENCE,
)  # fmt: skip
def _(good: Any) -> Any:
    return lambda self: {n: a for n, a in good(self).items() if not n.startswith(f"state.{OWN}")}


@fault(server.Server, "collect", "the defence sees what is refused afterwards", DEFENCE)
def _(good: Any) -> Any:
    def collect(self: Any, k: int, n: int, answer: bytes) -> str:
        if k in self.cohort:  # its arrays are changed in place, those of the method are not
            state = self.state | {name: array.copy() for name, array in self.now.own.items()}
            upload = {self._row(k): self.method.decode(answer, up=True)}
            folding.folded(self.method, state, self.n, upload)
        return str(good(self, k, n, answer))

    return collect


@fault(Defended, "fold", "the fold leaves the defence out", DEFENCE)
def _(good: Any) -> Any:
    return lambda self, *given: self.inner.fold(*given)


@fault(mqtt.Link, "_on_message", "what was left at the broker is heard", LINE)
def _(good: Any) -> Any:
    def on_message(self: Any, client: Any, userdata: Any, message: Any) -> None:
        message.retain = False
        good(self, client, userdata, message)

    return on_message


@fault(wire, "check_start", "any later start of a server is believed", LINE)
def _(good: Any) -> Any:
    return lambda found, seen: good(min(found, seen + 1), seen)


@fault(coordinator, "unseal", "the server does not look at seals", LINE)
def _(good: Any) -> Any:
    return lambda key, direction, data: data if key is None else data[: -wire.SEAL]


@fault(member, "unseal", "a client does not look at seals", LINE)
def _(good: Any) -> Any:
    return lambda key, direction, data: data if key is None else data[: -wire.SEAL]


@fault(coordinator, "derive", "all clients have the same key", LINE)
def _(good: Any) -> Any:
    return lambda secret, k: good(secret, 0)


@fault(wire, "_tag", "a seal is good for both directions", LINE)
def _(good: Any) -> Any:
    return lambda key, direction, frame: good(key, wire.UP, frame)


@fault(mqtt, "SHARE", "one client may fill the inbox", LINE)
def _(good: Any) -> Any:
    return 10**6


@fault(server_loop, "REPLIES", "every greeting is answered", LINE)
def _(good: Any) -> Any:
    return 10**9


@fault(coordinator.Coordinator, "_greet", "who claims to be ahead ends the server", LINE)
def _(good: Any) -> Any:
    def greet(self: Any, k: int, frame: Any) -> str:
        if good(self, k, frame) == "ahead":
            raise SystemExit("a client is ahead")
        return "hello"

    return greet


@fault(server_state.Ledger, "reject", "forged messages are not counted", LINE)
def _(good: Any) -> Any:
    return lambda self, k, why, *more: None if why == "mac" else good(self, k, why, *more)


@fault(client.Client, "to_arrays", "counts of checked samples are lost at a restart", LINE)
def _(good: Any) -> Any:
    lost = f"state.{COUNTS}"
    return lambda self: {n: 0 * a if n == lost else a for n, a in good(self).items()}

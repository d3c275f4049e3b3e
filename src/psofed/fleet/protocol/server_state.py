"""The server's state as one value: what a record holds, from one commit to the next.

A commit or a change of the fleet makes the next value completely, from copies. It is made durable,
and only then does the server go on with it: what the disk refuses has not happened.

The ledger has exact counts of the outcome of every question and of every message. Each member that
is asked ends as one of accepted, refused (only invalid answers came, or a late one) or lost
(nothing came): asked = accepted + refused + lost. Each message that arrives is one of accepted,
repeated (the same bytes again) or rejected: received = accepted + repeated + rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from psofed.federation.contract import Array, Method, State
from psofed.federation.records import number, restored, taken
from psofed.fleet.protocol.members import MemberTable
from psofed.fleet.protocol.wire import LAST_ROUND
from psofed.stages.defences.contract import OWN

REASONS = (
    "size", "version", "kind", "type", "digest", "stranger", "late", "early", "conflict",
    "values", "finite", "bound", "mac", "together", "excluded", "removed", "masks",
)  # fmt: skip
COUNTS = ("asked", "accepted", "refused", "lost", "received", "repeated", "rejected")
TABLES = ("accepted", "lost_at", "accepted_at", "refused", "lost")


class Ledger:
    """The counters of a run and a row per member; durable with each commit, so consistent."""

    def __init__(self, clients: int) -> None:
        self.counts = dict.fromkeys(COUNTS, 0)
        self.reasons = dict.fromkeys(REASONS, 0)
        self.accepted = np.zeros(clients, np.int64)  # uploads folded in, by client
        self.lost_at = np.full(clients, -1, np.int64)  # the last round without an answer
        self.accepted_at = np.full(clients, -1, np.int64)  # the last round with one
        self.refused = np.zeros(clients, np.int64)  # the totals of these two, by client
        self.lost = np.zeros(clients, np.int64)
        self.dropped: set[int] = set()  # members not waited for in the open round any more
        self._tried: set[int] = set()

    def copy(self) -> Ledger:
        """The same counts, to go on from."""
        return deepcopy(self)

    def reject(self, k: int, reason: str, n: int | None = None, is_open: bool = False) -> None:
        """Rule 9 and 11: a message that changes nothing but this table.

        `n` is the round that it is for, and `is_open` says whether that one is open.
        """
        self.counts["received"] += 1
        self.counts["rejected"] += 1
        self.reasons[reason] += 1
        if not 0 <= k < len(self.lost_at):
            return
        if reason not in ("late", "mac") or (reason == "late" and is_open):
            # Without the key, it was not this client that tried.
            self._tried.add(k)
        elif reason == "late" and self.lost_at[k] == n:
            # It was counted as lost when its round closed, but it was only late.
            self.lost_at[k] = -1
            self.counts["lost"] -= 1
            self.counts["refused"] += 1
            self.lost[k] -= 1
            self.refused[k] += 1

    def close(self, n: int, cohort: Iterable[int], answered: Iterable[int]) -> None:
        """Rule 9: every member that was asked is accounted for; only now is an upload accepted."""
        members, here = {*cohort, *self.dropped}, set(answered)
        refused = (members & self._tried) - here
        lost = members - here - refused
        self.counts["asked"] += len(members)
        self.counts["accepted"] += len(here)
        self.counts["received"] += len(here)
        self.accepted[list(here)] += 1
        self.accepted_at[list(here)] = n
        self.counts["refused"] += len(refused)
        self.refused[list(refused)] += 1
        self.counts["lost"] += len(lost)
        self.lost[list(lost)] += 1
        self.lost_at[list(lost)] = n
        self.void()

    def void(self) -> None:
        """Rule 18: the open round is not closed, so nobody was asked in it."""
        self._tried.clear()
        self.dropped.clear()

    def resize(self, clients: int, cleared: Iterable[int] = ()) -> None:
        """As many rows as there are in the table of members; some are cleared for others."""
        fresh = Ledger(clients)
        for name in TABLES:
            rows, old = getattr(fresh, name), getattr(self, name)
            rows[: len(old)] = old
            rows[list(cleared)] = -1 if name in ("lost_at", "accepted_at") else 0
            setattr(self, name, rows)

    def to_arrays(self) -> dict[str, Array]:
        """What is stored."""
        counts = np.array([*self.counts.values(), *self.reasons.values()], np.int64)
        return {"counts": counts, **{name: getattr(self, name) for name in TABLES}}

    def restore(self, arrays: dict[str, Array]) -> None:
        """The inverse of `to_arrays`."""
        size, rows = len(COUNTS) + len(REASONS), self.accepted.shape
        counts = taken(arrays, "counts", np.int64, (size,), 0).tolist()
        self.counts = dict(zip(COUNTS, counts[: len(COUNTS)], strict=True))
        self.reasons = dict(zip(REASONS, counts[len(COUNTS) :], strict=True))
        for name in TABLES:
            least = -1 if name.endswith("_at") else 0
            setattr(self, name, taken(arrays, name, np.int64, rows, least).copy())
        self.void()


@dataclass(frozen=True, eq=False)
class ServerState:
    """All that a server knows when round n is opened. Only the ledger counts on in between."""

    n: int  # the round that is open
    method: Method  # bound to the table
    state: State  # of the method and of its stages
    table: MemberTable
    ledger: Ledger
    fresh: Array  # by entry of the model: the round after which it was last changed
    traffic: Array  # bytes up and down in all rounds that were closed
    behind: bool = False  # whether this is an old copy: clients know later rounds

    @property
    def own(self) -> State:
        """The state without what a defence remembers."""
        return {name: array for name, array in self.state.items() if not name.startswith(OWN)}

    def copied(self) -> State:
        """The state, to be changed."""
        return {name: array.copy() for name, array in self.state.items()}

    def skipped(self, n: int) -> ServerState:
        """A later round is open; those before it are void."""
        ledger = self.ledger.copy()
        ledger.void()
        return replace(self, n=n, ledger=ledger)

    def to_arrays(self) -> dict[str, Array]:
        """What is stored."""
        return {
            "n": np.array(self.n, np.int64),
            **{f"state.{name}": array for name, array in self.state.items()},
            **self.table.to_arrays(),
            **self.ledger.to_arrays(),
            "fresh": self.fresh,
            "traffic": self.traffic,
            "behind": np.array(self.behind),
        }


def first(method: Method) -> ServerState:
    """Before round 0."""
    task = method.task
    traffic, fresh = np.zeros(2, np.int64), np.zeros(task.dim, np.int64)
    table, ledger = MemberTable(task.clients), Ledger(task.clients)
    return ServerState(0, method, method.server(), table, ledger, fresh, traffic)


def recorded(
    method: Method, arrays: dict[str, Array], bind: Callable[[MemberTable], Method] | None
) -> ServerState:
    """Rule 6: as it was after the last commit; nothing of an unfinished round is kept."""
    start = first(method)
    n, table = number(arrays, "n", 0, LAST_ROUND + 1), start.table
    table.restore(arrays)
    if table.changes and bind is not None:
        method = bind(table)
    ledger = Ledger(len(table))
    ledger.restore(arrays)
    fresh = taken(arrays, "fresh", np.int64, start.fresh.shape, 0, n)
    traffic = taken(arrays, "traffic", np.int64, (2,), 0)
    behind = bool(taken(arrays, "behind", np.bool_, ()))
    state = _state(method.server(), arrays)
    return ServerState(n, method, state, table, ledger, fresh, traffic, behind)


def _state(fresh: State, arrays: Mapping[str, Array]) -> State:
    """That of a record. What another defence remembered is not read: this one starts over.

    A defence may remember values that are not finite, a model may not have any.
    """
    own = {name: array for name, array in fresh.items() if not name.startswith(OWN)}
    defence = {name: array for name, array in fresh.items() if name.startswith(OWN)}
    known = {name[6:]: a.shape for name, a in arrays.items() if name.startswith(f"state.{OWN}")}
    if known == {name: array.shape for name, array in defence.items()}:
        defence = restored(defence, arrays, finite=False)
    return restored(own, arrays) | defence


def model(method: Method, state: State) -> Array | None:
    """What the server has learned; None if only its clients have models."""
    try:
        return state["w"] if "w" in state else method.models(state, {})
    except KeyError:
        return None


def changed(before: State, after: State, method: Method) -> Array:
    """The entries of the model that a fold has changed; all, if the server has none."""
    was, now = model(method, before), model(method, after)
    if was is None or now is None:
        return np.arange(method.task.dim)
    return np.flatnonzero((was != now).reshape(-1, now.shape[-1]).any(axis=0))


def closed(
    now: ServerState,
    state: State,
    asked: Iterable[int],
    answered: Sequence[int],
    rejected: Mapping[int, str],
    sent: Sequence[int],
) -> ServerState:
    """Rules 9 and 10: the value after the open round, with a new state of the method.

    By row: who was asked, whose answers are in the state, and whose are not, for which reason.
    """
    table, ledger, fresh = now.table, now.ledger.copy(), now.fresh.copy()
    for row, reason in rejected.items():
        ledger.reject(row, reason, now.n)
    ledger.close(now.n, asked, answered)
    fresh[changed(now.state, state, now.method)] = now.n + 1
    if not table.begun[answered].all():
        table = table.copy()
        table.begin(answered, True)
    traffic = now.traffic + np.array(sent, np.int64)
    return replace(
        now, n=now.n + 1, state=state, table=table, ledger=ledger, fresh=fresh, traffic=traffic
    )

"""Several rounds in one compiled call, for methods that know ahead what happens in them.

A method that is `scripted` exchanges by eq. (9) and (11), and its learner is LMS, eq. (10); or its
server makes a mean step with samples that clients relay. A round is then the same few lines
whatever the method's name. They are restated in native/stretch.h, and a test pins them to
`round.play`. Where nothing is compiled, `takes` says no to all methods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psofed import native
from psofed.core.schedule import Indices
from psofed.methods.contract import Method, State
from psofed.methods.members import Clients
from psofed.methods.round import Selection, Sizes

Array = NDArray[Any]
OPENS, CLOSES, IDLE, POOLS = 1, 2, 4, 8  # what happens in a round; the same in C
ROOM = 2**20  # entries of the windows that are in memory at once


@dataclass(frozen=True, eq=False)
class Stretch:
    """Rounds first.. of all clients: what they predict, and from what they then learn."""

    first: int
    fresh: Array  # [round, client, D]: features of the samples to predict
    known: Array  # [round, client, D]: of those whose labels have become known
    y: Array  # [round, client]: these labels; NaN: none

    def parts(self, length: int) -> Iterator[tuple[slice, Stretch]]:
        """The same in pieces of so many rounds."""
        for i in range(0, len(self.y), length):
            here = slice(i, i + length)
            yield here, Stretch(self.first + i, self.fresh[here], self.known[here], self.y[here])


class Script(NamedTuple):
    """What the compiled code works on: the fields of its struct, in the same order."""

    rounds: int
    clients: int
    dim: int
    shared: int
    w: Array
    local: Array
    fresh: Array
    known: Array
    y: Array
    what: Array
    start: Array
    members: Array
    down: Array
    up: Array
    step: float
    of_server: Array
    of_client: Array
    total: Array


def takes(method: Method) -> bool:
    """Whether rounds of the method can be computed so."""
    plain = method.scripted and method.policy is None and method.task.learner.lms
    return plain and native.available()


def play(
    stretch: Stretch, server: State, clients: Clients, who: Selection, sizes: Sizes
) -> tuple[Array, Array, tuple[int, int, int]]:
    """Predictions by w_n and by w_{k,n}, each made before learning; bytes up, down, multicast."""
    method, shape = clients.method, stretch.y.shape
    dtype = server["w"].dtype
    made = [np.empty(shape, dtype) for _ in range(2)]
    sent = np.zeros(3, np.int64)
    for here, part in stretch.parts(max(ROOM // (method.task.cohorts.size * method.task.dim), 1)):
        members = [who.members(n, server) for n in range(part.first, part.first + len(part.y))]
        sent += _traffic(method, part.first, members, sizes)
        job = _job(part, server, clients, members, [each[here] for each in made])
        native.function("stretch", dtype)(native.struct(job))
    up, down, multicast = sent.tolist()
    return made[0], made[1], (up, down, multicast)


def _job(
    part: Stretch, server: State, clients: Clients, cohorts: list[Indices], made: list[Array]
) -> Script:
    method, w = clients.method, server["w"]
    local = clients.states.get("w", np.zeros((clients.count, len(w)), w.dtype))
    assert w.dtype == local.dtype
    assert part.fresh.shape == part.known.shape == (len(part.y), *local.shape)
    members, sizes = np.concatenate(cohorts), [len(each) for each in cohorts]
    rounds = range(part.first, part.first + len(part.y))
    n = np.repeat(rounds, sizes)
    what = np.full(len(rounds), POOLS if method.relays else IDLE * method.idle, np.uint8)
    down = up = np.empty((0, 0), np.int64)
    if not method.relays:
        opens, closes = (np.array([f(i) for i in rounds]) for f in (method.begins, method.ends))
        what += (OPENS * opens + CLOSES * closes).astype(np.uint8)
        down, up = (
            np.ascontiguousarray(method.entries(members[some], n[some], way), np.int64)
            for some, way in ((np.repeat(opens, sizes), False), (np.repeat(closes, sizes), True))
        )
    fresh, known, y = (np.ascontiguousarray(a, w.dtype) for a in (part.fresh, part.known, part.y))
    return Script(
        rounds=len(y), clients=len(local), dim=len(w), shared=down.shape[-1], w=w, local=local,
        fresh=fresh, known=known, y=y,
        what=what, start=np.cumsum([0, *sizes]), members=members.astype(np.int64), down=down, up=up,
        step=float(method.step), of_server=made[0], of_client=made[1], total=np.zeros(len(w)),
    )  # fmt: skip


def _traffic(method: Method, first: int, cohorts: list[Indices], sizes: Sizes) -> Any:
    """The bytes of these rounds; the size of a message depends on the number of its entries."""
    none = np.zeros(1, np.intp)
    length = method.task.taps + 1 if method.relays else method.entries(none, none, True).size
    message = np.zeros((1, length))
    alike = Counter(
        (len(cohort), method.begins(n), method.ends(n)) for n, cohort in enumerate(cohorts, first)
    )
    sent = np.zeros(3, np.int64)
    for (count, opens, closes), times in alike.items():
        up, down = message if closes else None, message if opens and not method.relays else None
        if count:
            sent += sizes.traffic(up, count, down, count, times=times)
    return sent

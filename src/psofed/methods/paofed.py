"""PAO-Fed: partial sharing with clients that come and go, and uploads that arrive late.

Source: F. Gauthier, V. C. Gogineni, S. Werner, Y.-F. Huang, A. Kuh, "Resource-aware asynchronous
online federated learning for nonlinear regression", ICC 2022, arXiv 2111.13931; "Asynchronous
online federated learning with reduced communication requirements", IEEE Internet of Things J.,
2023, arXiv 2303.15226.

Faithful: PSO-Fed with availability by chance, geometric delays, a mean for each delay, weights that
decrease with it, and of an entry that arrives with several delays only the newest; window = "same"
uploads the entries that were downloaded, "next" the following ones.

Ours: availability is the cohort unless it is set, and the same for all clients; delay = 0.2, decay
= 0.2, longest = 10 and M = 4.

Unverified: the bodies of the papers were not read: the settings of the published variants (K = 256,
four groups of availability) are from memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from psofed.core import equations
from psofed.core.schedule import Ahead, Indices
from psofed.errors import InputError
from psofed.federation import schema
from psofed.federation.bases import Windows
from psofed.federation.contract import Array, Message, State, Task
from psofed.federation.options import Coded
from psofed.methods import psofed


@dataclass(frozen=True)
class PAOFed(Windows):
    """The options of PSO-Fed; availability (none: the cohorts), delays, weights decay^l."""

    name: ClassVar[str] = "paofed"
    coded: ClassVar[Coded] = "both"
    selects: ClassVar[bool] = True
    shared: int = 4  # M, entries in a message
    scheme: Literal["coordinated", "uncoordinated"] = "coordinated"  # common windows or not
    mask: Literal["subset", "block", "groups"] = "block"  # neighbours, or random
    availability: float | None = None  # odds that a client is there; not set: the cohort's share
    delay: float = 0.2  # odds that an upload is a round later
    longest: int = 10  # rounds after which it is lost
    decay: float = 0.2  # weight of an upload, by round of delay
    window: Literal["next", "same"] = "next"  # up: the next entries or the same

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """M = D/5, or the next divisor of D below."""
        return (cls().turned(max(dim // 5, 1), dim),)

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """M, a divisor of D, and the scheme."""
        found = super().choices(dim, rounds)
        fit = {cls().turned(value, dim).shared for value in found["shared"]}
        return {**found, "shared": tuple(sorted(fit))}

    @property
    def all_matter(self) -> bool:
        """Whether each client decides by itself to take part."""
        return self.availability is not None

    @property
    def settled(self) -> str:
        """Availability is drawn by the client's place among the first ones."""
        return "who is available is drawn for the first clients" if self.availability else ""

    def describe(self) -> str:
        return f"PAO-Fed {self.windows()} delay={self.delay:g}"

    def check(self, dim: int, clients: int) -> None:
        """Probabilities are between 0 and 1."""
        super().check(dim, clients)
        for field in ("availability", "delay", "decay"):
            value = getattr(self, field)
            if value is not None and not 0 <= value <= 1:
                raise InputError(field, f"is {value}", "use 0 to 1")
        if self.differs and self.delay > 0:
            found = f"is {self.wire!r}, but the server does not have late uploads as references"
            raise InputError("wire", found, 'use "float16", or delay = 0')
        schema.require(self, "longest", 0 <= self.longest <= 1000, "use 0 to 1000")


Options = PAOFed


class Method(psofed.Method):
    """Algorithm 1 whose uploads arrive l rounds later, P(l >= i) = delta^i; l > l_max is lost.

    w_{n+1} = w_n + sum_l alpha_l mean over the uploads of delay l of (value - w_n), entry by entry;
    of an entry that comes with several delays, only the shortest delay counts.
    """

    entrywise = False

    def __init__(self, options: Options, task: Task) -> None:
        self.options = options
        super().__init__(options, task)
        self.late = Ahead(self._delay, task.cohorts, count=1)
        self.several = options.availability is None  # else cohorts have different sizes

    def _window(self, up: bool, k: Indices, n: Any) -> Indices:
        """S_{k,n} down, S_{k,n+1} or S_{k,n} up."""
        return super()._window(up and self.options.window == "next", k, n)

    def cohort(self, n: int, server: State) -> Indices:
        """Those who are available: each with its probability, or the cohort."""
        p = self.options.availability
        if p is None:
            return super().cohort(n, server)
        u = self.task.seeds.uniforms("available", round=n, count=self.task.clients)
        return np.intersect1d(np.flatnonzero(u < p), self.task.cohorts.there(n))

    def server(self) -> State:
        """w_n and the uploads in transit: by round of arrival (modulo), by delay, by client."""
        slots, K = self.options.longest + 1, self.task.places
        late = {"mail": self.task.zeros(slots, slots, K, self.shared)}
        return super().server() | late | {"full": np.zeros((slots, slots, K), bool)}

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """Store the uploads, then fold in what arrives in this round."""
        if k.size:
            self._store(server, k, n, message)
        self._arrive(server, n)

    def _store(self, server: State, k: Indices, n: int, message: Message) -> None:
        """Uploads wait for the round in which they arrive, or are lost."""
        slots, delay = self.options.longest + 1, self.late(k, n)
        *run, i = np.nonzero(message.heard & (delay < slots))
        late = delay[*run, i]
        place = *run, (n + late) % slots, late, k[*run, i]
        server["mail"][place], server["full"][place] = message.values[*run, i], True

    def _arrive(self, server: State, n: int) -> None:
        """The sum over l of alpha_l times the mean of what arrives in round n with delay l."""
        w, slot = server["w"], n % (self.options.longest + 1)
        here = server["full"][..., slot, :, :]  # [..., delay, client]
        change, free = np.zeros_like(w), np.ones_like(w)
        for late in np.unique(here.nonzero()[-2]).tolist():
            members, share = _first(here[..., late, :])
            window = self._window(True, members, n - late)
            news = np.take_along_axis(server["mail"][..., slot, late, :, :], members[..., None], -2)
            news = news - equations.share(w, window)
            # Entries that a shorter delay has brought do not count.
            weight = (self.options.decay**late * share[..., None]).astype(w.dtype)
            equations.add_at(change, window, news * equations.share(free, window) * weight)
            brought = np.zeros_like(w)
            equations.add_at(brought, window, np.broadcast_to(weight, window.shape))
            free[brought > 0] = 0
        here[...] = False
        w += change

    def decode(self, data: bytes, up: bool) -> Array:
        """M values."""
        values = super().decode(data, up)
        if len(values) != self.shared:
            raise ValueError(f"{len(values)} values, not {self.shared}")
        return values

    def _delay(self, k: Any, n: Any) -> Indices:
        """l of each client; above l_max it is lost."""
        u = self.task.seeds.uniforms("delay", client=k, round=n, count=1)[..., 0]
        delta = self.options.delay
        if delta <= 0:
            return np.zeros_like(u, np.intp)
        if delta >= 1:
            return np.full_like(u, self.options.longest + 1, np.intp)
        late = np.log(1 - u) / np.log(delta)
        return late.astype(np.intp)


def _first(there: Array) -> tuple[Indices, Array]:
    """The clients that are there [..., m], and 1 / their number; fillers have the share 0."""
    count = there.sum(axis=-1)
    members = np.argsort(~there, axis=-1, kind="stable")[..., : count.max()]
    share = np.take_along_axis(there, members, axis=-1) / np.maximum(count, 1)[..., None]
    return members, share

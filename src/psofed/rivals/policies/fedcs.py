"""FedCS: of some clients that are asked, as many fast ones as fit a deadline, with a_k = 1/|S_n|.

Source: T. Nishio, R. Yonetani, "Client selection for federated learning with heterogeneous
resources in mobile edge", ICC 2019, arXiv 1804.08333.

Faithful: a share C of the clients is asked at random and reports its resources. Of these the server
takes greedily the one that adds the least time to the round, and keeps it if the deadline still
holds; T_d, the time of distribution by multicast at the least rate of the chosen, is part of both.
The weights do not compensate for the preference of fast clients.

Ours: rates, computing times and the deadline; the selection and the aggregation take no time. Sizes
of messages are those of the method in use, so short ones let more clients fit.

Unverified: the algorithm was written from memory and from a description of its criterion.

Online-Fed, with 4.0 clients a round, ends 0.20 (0.04) dB above itself with uniform cohorts. PSO-Fed
with M = 40 has 7.4 clients within the same deadline, and ends 0.17 (0.03) dB below itself with
uniform cohorts of 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf
from typing import ClassVar

import numpy as np

from psofed.contract import Array, InputError, State, UniformCohorts, policies, require, subsets

TRIALS, HALVINGS = 100, 16  # of the search for a deadline


@dataclass(frozen=True)
class FedCS(policies.Options):
    """The share C that is asked, the deadline in s, rates in kbit/s and computing times in ms.

    Each client draws a rate, log-uniform, and a time, uniform, once. With deadline = inf all that
    are asked take part. If it is not set, it is chosen for the rates that were drawn: Online-Fed
    then fits as many clients on average as the experiment's cohort has.
    """

    name: ClassVar[str] = "fedcs"
    share: float = 0.1  # C, of the clients, is asked
    deadline: float | None = None  # seconds; not set: as many fit as a cohort has
    rates: tuple[float, float] = (1.0, 100.0)  # kbit/s
    computing: tuple[float, float] = (1.0, 20.0)  # milliseconds

    def describe(self) -> str:
        within = "" if self.deadline is None else f" within {self.deadline:g} s"
        within = ", no deadline" if self.deadline == inf else within
        return f"FedCS {100 * self.share:g} % asked{within}"

    def check(self, clients: int, cohort: int) -> None:
        """The share is above 0 and at most 1, times are not negative."""
        require(self, "share", 0 < self.share <= 1, "use a number above 0, at most 1")
        if self.deadline is not None and not self.deadline > 0:
            raise InputError("deadline", f"is {self.deadline}", "use a number of seconds, or inf")
        if not 0 < self.rates[0] <= self.rates[1] < inf:
            raise InputError("rates", f"is {list(self.rates)}", "use the smallest and the largest")
        if not 0 <= self.computing[0] <= self.computing[1] < inf:
            found = f"is {list(self.computing)}"
            raise InputError("computing", found, "use the smallest and the largest")


Options = FedCS


class Policy(policies.Policy):
    """S_n packed greedily from A_n, ceil(C K) clients: next the k of least d_k, if it still fits.

    d_k = T_d(S_n + k) - T_d(S_n) + 8 B_up / r_k + max(0, c_k - Theta) is the time that k adds.
    T_d(S) = 8 B_down / the least rate of S is that of the distribution, T_d of nobody is 0. Theta
    is that of the uploads so far: they come one after another, and computing goes on meanwhile. k
    fits if T_d(S_n + k) + Theta + 8 B_up / r_k + max(0, c_k - Theta) stays below the deadline. B_up
    is the largest upload so far. Each of A_n, a uniform cohort, is asked (1 byte) and reports r_k
    and c_k (8 bytes). S_n may be empty.
    """

    def __init__(self, options: Options, federation: policies.PolicyTask) -> None:
        super().__init__(options, federation)
        clients = federation.clients
        self.asked = min(ceil(options.share * clients - 1e-9), clients)
        self.uniform = UniformCohorts(federation.seeds, clients, self.asked)
        u = federation.seeds.world.uniforms("fedcs", client=np.arange(clients), count=2)
        (slow, fast), (least, most) = options.rates, options.computing
        self.rate = 1e3 * slow * (fast / slow) ** u[:, 0]
        self.time = 1e-3 * (least + (most - least) * u[:, 1])
        self.size, deadline = min(federation.cohort, self.asked), options.deadline
        self.deadline = self._usual(federation) if deadline is None else deadline
        if self.deadline == inf:
            self.size = self.asked

    def invite(self, state: State, n: int, up_bytes: int, down_bytes: int) -> policies.Invited:
        """S_n."""
        asked = self.uniform.cohort(n)
        members = self._fitting(asked, up_bytes, down_bytes, self.deadline)
        return policies.Invited(members, 2 * policies.SCALAR * self.asked, self.asked)

    def _fitting(self, asked: Array, up_bytes: int, down_bytes: int, deadline: float) -> list[int]:
        rate, time = self.rate[asked], self.time[asked]
        chosen = pack(8 * up_bytes / rate, time, 8 * down_bytes / rate, deadline)
        return sorted(asked[chosen].tolist())

    def _usual(self, federation: policies.PolicyTask) -> float:
        """The deadline at which Online-Fed fits the usual cohort, by halving the interval."""
        u = federation.seeds.world.uniforms(
            "fedcs trials", round=np.arange(TRIALS), count=self.asked
        )
        trials, whole = subsets(u, federation.clients), federation.model_bytes
        enough = float(self.asked * (8 * whole / self.rate.min() + self.time.max()))
        low, high = 0.0, enough + 8 * whole / float(self.rate.min()) + 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            fitted = sum(len(self._fitting(A, whole, whole, middle)) for A in trials)
            low, high = (low, middle) if fitted >= TRIALS * self.size else (middle, high)
        return high


def pack(upload: Array, time: Array, download: Array, deadline: float) -> list[int]:
    """Who fits the deadline, in the order of the choice; all times in the same unit.

    >>> pack(np.array([3.0, 1.0, 2.0]), np.zeros(3), np.ones(3), 4.5)
    [1, 2]
    """
    ups, times, downs = upload.tolist(), time.tolist(), download.tolist()
    left, chosen, total, longest = list(range(len(ups))), list[int](), 0.0, 0.0
    while left:
        own = [ups[i] + max(0.0, times[i] - total) for i in left]
        down = [max(longest, downs[i]) for i in left]  # T_d(S + k)
        adds = [d - longest + o for d, o in zip(down, own, strict=True)]
        best = adds.index(min(adds))
        i = left.pop(best)
        if down[best] + total + own[best] < deadline:
            chosen.append(i)
            total, longest = total + own[best], down[best]
    return chosen

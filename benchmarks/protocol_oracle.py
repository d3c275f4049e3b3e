"""An oracle: the rules of the protocol restated, in loops and sets, to compare with.

It shares no code with client, server or ledger. It is told which bytes arrive at the server and
when a round is closed, and knows what must have become of each; from that it computes the models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.federation.stage import within
from psofed.fleet.protocol.client import Source
from psofed.fleet.protocol.deployment import Deployment

Array = NDArray[Any]


class ProtocolOracle:
    """Rules 8 and 9 on sets: who was heard in each round, and what became of every message."""

    def __init__(self, plan: Deployment) -> None:
        self.cohorts = plan.experiment.task(0).cohorts
        self.heard: list[set[int]] = [set()]  # by round; the last one is open
        self.lost: set[tuple[int, int]] = set()
        self.late: set[tuple[int, int]] = set()
        self.repeated = self.rejected = 0
        self._save()

    def _save(self) -> None:
        self._saved = set(self.lost), set(self.late), self.repeated, self.rejected

    def upload(self, k: int, data: bytes) -> None:
        """Whole, unchanged bytes of client k arrive."""
        n, now = int.from_bytes(data[5:9], "little"), len(self.heard) - 1
        if n < now:
            self.rejected += 1
            # Only the last round that a client missed is remembered: memory has to end somewhere.
            if (k, n) in self.lost and not any(j == k and m > n for j, m in self.lost | self.late):
                self.lost.remove((k, n))
                self.late.add((k, n))
        elif k in self.heard[now]:
            self.repeated += 1
        else:
            self.heard[now].add(k)

    def commit(self) -> None:
        """The round that was open is closed for good."""
        n = len(self.heard) - 1
        members = {int(k) for k in self.cohorts.cohort(n)}
        self.lost |= {(k, n) for k in members - self.heard[n]}
        self.heard.append(set())
        self._save()

    def crash(self) -> None:
        """The server is back where the last round was closed."""
        lost, late, self.repeated, self.rejected = self._saved
        self.lost, self.late, self.heard[-1] = set(lost), set(late), set()

    def counts(self) -> dict[str, int]:
        """What the ledger must say."""
        accepted = sum(map(len, self.heard[:-1]))
        asked = sum(len(self.cohorts.cohort(n)) for n in range(len(self.heard) - 1))
        members = {"asked": asked, "accepted": accepted}
        members |= {"refused": len(self.late), "lost": len(self.lost)}
        received = accepted + self.repeated + self.rejected
        more = {"received": received, "repeated": self.repeated, "rejected": self.rejected}
        return members | more


def models(
    plan: Deployment, heard: list[set[int]], part: list[set[int]], streams: Sequence[Source]
) -> tuple[Array, Array]:
    """Eq. (9)-(11) in loops, from who took part and who was heard: w and all w_k at the end.

    Each w_k is that of a lazy client: as it was after the last round in which it took part.
    """
    method: Any = within(plan.method())
    D, K, tau = method.task.dim, plan.experiment.clients, method.schedule.shift
    w, local, seen = np.zeros(D), np.zeros((K, D)), [0] * K
    masks = [method.schedule.initial(k)[0] for k in range(K)]
    for n in range(len(heard)):
        new = w.copy()
        for k in range(K):
            if n in part[k]:
                x, y = streams[k](seen[k], n + 1)
                for i, z in enumerate(method.task.features(x)):
                    if seen[k] + i == n:
                        window = (masks[k] + tau * n) % D
                        local[k][window] = w[window]
                    local[k] += method.step * (y[i] - local[k] @ z) * z
                seen[k] = n + 1
            if k in heard[n]:
                window = (masks[k] + tau * (n + 1)) % D
                new[window] += (local[k][window] - w[window]) / len(heard[n])
        w = new
    return w, local

"""Partial-diffusion RLS: as partial-diffusion LMS, but every node learns by RLS.

Source: R. Arablouei, K. Dogancay, S. Werner, Y.-F. Huang, "Adaptive distributed estimation based on
recursive least-squares and partial diffusion", IEEE Trans. Signal Process. 62(14), 2014.

Faithful: exponentially weighted RLS at every node, of which Q_k is never sent, and the broadcasts
of partial-diffusion LMS (see pdlms, also for the groups).

Ours: lambda = 1 - 1/(10 D), Q_0 = 100 I, and regular > 0, which bounds Q_k (see psorls).

Unverified: the scheme is that of the abstract; the body was not read.

It costs D^2 operations a sample and D^2 values of memory at every node. Q_k is float64 and
symmetric to the bit after every step. That alone does not bound it: where no sample excites it, Q_k
grows as lambda^-n, so a run of more than some 20 / (1 - lambda) rounds needs regular > 0 (see
psorls). It also helps in shorter runs: with 20 clients, M = 40 and otherwise the paper's setting,
one run had -11.2, -12.1 and -11.9 dB at n = 200, at n = 1000 and over the last 500 of 3,000 rounds
as published, and -11.2, -12.3 and -12.7 dB with regular = 0.01; windows were subsets in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from psofed.contract import Learns, Task
from psofed.rivals import pdlms, psorls


@dataclass(frozen=True)
class PdRLS(pdlms.Options):
    """Those of partial-diffusion LMS; lambda (none: 1 - 1/(10 D)), Q_0 = start I, and `regular`.

    RLS has no step, so `step` changes nothing.
    """

    name: ClassVar[str] = "pdrls"
    learners: ClassVar[Learns] = "linear"
    steps: ClassVar[bool] = False
    forget: float | None = None  # lambda; not set: 1 - 1/(10 D)
    start: float = 100.0  # of Q_0 = start I
    regular: float = 0.0  # the least information

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """None: see psorls."""
        return ()

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """Those of partial-diffusion LMS, and lambda."""
        return {**super().choices(dim, rounds), "forget": psorls.FORGETS}

    def describe(self) -> str:
        return f"PdRLS {self.windows()}{psorls.described(self)}, {self.place()}"

    def check(self, dim: int, clients: int) -> None:
        """The graph is valid for partial-diffusion LMS, lambda is a share, Q_0 is positive."""
        super().check(dim, clients)
        psorls.check(self)


Options = PdRLS


class Method(psorls.Recursive, pdlms.Method):
    """phi_k = w_k + g e_k, g = Q_k z / (lambda + z^T Q_k z), Q_k <- (Q_k - g z^T Q_k) / lambda;

    k broadcasts phi_k on S_{k,n}, and w_k is combined from what it hears as with LMS.
    """

    def __init__(self, options: Options, task: Task, graph: pdlms.Neighbours | None = None) -> None:
        super().__init__(options, task, graph)
        self.several = False

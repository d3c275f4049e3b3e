"""FedAvg on streams: E local steps on whole models between two averages.

Source: H. B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Agüera y Arcas, "Communication-efficient
learning of deep networks from decentralized data", AISTATS 2017, arXiv 1602.05629.

Faithful: a cohort downloads the model, makes E local gradient steps, and the server takes the mean
of the models that come back; the weights n_k / n are equal, since all clients have as many samples.

Ours: on a stream E is a number of consecutive samples, not of passes over stored data; a batch is
one sample, and the cohort of a block is the one drawn for its first round.

Unverified: the original's settings (5 passes, batches of 10, 10 % of the clients) are from memory.

At E = D/M it costs as much as PSO-Fed with M, so a fair comparison includes both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from psofed.federation.bases import LocalSteps, Paced, at_least_one
from psofed.federation.options import Coded


@dataclass(frozen=True)
class FedAvg(Paced):
    """The options of FedAvg: E."""

    name: ClassVar[str] = "fedavg"
    expected: ClassVar[bool] = True
    coded: ClassVar[Coded] = "both"
    sums: ClassVar[bool] = True
    local_steps: int = 5  # E, rounds of a block

    def describe(self) -> str:
        return f"FedAvg E={self.local_steps}"

    def check(self, dim: int, clients: int) -> None:
        """E is at least 1."""
        at_least_one(self, "local_steps")


Options = FedAvg


class Method(LocalSteps):
    """Blocks of E rounds; a block's cohort downloads first, learns in every round, uploads last."""

"""The family (E, M): exchange M entries every E rounds. It joins PSO-Fed and FedAvg.

Source: ours, from PSO-Fed (see psofed) and FedAvg (see fedavg).

Faithful: E = 1 is PSO-Fed with M; M = D is FedAvg with E, as far as the global model goes.

Ours: everything between. The windows advance with every exchange, so lines of equal cost are those
of equal M/E.

Unverified: whether others have published this family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from psofed.federation.bases import Windows, at_least_one, steps
from psofed.federation.options import Coded
from psofed.methods.psofed import Method as PartialSharing


@dataclass(frozen=True)
class Periodic(Windows):
    """The options of PSO-Fed, and E."""

    name: ClassVar[str] = "periodic"
    coded: ClassVar[Coded] = "both"
    local_steps: int = 4  # E, rounds from one contact to the next

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """M = D/5, every 4 rounds."""
        return (cls(max(dim // 5, 1)),)

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """M, the scheme and E."""
        return {**super().choices(dim, rounds), "local_steps": steps(rounds)}

    @property
    def pace(self) -> int:
        """A block ends with an upload."""
        return self.local_steps

    def describe(self) -> str:
        return f"PSO-Fed E={self.local_steps} {self.windows()}"

    def check(self, dim: int, clients: int) -> None:
        """E is at least 1, and the windows are valid for PSO-Fed."""
        at_least_one(self, "local_steps")
        super().check(dim, clients)


Options = Periodic


class Method(PartialSharing):
    """Algorithm 1 in blocks of E rounds: window t goes down first, window t + 1 goes up last.

    A block ends with eq. (11), so that defences and newcomers are those of PSO-Fed.
    """

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

from psofed.core import equations
from psofed.core.schedule import Indices
from psofed.methods import fedavg, psofed
from psofed.methods.contract import Coded, Message, State, Who, stack


@dataclass(frozen=True)
class Options(psofed.Options):
    """The options of PSO-Fed, and E."""

    name: ClassVar[str] = "periodic"
    coded: ClassVar[Coded] = "both"
    local_steps: int = 4

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """M = D/5, every 4 rounds."""
        return (cls(max(dim // 5, 1)),)

    @classmethod
    def choices(cls, dim: int, rounds: int) -> Mapping[str, tuple[Any, ...]]:
        """M, the scheme and E."""
        return {**super().choices(dim, rounds), "local_steps": fedavg.steps(rounds)}

    @property
    def pace(self) -> int:
        """A block ends with an upload."""
        return self.local_steps

    def describe(self) -> str:
        return f"PSO-Fed E={self.local_steps} {self.windows()}"

    def check(self, dim: int, clients: int) -> None:
        """E is at least 1, and the windows are valid for PSO-Fed."""
        fedavg.at_least_one(self, "local_steps")
        super().check(dim, clients)


class Method(fedavg.Blocks, psofed.Method):
    """Algorithm 1 in blocks of E rounds: window t goes down first, window t + 1 goes up last."""

    stacked = scripted = True

    def download(self, server: State, k: Who, n: int) -> Message:
        """S_{k,t} w_n, at the beginning of block t."""
        t, rest = divmod(n, self.local_steps)
        return equations.share(server["w"], self.schedule.entries(k, t)) if rest == 0 else None

    def receive(self, client: State, k: Who, n: int, message: Message) -> None:
        """Eq. (9) with window t."""
        if message is not None:
            window = self.schedule.entries(k, n // self.local_steps)
            equations.receive(client["w"], window, message)

    def upload(self, client: State, k: Who, n: int) -> Message:
        """S_{k,t+1} w_k, at the end of block t."""
        t, rest = divmod(n + 1, self.local_steps)
        return equations.share(client["w"], self.schedule.entries(k, t)) if rest == 0 else None

    def entries(self, k: Indices, n: Indices, up: bool) -> Indices:
        """Window t down, window t + 1 up."""
        return self.schedule.entries(k, (n + up) // self.local_steps)

    def lengths(self, n: int) -> tuple[int, ...] | None:
        return (self.shared,) if (n + 1) % self.local_steps == 0 else ()

    def fold(
        self, server: State, n: int, uploads: Mapping[int, Message], weights: Mapping[int, float]
    ) -> None:
        """Eq. (11) with window t + 1."""
        t = (n + 1) // self.local_steps
        ks, values, shares = stack(uploads, weights)
        if len(ks):
            equations.fold(server["w"], self.schedule.entries(ks, t), values, shares)

    def touched(self, server: State, n: int, uploads: Mapping[int, Message]) -> Any:
        """The windows t + 1 that came up."""
        ks, _, _ = stack(uploads, dict.fromkeys(uploads, 0.0))
        t = (n + 1) // self.local_steps
        return self.schedule.entries(ks, t).ravel() if len(ks) else slice(0)

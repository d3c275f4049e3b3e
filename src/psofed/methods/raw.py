"""Raw samples: the cohort sends (x, y), and the server computes Online-Fed from them, exactly.

A control: the update of one LMS step is mu e z(x), so the L + 1 numbers of a sample hold as much as
D. Bytes are no argument against it; learning between contacts is one. Privacy is not one by itself:
from an upload of Online-Fed a server can in general compute the sample, and partial sharing
guarantees no privacy either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from psofed.core.schedule import Indices
from psofed.errors import InputError
from psofed.methods import centralised
from psofed.methods.contract import Common, Learns, State, Task


@dataclass(frozen=True)
class Options(Common):
    """Sending samples has no options of its own."""

    name: ClassVar[str] = "raw"
    learners: ClassVar[Learns] = "descending"
    role: ClassVar[Literal["reference", "method", "control"]] = "control"

    def describe(self) -> str:
        return "Raw samples"

    def check(self, dim: int, clients: int) -> None:
        """Clients have no model, so they cannot say how much theirs has changed."""
        if self.policy is not None and self.policy.scores == "client":
            found = f"is {self.policy.name}, but clients that send samples have no update to report"
            raise InputError("policy", found, "use another")


class Method(centralised.Method):
    """Eq. (5) and (6) at the server: w <- w + (mu/|S_n|) sum_k e_k z_k, with the samples sent."""

    stacked = scripted = True

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(
            centralised.Options("batch", step=options.step, policy=options.policy), task
        )

    def cohort(self, n: int, server: State) -> Indices:
        return self.task.cohorts.cohort(n)

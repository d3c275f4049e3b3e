"""Quantised PSO-Fed: b bits for each entry of the window, in both directions.

Source: ours, from PSO-Fed (see psofed).

Faithful: with many bits it is PSO-Fed.

Ours: the codes, their references and stochastic rounding.

Unverified: whether others have published this combination.

A client does not know w_n on the window that it uploads, so it cannot send a difference to
it: `reference = "range"` codes the values themselves between their extremes, `"last"` their
difference to what last travelled between this client and the server, which both ends remember.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from psofed.contract import (
    Ahead,
    Array,
    CodedValues,
    Knob,
    PartialSharing,
    Task,
    Windows,
    codes,
    require,
)  # fmt: skip


@dataclass(frozen=True)
class Quantised(Windows):
    """The options of PSO-Fed, b, and what the code refers to."""

    name: ClassVar[str] = "quantised"
    # A budget may lower M, not raise it: so few bits are too few if all entries travel.
    knob: ClassVar[Knob | None] = Knob("shared", keeps=True)
    uncoded: ClassVar[str] = "has a form of its own, `bits`"
    bits: int = 4  # of a value
    reference: Literal["range", "last"] = "range"  # of the levels: the range, or what was sent last

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """M = D/5 with 4 bits a value, and with 2 for differences."""
        return (cls(m := max(dim // 5, 1)), cls(m, bits=2, reference="last"))

    @property
    def differs(self) -> bool:
        """Whether differences to what last travelled are sent."""
        return self.reference == "last"

    def describe(self) -> str:
        last = ", differences" if self.differs else ""
        return f"PSO-Fed {self.windows()}, {self.bits} bit{last}"

    def check(self, dim: int, clients: int) -> None:
        """The windows are valid for PSO-Fed, the number of bits for a code."""
        super().check(dim, clients)
        require(self, "bits", 1 <= self.bits <= 24, "use 1 to 24")


Options = Quantised


class Method(CodedValues):
    """Algorithm 1 with decoded values in place of w_n and w_k on the windows.

    Rounding is random and right on average; a download for all members is rounded alike for all.
    """

    def __init__(self, options: Options, task: Task) -> None:
        self.shared = options.shared
        down, up = (
            Ahead(draw, task.cohorts, self.shared) for draw in (self._down_bits, self._up_bits)
        )
        code = codes.Range(options.bits)
        inner = PartialSharing(options, task)
        super().__init__(inner, code, differs=options.differs, luck=(down, up))

    def _down_bits(self, k: Any, n: Any) -> Array:
        who = None if self.delivery == "common" else k
        return self.task.seeds.uniforms("download bits", client=who, round=n, count=self.shared)

    def _up_bits(self, k: Any, n: Any) -> Array:
        return self.task.seeds.uniforms("upload bits", client=k, round=n, count=self.shared)

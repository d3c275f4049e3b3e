"""The paper's clients with independent windows, as its assumption A1 asks (AR(1) is not so).

A window has the same law as the paper's, but each round draws a fresh one, so the samples of a
client are independent over time. The theory of mean and mean-square errors is exact for such data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from psofed.streams import paper


@dataclass(frozen=True)
class Options(paper.Options):
    """The ranges of U(.) from which each client's law is drawn, as in the paper's stream."""

    name: ClassVar[str] = "iid"
    inputs: ClassVar[Any] = "iid"

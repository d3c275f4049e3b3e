"""No check: clients learn from every sample, also in a deployment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from psofed.stages.checks.contract import SampleCheck


@dataclass(frozen=True)
class NoCheck(SampleCheck):
    """It has no options."""

    name: ClassVar[str] = "none"
    acts: ClassVar[bool] = False


Options = NoCheck

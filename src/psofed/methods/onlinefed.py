"""Online-Fed: the selected clients exchange the whole model, the others do nothing.

Source: eq. (5) and (6) of Gogineni et al. (ICASSP 2022, see psofed), where it is the method to
beat.

Faithful: every member of S_n downloads w_n, makes one step and uploads the result; the server takes
the mean.

Ours: nothing. Written with selection matrices in eq. (7), it is PSO-Fed with M = D and without idle
learning, and that is how it is computed here.

Unverified: which paper introduced it; most likely A. Kuh, "Real-time kernel learning for sensor
networks using principles of federated learning", APSIPA 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from psofed.core.schedule import Rotating
from psofed.federation.contract import Task
from psofed.federation.options import Coded, Common
from psofed.methods import psofed


@dataclass(frozen=True)
class OnlineFed(Common):
    """Online-Fed has no options of its own."""

    name: ClassVar[str] = "onlinefed"
    role: ClassVar[Literal["reference", "method", "control"]] = "reference"
    expected: ClassVar[bool] = True
    coded: ClassVar[Coded] = "both"
    sums: ClassVar[bool] = True

    def describe(self) -> str:
        return "Online-Fed"


Options = OnlineFed


class Method(psofed.Method):
    """Eq. (7): PSO-Fed that shares every entry."""

    def __init__(self, options: Options, task: Task) -> None:
        everything = psofed.Options(task.dim, "coordinated", idle=False, step=options.step)
        super().__init__(everything, task, Rotating(np.arange(task.dim)[None], 0, task.dim))

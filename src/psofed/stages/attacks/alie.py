"""ALIE, "a little is enough": v_k = m - z s, just inside the spread of the honest models.

Source: G. Baruch, M. Baruch, Y. Goldberg, "A little is enough: circumventing defenses for
distributed learning", NeurIPS 2019, arXiv 1902.06156. There z is chosen such that, of the members,
a majority is further from the mean than the attackers; with a cohort of four that z is negative or
0, so here it is an option.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from psofed.stages.attacks import contract
from psofed.stages.attacks.contract import Mix


@dataclass(frozen=True)
class ALIE(contract.Options):
    """z: standard deviations from the mean."""

    name: ClassVar[str] = "alie"
    omniscient: ClassVar[bool] = True
    z: float = 1.5  # standard deviations from the mean

    def describe(self) -> str:
        return f"ALIE z={self.z:g}"


Options = ALIE


class Attack(contract.Attack):
    """v_k = m - z s, m and s of the round's honest members."""

    options: Options

    def mix(self) -> Mix:
        return Mix(own=0.0, mean=1.0, spread=-self.options.z)

"""Three executors, one answer: replay a case through each and compare number by number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.case import TOLERANCE, Case
from psofed.protocol import in_memory
from psofed.protocol.server import RefusedError
from psofed.simulate import family, reference
from psofed.simulate.draws import of_case

Array = NDArray[Any]


@dataclass(frozen=True)
class Differences:
    """The largest difference of each executor to what is expected, global and local models."""

    case: str
    against: str  # "expected", or "reference" where the case does not say what to expect
    differences: dict[str, dict[str, float]]  # executor -> global, local

    @property
    def passed(self) -> bool:
        """Whether all are within the tolerance; NaN never is."""
        values = [v for executor in self.differences.values() for v in executor.values()]
        return all(value <= TOLERANCE for value in values)


def compare(case: Case) -> Differences:
    """Replay one case through the reference, the engine and the messages."""
    with np.errstate(over="ignore", invalid="ignore"):  # a case may diverge
        return _compare(case)


def _compare(case: Case) -> Differences:
    results = {"reference": reference.run(case), "engine": engine(case), "messages": messages(case)}
    known = case.w is not None and case.local is not None
    w, local = (case.w, case.local) if known else results["reference"]
    differences = {
        name: {"global": _largest(found[0], w), "local": _largest(found[1], local)}
        for name, found in results.items()
        if known or name != "reference"
    }
    return Differences(case.name, "expected" if known else "reference", differences)


def engine(case: Case) -> tuple[Array, Array]:
    """The compiled engine: global models with lazy clients, local models brought up to date."""
    draws, methods = of_case(case), [case.method()]
    start = family.Start(case.w0, case.local0)
    lazy = family.replay(draws, methods, start)
    eager = family.replay(draws, methods, start, lazy=False)
    return lazy.w[:, 0], eager.local[:, :, 0]


def messages(case: Case) -> tuple[Array, Array]:
    """The deployed handlers, joined in memory; they refuse what is not finite."""
    try:
        exchange = in_memory.run(case.method(), case.x, case.y, (case.w0, case.local0))
    except RefusedError:
        return np.full_like(case.w0, np.nan), np.full_like(case.local0, np.nan)
    return exchange.models, exchange.local


def _largest(found: Array, expected: Any) -> float:
    return float(np.abs(found - expected).max())

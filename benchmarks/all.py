"""Every performance figure of README and docs, measured again beside what is documented.

    python benchmarks/all.py [--quick] [--only engine,client]

Exit code 1 if one no longer holds: a ratio differs by more than a quarter, a count by more than a
tenth. Times and speeds are only told, because machines differ. With --quick there are fewer
repeats, and what takes long is not measured. The figures and their places are in figures.py.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from importlib import import_module
from math import isnan, nan

from figures import FIGURES, SOURCES, Figure


def verdict(figure: Figure, documented: float, measured: float) -> str:
    """Whether the documented number still holds."""
    if isnan(measured):
        return "not measured here"
    if figure.tolerance is None:
        return ""
    holds = abs(measured / documented - 1) <= figure.tolerance
    return "holds" if holds else "NO LONGER HOLDS"


def measured_by(module: str, quick: bool) -> dict[str, float]:
    """All that a benchmark measures; nothing, and why, if this machine lacks what it needs."""
    begin = time.perf_counter()
    try:
        found: dict[str, float] = import_module(module).measure(quick)
    except (ImportError, OSError, TypeError) as error:
        print(f"  {module}.py cannot measure here: {type(error).__name__}: {error}")
        return {}
    print(f"  measured in {time.perf_counter() - begin:.0f} s")
    return found


def show(module: str, quick: bool) -> int:
    """The figures of a benchmark, measured; how many no longer hold."""
    source, failed = SOURCES[module], 0
    print(f"\npython benchmarks/{source.command}", flush=True)
    skipped = quick and not source.quick
    found = {} if skipped else measured_by(module, quick)
    for figure in FIGURES:
        if figure.module != module:
            continue
        documented, value = figure.documented(), found.get(figure.key, nan)
        value = 1 / value if figure.inverse else value
        said = "not measured in --quick" if skipped else verdict(figure, documented, value)
        failed += said.isupper()
        shown = f"{documented:>10,.4g}{value:>10,.4g}".replace("nan", "  -")
        print(f"  {figure.page:22s}{figure.name:36s}{shown}  {said}".rstrip(), flush=True)
    return failed


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="at most ten minutes, less exact")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(SOURCES))
    asked = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"  {'page':22s}{'figure':36s}{'documented':>10s}{'measured':>10s}")
    failed = sum(show(module, asked.quick) for module in asked.only)
    print(f"\n{failed} of {len(FIGURES)} figures no longer hold")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()

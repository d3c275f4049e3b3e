"""Mutated tables and plans, many of them: `python benchmarks/fuzz_tables.py --count 100000`.

Each is a function of its number, so that a failure is repeated with --first NUMBER --count 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from helpers import mutants

SLOW = 10.0  # seconds: what takes longer is called a hang


def main() -> int:
    """Run them; say what became of them, and of the slowest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("error")
    found: Counter[str] = Counter()
    slowest, which = 0.0, given.first
    with tempfile.TemporaryDirectory() as name:
        for i in range(given.first, given.first + given.count):
            begin = time.monotonic()
            try:
                if i % 4 == 3:
                    found["plan " + mutants.toml(i, Path(name))] += 1
                else:
                    found["table " + mutants.table(i, Path(name), learn=i % 20 == 0)] += 1
            except BaseException:
                print(f"mutant {i} failed:", file=sys.stderr)
                raise
            slowest, which = max((slowest, which), (time.monotonic() - begin, i))
    print(f"{given.count} mutants: {dict(found)}; the slowest, {which}, took {slowest:.2f} s")
    return int(slowest > SLOW)


if __name__ == "__main__":
    sys.exit(main())

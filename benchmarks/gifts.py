"""Settings found by hand that a fair search has to match: momentum, long blocks, few-bit samples.

python benchmarks/gifts.py --runs 20 --seed 32

Of each the error of the last fifth, its difference to the first row paired by run, and the bytes to
-11.7 dB. The methods, the steps and the sizes are given, nothing is tuned.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from psofed.compare.search import bytes_to_target
from psofed.experiment import Experiment, Features
from psofed.federation.learners import nlms
from psofed.federation.options import Options, ServerStep
from psofed.methods import fedavg, memofed, psofed
from psofed.rivals import raw, sketch
from psofed.simulate import montecarlo

TARGET = -11.7


def basis(size: int) -> Features:
    """A half-whitened basis of so many directions."""
    return Features(basis="whitened", size=size)


SETTINGS: tuple[Options, ...] = (
    psofed.Options(40, scheme="coordinated", step=1.6, average=True),
    psofed.Options(40, scheme="coordinated", step=0.8, average=True, server=ServerStep(beta=0.5)),
    fedavg.Options(5, step=1.6, average=True),
    fedavg.Options(5, step=0.4, average=True, server=ServerStep(beta=0.9)),
    fedavg.Options(
        800, step=0.4, average=True, wire="4 bit", features=basis(50), learner=nlms.Options()
    ),
    raw.Options(solver="ridge", burst=40, bits=5, ridge=0.1),
    raw.Options(solver="ridge"),
    sketch.Options(4, step=0.8, average=True, wire="4 bit", features=basis(120)),
    memofed.Options(1280.0, size=120, bits=3),
    memofed.Options(0.5, size=40),
)


def main() -> None:
    """All settings on the same draws."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=32)
    given = parser.parse_args()
    named = tuple(replace(each, label=each.title()) for each in SETTINGS)
    curves = montecarlo.run(
        Experiment(runs=given.runs, seed=given.seed, evaluate_every=5, methods=named)
    )
    print(
        f"{'setting':58s} {'last fifth, dB':>15s} {'to the first':>14s} {'B to target':>12s}   at n"
    )
    for j, title in enumerate(curves.titles):
        end, reached = curves.point(j, "steady"), bytes_to_target(curves, j, TARGET)
        apart = curves.difference(j, 0, "steady")
        print(
            f"{title:58s} {end.value:7.2f} +-{1.96 * end.stderr:5.2f}"
            f" {apart.value:7.2f} +-{1.96 * apart.stderr:5.2f} {reached.bytes:12,.0f}"
            f" {reached.round!s:>6s}"
        )


if __name__ == "__main__":
    main()

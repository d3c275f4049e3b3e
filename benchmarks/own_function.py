"""What an own f costs: the paper's experiment with its stream, and with streams of `psofed.Stream`.

python benchmarks/own_function.py [--rounds 5000] [--times 7]

All streams have the same inputs. Runs alternate, on one thread; a figure is the median of the CPU
times, and the ratio that of each time to the paper's in the same turn.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from time import process_time

import numpy as np
from threadpoolctl import threadpool_limits

import psofed
from psofed.simulate.onerun import one_run
from psofed.streams import paper

PAPER = "sqrt(x1**2 + sin(pi*x4)**2) + (0.8 - 0.5*exp(-x2**2))*x3"


def flat(x: np.ndarray) -> np.ndarray:
    """The paper's f, written for [sample, L] only."""
    x1, x2, x3, x4 = x.T
    return np.sqrt(x1**2 + np.sin(np.pi * x4) ** 2) + (0.8 - 0.5 * np.exp(-(x2**2))) * x3


def main() -> None:
    """Print a line for each stream."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--times", type=int, default=7)
    options = parser.parse_args()
    streams = {
        "the paper's stream": paper.Options(),
        "its f as a function": psofed.Stream(paper.f, taps=4),
        "its f for [sample, L] only": psofed.Stream(flat, taps=4),
        "its f as an expression": psofed.Stream(PAPER, taps=4),
        "another f": psofed.Stream("sin(3*x1) + x2*x3 + tanh(x4)", taps=4),
        "its f, Laplace noise": psofed.Stream(paper.f, taps=4, noise="laplace"),
    }
    plain = psofed.Experiment(rounds=options.rounds, runs=1)
    times: dict[str, list[float]] = {name: [] for name in streams}
    with threadpool_limits(1):
        for turn in range(options.times + 1):
            for name, stream in streams.items():
                begin = process_time()
                one_run(replace(plain, stream=stream), 0)
                if turn:  # the first one compiles
                    times[name].append(process_time() - begin)
    base = np.array(times["the paper's stream"])
    for name, found in times.items():
        ratio = np.median(np.array(found) / base)
        print(f"{name:28} {np.median(found):7.3f} s   {ratio:5.2f} x")


if __name__ == "__main__":
    main()

"""What an own f costs: the paper's experiment with its stream, and with streams of `psofed.Stream`.

python benchmarks/own_function.py [--rounds 5000] [--times 7]

Runs alternate, on one thread; a figure is the median of the CPU times, and the ratio that of each
time to the paper's in the same turn. The last two have inputs and features of their own, which are
drawn and computed outside the engine.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from time import process_time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import psofed
from psofed.simulate.onerun import one_run
from psofed.streams import paper
from psofed.streams.own_laws import ClientChance


def flat(x: np.ndarray) -> np.ndarray:
    """The paper's f, written for [sample, L] only."""
    x1, x2, x3, x4 = x.T
    return np.sqrt(x1**2 + np.sin(np.pi * x4) ** 2) + (0.8 - 0.5 * np.exp(-(x2**2))) * x3


def inputs(client: ClientChance, count: int) -> np.ndarray:
    """Independent windows."""
    return client.random.standard_normal((count, 4))


def waves(generator: np.random.Generator, taps: int, dim: int, width: float) -> Any:
    """The paper's features, as a user would draw them."""
    W = (generator.standard_normal((dim, taps)) / width).astype(np.float32)
    b = generator.uniform(0, 2 * np.pi, dim).astype(np.float32)
    scale = np.float32(np.sqrt(2 / dim))
    return lambda x: scale * np.cos(x @ W.T + b)


def timed(rounds: int, turns: int) -> dict[str, list[float]]:
    """CPU seconds of each stream, in turn."""
    streams = {
        "the paper's stream": paper.Options(),
        "its f as a function": psofed.Stream(paper.f, taps=4),
        "its f for [sample, L] only": psofed.Stream(flat, taps=4),
        "its f, Laplace noise": psofed.Stream(paper.f, taps=4, noise="laplace"),
        "its f, own inputs": psofed.Stream(paper.f, taps=4, inputs=inputs),
    }
    plain = psofed.Experiment(rounds=rounds, runs=1)
    tried = {name: replace(plain, stream=stream) for name, stream in streams.items()}
    features = psofed.Features(waves, dim=plain.features.dim, drawn=True)
    tried["its stream, own features"] = replace(plain, features=features)
    times: dict[str, list[float]] = {name: [] for name in tried}
    with threadpool_limits(1):
        for turn in range(turns + 1):
            for name, experiment in tried.items():
                begin = process_time()
                one_run(experiment, 0)
                if turn:  # the first one fills caches
                    times[name].append(process_time() - begin)
    return times


def ratio(times: dict[str, list[float]], name: str) -> float:
    """To the built-in stream, in the same turn."""
    return float(np.median(np.array(times[name]) / np.array(times["the paper's stream"])))


def measure(quick: bool) -> dict[str, float]:
    """Each stream over the built-in one, by name."""
    times = timed(5000, 3 if quick else 7)
    return {name: ratio(times, name) for name in times}


def main() -> None:
    """Print a line for each stream."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--times", type=int, default=7)
    options = parser.parse_args()
    times = timed(options.rounds, options.times)
    for name, found in times.items():
        print(f"{name:28} {np.median(found):7.3f} s   {ratio(times, name):5.2f} x")


if __name__ == "__main__":
    main()

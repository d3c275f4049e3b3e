"""What attacks and the defence cost the engine: CPU time over that of a clean run, in turn.

python benchmarks/siege.py --times 5
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from time import process_time

import numpy as np

from psofed.attacks import alie, perturbation, scale
from psofed.defences import clip
from psofed.experiment import Experiment
from psofed.methods import onlinefed, psofed
from psofed.simulate.onerun import one_run

FORMS = {
    "clean": {},
    "sign flip": {"attack": scale.Options()},
    "noise": {"attack": perturbation.Options()},
    "ALIE": {"attack": alie.Options()},
    "clip": {"defence": clip.Options()},
    "sign flip, clip": {"attack": scale.Options(), "defence": clip.Options()},
    "ALIE, clip": {"attack": alie.Options(), "defence": clip.Options()},
}
METHODS = {
    "M = 5": (psofed.Options(5),),
    "M = 40": (psofed.Options(40),),
    "M = D": (onlinefed.Options(),),
    "the paper's seven": Experiment().methods,
}


def seconds(experiment: Experiment, number: int) -> float:
    """CPU time of one run."""
    begin = process_time()
    one_run(experiment, number)
    return process_time() - begin


def figures(times: int, rounds: int = 2000) -> dict[tuple[int, str], dict[str, float]]:
    """The median ratio to a clean run, of each form, with K = 100 and K = 10."""
    found = {}
    for clients in (100, 10):
        for name, methods in METHODS.items():
            base = Experiment(clients=clients, rounds=rounds, runs=times + 1, methods=methods)
            taken = np.array([
                [seconds(replace(base, **more), number) for more in FORMS.values()]
                for number in range(times + 1)
            ])[1:]  # fmt: skip
            ratios = np.median(taken / taken[:, :1], axis=0)
            found[clients, name] = dict(zip(FORMS, ratios.tolist(), strict=True))
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    print(f"{'':28}" + "".join(f"{form:>16}" for form in FORMS))
    for (clients, name), ratios in figures(parser.parse_args().times).items():
        print(f"K = {clients}, {name:<20}" + "".join(f"{each:>16.2f}" for each in ratios.values()))


if __name__ == "__main__":
    main()

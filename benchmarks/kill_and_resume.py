"""Kill `psofed run` at random instants, resume it, and compare the final files byte by byte.

    python benchmarks/kill_and_resume.py --kills 200

Each campaign runs one experiment to its end, killed (SIGKILL) again and again on the way and
resumed each time; then every file must equal that of a run that was never killed.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXPERIMENT = """
clients = 50
rounds = 1000
runs = {runs}
seed = {seed}
test_samples = 500
[[methods]]
name = "onlinefed"
[[methods]]
name = "psofed"
shared = 40
"""


def main() -> int:
    """Campaigns until the kills are used up; prints the count and the bound that follows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    pick = random.Random(asked.seed)
    kills = campaigns = wrong = 0
    while kills < asked.kills:
        with tempfile.TemporaryDirectory() as folder:
            found, same = campaign(Path(folder), asked.seed + campaigns, asked.kills - kills, pick)
        kills, campaigns, wrong = kills + found, campaigns + 1, wrong + (not same)
        print(f"campaign {campaigns}: {found} kills, {'same bytes' if same else 'DIFFERENT'}")
    print(f"{wrong} of {campaigns} campaigns differ, {kills} kills; ", end="")
    print(f"a kill changes the result with probability below {3 / kills:.3g} (95 %)")
    return int(wrong > 0)


def campaign(folder: Path, seed: int, most: int, pick: random.Random) -> tuple[int, bool]:
    """Kill one experiment up to `most` times; returns the kills and whether the files agree."""
    (folder / "e.toml").write_text(EXPERIMENT.format(seed=seed, runs=300))
    start(folder, "whole").wait()
    kills = 0
    while True:
        process = start(folder, "killed")
        try:
            # From before the first import until well into the runs.
            process.wait(pick.uniform(0.05, 3.0) if kills < most else None)
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    whole, killed = (read(folder / name) for name in ("whole", "killed"))
    return kills, process.returncode == 0 and whole == killed and len(whole) > 2


def start(folder: Path, out: str) -> subprocess.Popen[bytes]:
    """The command, which goes on with what is there."""
    command = [sys.executable, "-m", "psofed", "run", "e.toml", "--out", out]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, cwd=folder, **quiet)  # type: ignore[call-overload]


def read(folder: Path) -> dict[str, bytes]:
    """Every file of a result."""
    return {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


if __name__ == "__main__":
    begin = time.monotonic()
    code = main()
    print(f"{time.monotonic() - begin:.0f} s")
    sys.exit(code)

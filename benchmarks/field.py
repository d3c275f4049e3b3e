"""Ten emulated microcontrollers on lossy lines, one gateway, mosquitto and the server.

    python benchmarks/field.py

Each device is an image for a Cortex-M4F in qemu-system-arm, on a serial line that is a socket. A
tenth of all frames is lost, in both directions, and so is the power: at one frame in 20, and while
or after one answer in five is saved. At the end the server's model and those of all devices
are compared with the simulation of the same file. D = 200, M = 23 in float16: one frame of 50
bytes in either direction.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import psofed
from psofed.experiment import Experiment
from psofed.federation.plugins import written
from psofed.fleet.protocol.deployment import Deploy, Deployment

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers import programs
from helpers.board import Field
from helpers.devices import Mosquitto, wait_for
from helpers.loopback import World
from helpers.processes import PSOFED, end, start

DEVICES, COHORT, ROUNDS, LOST, CUT = 10, 4, 150, 26, 13  # the last two in 256ths
SECONDS = 600


def main() -> None:
    """Run it, and print what was measured."""
    method = psofed.PSOFed(shared=23)
    made = Experiment(clients=DEVICES, cohort=COHORT, rounds=ROUNDS, dtype="float32",
                      methods=(method,), check=psofed.checks.NoCheck())  # fmt: skip
    plan = Deployment(made, Deploy(wire="float16"))
    with tempfile.TemporaryDirectory() as folder:
        models, said, printed, seconds = deployed(plan, Path(folder))
    world = World(given=plan)
    world.rounds(ROUNDS)
    wanted = [world.members[k].client.model for k in range(DEVICES)]
    far = max(float(np.abs(a - b).max()) for a, b in zip(models, wanted, strict=True))
    down, up = (
        sum(int(count.replace(",", "")) for count in re.findall(pattern, said))
        for pattern in (r"([\d,]+) bytes down", r"([\d,]+) up on")
    )
    least = 50 * COHORT * ROUNDS
    print(f"{ROUNDS} rounds of {COHORT} of {DEVICES} devices in {seconds:.0f} s")
    print(f"on the lines: {down:,} bytes down, {up:,} up; without losses {least:,} each")
    print(f"the models of the devices differ from the simulation's by at most {far:.1e},")
    print(f"where the largest value is {max(np.abs(w).max() for w in wanted):.2f}")
    print(f"the server: {printed}")


def deployed(plan: Deployment, folder: Path) -> tuple[list[np.ndarray], str, str, float]:
    """The models of the devices, what the gateway and `verify` say, and seconds."""
    gcc, qemu = programs.find("arm_gcc"), programs.find("qemu_arm")
    file, running = folder / "run.toml", []
    file.write_text(written(plan.to_table).toml)
    broker = Mosquitto(programs.find("mosquitto"), folder)
    ends = ("--broker", broker.url, "--state")
    try:
        fields = [Field(folder / str(k), plan, k, gcc, qemu, LOST, CUT) for k in range(DEVICES)]
        running += [field.process for field in fields]
        wait_for(lambda: all(field.line.exists() for field in fields))
        lines = [f"{k}={field.line}" for k, field in enumerate(fields)]
        gateway = start(*PSOFED, "deploy", "gateway", file, *lines, *ends, folder / "gateway",
                        stderr=-1)  # fmt: skip
        running.append(gateway)
        begun = time.monotonic()
        quiet = ("--set", "log=quiet")
        server = start(*PSOFED, "deploy", "serve", file, *ends, folder / "server", *quiet)
        running.append(server)
        wait_for(lambda: server.poll() is not None, SECONDS)
        seconds = time.monotonic() - begun
        gateway.terminate()
        said = gateway.communicate()[1].decode()
        models = [field.model(plan.world.dim) for field in fields]
        verify = start(*PSOFED, "deploy", "verify", folder / "server", stdout=-1)
        printed = verify.communicate()[0].decode().strip()
    finally:
        for process in running:
            end(process)
        broker.stop()
    return models, said, printed, seconds


if __name__ == "__main__":
    main()

"""The client in C: bytes of code, constants and memory, and instructions, on a Cortex-M4F.

    python benchmarks/device.py

Compiles what `psofed deploy export --to device` writes with arm-none-eabi-gcc -Os, and counts the
instructions of a sample and of a round on an emulated board (qemu-system-arm -icount, whose clock
goes by instructions). D = 200, four inputs, values of two bytes.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import psofed
from psofed.experiment import Experiment
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.stages.mix import MixOptions

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers import board, programs

MAIN = """
#include "config.h"
#include "psofed.h"
#include <stdio.h>

static psofed_client me;
static volatile uint32_t *const timer = (uint32_t *)0xE000E010; /* ticks of 40 instructions */
static uint32_t now(void) { return 0xFFFFFFu - timer[2]; }

int main(void)
{
    float x[PSOFED_INPUTS] = {0};
    uint8_t frame[PSOFED_FRAME] = {0};
    uint32_t begin, each[3];
    timer[1] = 0xFFFFFF, timer[2] = 0, timer[0] = 5;
    psofed_begin(&me);
    begin = now();
    for (int i = 0; i < 100; i++) {
        x[i % PSOFED_INPUTS] += 0.1f;
        psofed_learn(&me, x, 0.1f * (float)i);
    }
    each[0] = now() - begin, begin = now();
    for (int i = 0; i < 100; i++) x[i % PSOFED_INPUTS] -= 0.1f, psofed_predict(&me, x);
    each[1] = now() - begin, begin = now();
    for (int i = 0; i < 100; i++) {
        frame[1] = (uint8_t)i;
        for (uint32_t part = 0; part < PSOFED_PARTS(PSOFED_SHARED); part++) {
            uint32_t count = PSOFED_SHARED - part * PSOFED_EACH;
            if (count > PSOFED_EACH) count = PSOFED_EACH;
            frame[0] = (uint8_t)part;
            psofed_receive(&me, frame, PSOFED_HEAD + PSOFED_WIRE * count);
        }
        for (uint32_t part = 0; psofed_upload(&me, part, frame); part++) { }
    }
    each[2] = now() - begin;
    printf("%u %u ", (unsigned)sizeof me, (unsigned)PSOFED_SAVED);
    for (int i = 0; i < 3; i++) printf("%u ", (unsigned)each[i]);
    return 0;
}
"""
ALL = """
#include "config.h"
#include "psofed.h"
int learn(psofed_client *me, const float *x, float y) { return psofed_learn(me, x, y); }
float predict(psofed_client *me, const float *x) { return psofed_predict(me, x); }
int receive(psofed_client *me, const uint8_t *f, size_t n) { return psofed_receive(me, f, n); }
size_t upload(psofed_client *me, uint32_t i, uint8_t *f) { return psofed_upload(me, i, f); }
size_t hello(psofed_client *me, uint8_t *f) { return psofed_hello(me, f); }
size_t pack(const uint8_t *f, size_t n, uint8_t *to) { return psofed_pack(f, n, to); }
size_t byte(psofed_line *line, uint8_t one) { return psofed_byte(line, one); }
int save(psofed_client *me, const psofed_flash *flash) { return psofed_save(me, flash); }
uint32_t load(psofed_client *me, const psofed_flash *flash) { return psofed_load(me, flash); }
"""
SETTINGS = {
    "M = 5": {}, "M = 40": {"shared": 40}, "M = 40, checked": {"shared": 40, "check": True},
    "M = 40, checked, mixed": {"shared": 40, "check": True, "mix": True},
    "Online-Fed": {"shared": 200},
}  # fmt: skip


def planned(shared: int = 5, check: bool = False, mix: bool = False) -> Deployment:
    """A client with these options."""
    method = psofed.OnlineFed() if shared == 200 else psofed.PSOFed(shared=shared)
    made = Experiment(methods=(method,), check=psofed.checks.NoCheck())
    made = replace(made, check=psofed.checks.Outliers()) if check else made
    return Deployment(replace(made, mix=MixOptions()) if mix else made, Deploy(wire="float16"))


def sizes(folder: Path, gcc: str) -> tuple[int, int]:
    """Bytes of code and of constants, where all functions are used."""
    (folder / "all.c").write_text(ALL)
    flags = [*board.FLAGS, *board.ARM[:5]]
    subprocess.run([gcc, *flags, "-c", "all.c", "-o", "all.o"], cwd=folder, check=True)
    size = str(Path(gcc).with_name("arm-none-eabi-size"))
    told = subprocess.run([size, "-A", "all.o"], cwd=folder, check=True, capture_output=True)
    found: dict[str, int] = {"text": 0, "rodata": 0}
    for name, count in re.findall(r"^\.(text|rodata)\S*\s+(\d+)", told.stdout.decode(), re.M):
        found[name] += int(count)
    return found["text"], found["rodata"]


def measured(settings: dict[str, bool]) -> dict[str, int]:
    """Bytes, and instructions."""
    gcc, qemu = programs.find("arm_gcc"), programs.find("qemu_arm")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "measure.c").write_text(MAIN)
        program = board.built(folder, planned(**settings), "0", gcc, *board.ARM,
                              main=folder / "measure.c")  # fmt: skip
        code, constants = sizes(folder, gcc)
        command = [*board.emulated(qemu, program), "-icount", "shift=0"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    memory, saved, learn, predict, round_ = map(int, said.split())
    counted = {"learn": learn, "predict": predict, "round": round_}
    return {"code": code, "constants": constants, "memory": memory, "saved": saved,
            **{name: ticks * 40 // 100 for name, ticks in counted.items()}}  # fmt: skip


def main() -> None:
    """A row for each setting."""
    print("| | code | constants | memory | of it saved | a sample | an answer | a round |")
    print("|---|---|---|---|---|---|---|---|")
    for name, settings in SETTINGS.items():
        found = measured(settings)
        print(f"| {name} | {' | '.join(f'{value:,}' for value in found.values())} |", flush=True)


if __name__ == "__main__":
    main()

"""A device in C, as a process on this machine or in an emulated board: commands in, answers out."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import numpy as np

from helpers.processes import start
from psofed.fleet.lines import frames as small
from psofed.fleet.samples import replay
from psofed.tables.export import device

HERE = Path(__file__).parents[1] / "device"
DRIVER = HERE / "driver.c"
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-ffp-contract=off")
CHECKED = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
ARM = ("-Os", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16",
       "--specs=rdimon.specs", "-nostartfiles", "-T", HERE / "board.ld", HERE / "start.c")  # fmt: skip


def emulated(qemu, program, serial="none"):
    """The command that runs the program on an emulated Cortex-M4F."""
    quiet = ("-nographic", "-monitor", "none", "-serial", serial)
    talk = ("-semihosting-config", "enable=on,target=native")
    return qemu, "-M", "mps2-an386", *quiet, *talk, "-kernel", program


def built(folder, plan, who, compiler, *more, frame=small.FRAME, main=DRIVER):
    """The program of a device, from the files that it is given."""
    for name, data in device.render(plan, who, frame).items():
        (folder / name).write_bytes(data)
    program, source = folder / "device", folder / Path(main).name
    if source != main:
        source.write_text(Path(main).read_text())
    done = subprocess.run([compiler, *FLAGS, *more, source, "-o", program], cwd=folder,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return program


def in_python(folder, plan, who, node=None, micropython=None):
    """The command that runs the client in plain Python, here or by MicroPython."""
    for name, data in device.render(plan, who).items():
        (folder / name).write_bytes(data)
    for name in ("driver.py", "driver.mjs"):
        (folder / name).write_text((HERE / name).read_text())
    if node is not None:
        return [node, folder / "driver.mjs", folder, micropython]
    loop = "import sys, driver\nfor line in sys.stdin: print(driver.say(line), flush=True)"
    return [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{loop}"]


class Board:
    """What a program of `driver.c` is told, and what it says."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=-1, stdout=-1, text=True, bufsize=1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()

    def say(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().split()

    def learn(self, x, y):
        return int(*self.say("l", *hexed(x), *hexed(y)))

    def predict(self, x):
        return float(*floats(self.say("p", *hexed(x))))

    def receive(self, frame):
        return int(*self.say("r", len(frame), frame.hex()))

    def hello(self):
        return bytes.fromhex(*self.say("h"))

    def pack(self, frame):
        return bytes.fromhex(*self.say("k", len(frame), frame.hex()))

    def hear(self, data):
        """The frames in bytes of a line."""
        return [bytes.fromhex(word) for word in self.say("b", len(data), data.hex())]

    def upload(self):
        return [bytes.fromhex(word) for word in self.say("u")]

    @property
    def w(self):
        return floats(self.say("w"))


def hexed(values):
    return [f"{bits:08x}" for bits in np.atleast_1d(np.float32(values)).view(np.uint32)]


def floats(words):
    return np.array([int(word, 16) for word in words], np.uint32).view(np.float32)


def frames(n, values, wire, fresh=False):
    """A window, or a whole model, as the frames in which it comes down."""
    return small.split(n, values.astype(wire).tobytes(), np.dtype(wire).itemsize, fresh)


def joined(parts, wire):
    """The round of an upload, and its values."""
    n, size = small.number(parts[0]), np.dtype(wire).itemsize
    come = small.Parts(n, sum(len(part) - small.HEAD for part in parts), size)
    *_, body = [come.take(part) for part in parts]
    return n, np.frombuffer(body, wire)


FIELD = HERE / "field.c"
SAMPLES = "#define SEED {}u\n#define LOST {}\n#define CUT {}\nstatic const float samples[][{}] = {{\n{}\n}};\n"


class Field:
    """An emulated board with samples of its own, whose serial line is a socket; see field.c."""

    def __init__(self, folder, plan, k, gcc, qemu, lost=26, cut=0):
        folder.mkdir(parents=True, exist_ok=True)
        self.line = folder / "line"
        x, y = replay(plan.experiment, k)(0, plan.experiment.rounds)
        rows = ",\n".join(
            "{" + ", ".join(f"{np.float32(v)!s}f" for v in (*a, b)) + "}"
            for a, b in zip(x, y, strict=True)
        )
        made = SAMPLES.format(k + 1, lost, cut, x.shape[1] + 1, rows)
        (folder / "samples.h").write_text(made)
        program = built(folder, plan, str(k), gcc, *ARM, main=FIELD)
        command = emulated(qemu, program, f"unix:{self.line},server=on,wait=off")
        self.process = start(*command, stdin=subprocess.DEVNULL)

    def model(self, dim):
        """w_k, as the device says it to who asks on its line."""
        found, come = small.SerialLine(), []
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(10)
            line.connect(str(self.line))
            line.sendall(small.packed(b"w"))
            while len(come) < dim:
                come += [each for each in found.feed(line.recv(4096)) if len(each) == 4]
        return np.frombuffer(b"".join(come), np.float32)

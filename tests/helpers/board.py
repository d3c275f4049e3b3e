"""A device in C, as a process on this machine or in an emulated board: commands in, answers out."""

import subprocess
from pathlib import Path

import numpy as np

from psofed.tables.export import device

HERE = Path(__file__).parents[1] / "device"
DRIVER = HERE / "driver.c"
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-ffp-contract=off")
CHECKED = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
ARM = ("-Os", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16",
       "--specs=rdimon.specs", "-nostartfiles", "-T", HERE / "board.ld", HERE / "start.c")  # fmt: skip
HEAD = device.HEAD


def emulated(qemu, program):
    """The command that runs the program on an emulated Cortex-M4F."""
    quiet = ("-nographic", "-monitor", "none", "-serial", "none")
    talk = ("-semihosting-config", "enable=on,target=native")
    return qemu, "-M", "mps2-an386", *quiet, *talk, "-kernel", program


def built(folder, plan, who, compiler, *more, frame=device.FRAME, main=DRIVER):
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

    def upload(self):
        return [bytes.fromhex(word) for word in self.say("u")]

    @property
    def w(self):
        return floats(self.say("w"))


def hexed(values):
    return [f"{bits:08x}" for bits in np.atleast_1d(np.float32(values)).view(np.uint32)]


def floats(words):
    return np.array([int(word, 16) for word in words], np.uint32).view(np.float32)


def frames(n, values, wire, fresh=False, frame=device.FRAME):
    """A window, or a whole model, as the frames in which it comes down."""
    data, width = values.astype(wire).tobytes(), np.dtype(wire).itemsize
    each = (frame - HEAD) // width * width
    return [
        bytes([fresh << 7 | i]) + n.to_bytes(3, "little") + data[i * each : (i + 1) * each]
        for i in range(-(-len(data) // each))
    ]


def joined(parts, wire):
    """The round of an upload, and its values."""
    assert [part[0] for part in parts] == list(range(len(parts)))
    (n,) = {int.from_bytes(part[1:HEAD], "little") for part in parts}
    return n, np.frombuffer(b"".join(part[HEAD:] for part in parts), wire)

"""Modules of psofed whose functions a command executes: `python tests/helpers/walks.py reproduce ...`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

FUNCTION = 1  # the flag of code that is a function, not a module or the body of a class
MESSAGES = "one message round"  # instead of a command


def modules(*words: str) -> set[str]:
    """By their paths below src/psofed, traced in a process of its own."""
    command = [sys.executable, __file__, *words]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("\n\n")[2].split())


def traced(job) -> set[str]:
    """What `job()` executes."""
    import psofed

    home = str(Path(psofed.__file__).parent) + os.sep
    found = set()

    def look(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_flags & FUNCTION and code.co_filename.startswith(home):
            found.add(code.co_filename[len(home) :])

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        job()
    except SystemExit as end:  # a command that works may end so; one that fails walks less far
        if end.code:
            raise RuntimeError(f"exit code {end.code}") from None
    sys.setprofile(None)
    threading.setprofile(None)
    return set(found)  # a copy in one step: threads that have not ended may still add to it


def message_round():
    """One round of PSO-Fed between a server and its clients, with their bytes."""
    import numpy as np

    import psofed
    from psofed.fleet.protocol import in_memory

    experiment = psofed.Experiment(clients=4, cohort=2, rounds=1, methods=(psofed.PSOFed(5),))
    (method,) = experiment.start(experiment.task(0))
    x, y = np.ones((4, 1, experiment.stream.taps)), np.ones((4, 1))
    return lambda: in_memory.run(method, x, y)


def main(words):
    from psofed.cli.main import main as command

    job = message_round() if words == [MESSAGES] else lambda: command(words)
    print("\n\n" + "\n".join(sorted(traced(job))))


if __name__ == "__main__":
    main(sys.argv[1:])

"""A real Dask scheduler and real workers: same bytes, and a worker that dies costs little."""

import os
import re
import signal
import subprocess
import sys
from importlib.util import find_spec

import pytest

from helpers.devices import wait_for as wait_until
from helpers.processes import end
from helpers.processes import start as start_process

# Not imported here: every worker would, and one of them needs it.
missing = find_spec("distributed") is None
pytestmark = pytest.mark.skipif(missing, reason="needs the extra cluster")

TOML = """
clients = 30
rounds = 600
runs = 60
test_samples = 300
[[methods]]
name = "onlinefed"
[[methods]]
name = "psofed"
shared = 40
"""


@pytest.fixture
def processes():
    started = []
    yield started
    for process in started:
        end(process)


def dask(processes, *arguments):
    command = [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]]
    # A plain interpreter: warnings of the cluster's own are not ours.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONWARNINGS"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = start_process(*command, text=True, env=environment, **pipes)
    processes.append(process)
    return process


def wait_for(process, pattern):
    for line in process.stdout:
        if found := re.search(pattern, line):
            return found
    raise AssertionError(f"it ended without {pattern!r}")


@pytest.fixture
def scheduler(processes):
    process = dask(
        processes, "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"
    )
    return wait_for(process, r"Scheduler at:\s+(tcp://\S+)")[1]


def worker(processes, scheduler):
    process = dask(processes, "dask_worker", scheduler, "--nthreads", "1", "--no-nanny",
                   "--host", "127.0.0.1", "--no-dashboard", "--death-timeout", "60")  # fmt: skip
    wait_for(process, r"Registered to:\s+tcp")
    return process


@pytest.mark.long
def test_a_cluster_with_a_dying_worker_gives_the_bytes_of_this_machine(
    psofed, start, processes, scheduler, tmp_path
):
    (tmp_path / "e.toml").write_text(TOML)
    assert psofed("run", "e.toml", "--out", "here").returncode == 0
    workers = [worker(processes, scheduler) for _ in range(2)]
    there = start(
        "run", "e.toml", "--out", "there", "--cluster", scheduler,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    # As soon as a run is finished: on a fast machine all are within seconds.
    wait_until(lambda: list((tmp_path / "there" / "checkpoint").glob("run-*")), 120, 0.002)
    assert there.poll() is None, "the worker must die while it works"
    workers[0].send_signal(signal.SIGKILL)
    there.communicate(timeout=240)
    assert there.returncode == 0
    for path in (tmp_path / "here").iterdir():
        assert path.read_bytes() == (tmp_path / "there" / path.name).read_bytes(), path.name


@pytest.mark.long
def test_a_cluster_that_cannot_compute_is_explained_in_one_line(psofed, scheduler, tmp_path):
    (tmp_path / "e.toml").write_text(TOML)
    for address, says in (
        (scheduler, "has no workers"),
        ("tcp://127.0.0.1:9", "cannot reach a Dask scheduler at tcp://127.0.0.1:9"),
        ("nonsense://x", "is 'nonsense://x', which is not an address"),
    ):
        result = psofed("run", "e.toml", "--out", "r", "--cluster", address)
        assert result.returncode == 2, result.stderr
        assert says in result.stderr.splitlines()[-1]
        assert "Traceback" not in result.stderr
        assert not (tmp_path / "r").exists()


@pytest.mark.long
def test_a_worker_with_another_version_is_refused():
    from psofed.errors import InputError
    from psofed.simulate.pools import _check

    class Answers:
        """What a cluster says when one worker is old: the real check, without the old worker."""

        def nthreads(self):
            return {"tcp://a": 1}

        def run(self, function, *arguments, on_error="raise"):
            answer = function(*arguments)
            return {"tcp://a": answer | {"numpy": "0.0.1"} if isinstance(answer, dict) else answer}

    with pytest.raises(InputError, match=r"tcp://a, with numpy 0\.0\.1, not"):
        _check(Answers(), "tcp://x")

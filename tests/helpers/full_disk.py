"""Disks that are full or read-only: in memory at any step, and real ones of a few kB."""

import errno
import os
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from helpers.processes import end, start
from helpers.virtual_disk import Chance, VirtualDisk


class FullDisk(VirtualDisk):
    """A disk in memory that refuses some steps."""

    def __init__(self):
        super().__init__("state", Chance(0, 0))
        self.steps, self.full = 0, range(0)

    def fail(self, first, count=10**9):
        """Refuse `count` steps, after `first` more."""
        self.full = range(self.steps + first, self.steps + first + count)

    def repair(self):
        self.full = range(0)

    def append(self, name, data):
        old = self.files.get(name)
        try:
            super().append(name, data)
        except OSError:  # as a real folder does
            self.files.pop(name)
            self.files |= {} if old is None else {name: old}
            raise

    def _step(self):
        self.steps += 1
        if self.steps - 1 in self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "state/new")


class SmallDisk:
    """A real one, in a namespace of its own: it is gone with the process that holds it."""

    def __init__(self, folder: Path, kilobytes: int) -> None:
        folder.mkdir()
        mount = f'mount -t tmpfs -o size={kilobytes}k none "{folder}" && echo && exec sleep 300'
        command = ("unshare", "-m", "sh", "-c", mount)
        self.folder, self.holder = folder, start(*command, stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == b"\n"
        self.path = Path(f"/proc/{self.holder.pid}/root{folder}")

    def fill(self):
        with open(self.path / "full", "wb", buffering=0) as file:
            for size in (4096, 1):
                with suppress(OSError):
                    while file.write(bytes(size)):
                        pass

    def free(self):
        (self.path / "full").unlink()

    def read_only(self):
        self._run("mount", "--bind", self.folder, self.folder)
        self._run("mount", "-o", "remount,bind,ro", self.folder)

    def writable(self):
        self._run("umount", "-l", self.folder)

    def _run(self, *command):
        inside = ("nsenter", "-t", str(self.holder.pid), "-m", *map(str, command))
        for _ in range(100):  # a file that is just being written makes the disk busy
            if subprocess.run(inside, check=False, capture_output=True).returncode == 0:
                return
            time.sleep(0.02)
        subprocess.run(inside, check=True, capture_output=True)

    def stop(self):
        end(self.holder)


def can_mount():
    """Whether a test may have a file system of its own."""
    if os.geteuid() or not all(map(shutil.which, ("unshare", "nsenter", "mount"))):
        return False
    trial = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


needs_mount = pytest.mark.skipif(not can_mount(), reason="needs root, to mount a small disk")

"""A disk in memory that forgets what was not made durable, as a real one does when the power goes."""

from __future__ import annotations

from psofed.core.seeds import Seeds


class CrashError(BaseException):
    """The power goes off here. Not an Exception, so that no handler can catch it."""


class VirtualDisk:
    """A folder in memory. After a crash, what was not synced is there, gone or torn, by chance."""

    def __init__(self, name: str, chance: Chance) -> None:
        self.name, self.chance = name, chance
        self.files: dict[str, bytes] = {}  # as the running process sees them
        self.durable: dict[str, bytes] = {}  # as they are after a crash, for sure
        self.synced: dict[str, int] = {}  # by file: how many of its first bytes are durable
        self.moved: set[str] = set()  # names whose file may be another after a crash
        self.steps_left: int | None = None  # the crash comes after so many steps

    def _step(self) -> None:
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise CrashError

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)

    def write(self, name: str, data: bytes) -> None:
        self.files[name] = data[: len(data) // 2]
        self.synced[name] = 0
        self._step()
        self.files[name] = data

    def sync(self, name: str) -> None:
        self._step()
        self.synced[name] = len(self.files[name])
        if name in self.durable and name not in self.moved:
            self.durable[name] = self.files[name]
        self._step()

    def rename(self, old: str, new: str) -> None:
        self._step()
        self.files[new] = self.files.pop(old)
        self.synced[new] = self.synced.pop(old, 0)
        self.moved |= {old, new}
        self._step()

    def sync_folder(self) -> None:
        self._step()
        self.durable = {n: self._settled(n) for n in self.files}
        self.moved.clear()
        self._step()

    def append(self, name: str, data: bytes) -> None:
        old = self.files.get(name, b"")
        self.files[name] = old + data[: len(data) // 2]
        self._step()
        self.files[name] = old + data

    def remove(self, name: str) -> None:
        self._step()
        self.files.pop(name, None)
        self.synced.pop(name, None)
        self.moved.add(name)

    def names(self) -> list[str]:
        return sorted(self.files)

    def crash(self) -> None:
        """Each name has its old or its new bytes; bytes that were never synced may be torn.

        At times only the process is killed, and everything is there as it was written so far.
        """
        if self.chance(0.3):
            self.put(self.files)
            return
        after = {}
        for name in sorted({*self.durable, *self.files}):
            new = self.files.get(name)
            keep_old = name in self.durable and (new is None or self.chance(0.5))
            if keep_old:
                after[name] = self.durable[name]
            elif new is not None and (name in self.durable or self.chance(0.5)):
                after[name] = self._settled(name)
        self.put(after)

    def put(self, files: dict[str, bytes]) -> None:
        """These files and no others, all durable."""
        self.files, self.durable = dict(files), dict(files)
        self.synced = {name: len(data) for name, data in files.items()}
        self.moved.clear()
        self.steps_left = None

    def _settled(self, name: str) -> bytes:
        data, sure = self.files[name], self.synced.get(name, 0)
        return data if sure >= len(data) else data[: sure + self.chance.below(len(data) - sure + 1)]


class Chance:
    """The schedule's own random numbers, in order; from `Seeds`, like all others."""

    def __init__(self, seed: int, number: int) -> None:
        self._generator = Seeds(seed, number).generator("network")

    def __call__(self, probability: float) -> bool:
        return bool(self._generator.random() < probability)

    def below(self, count: int) -> int:
        return int(self._generator.integers(count))

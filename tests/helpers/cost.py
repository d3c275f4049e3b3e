"""Where the time of a test run goes: CPU seconds, by test file, of all workers and their processes.

At its end a run names the dearest files. `python3 dev.py test --profile` shows every folder and the
dearest tests too. Seconds of the processor are told and not those of the clock: they hardly depend on
what else the machine does.
"""

from __future__ import annotations

import os
import resource
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

DEAREST = 5
_aside: Counter[str] = Counter()
PROFILE = "PSOFED_TEST_PROFILE"  # set by `dev.py test --profile`


def used() -> float:
    """CPU seconds of this process so far, and of those that it started and that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


@contextmanager
def aside(name: str) -> Iterator[None]:
    """What is used in here is told under a name of its own, and not for the test in which it happens.

    That is for what many tests share: a browser's time is known when it closes.
    """
    before = used()
    yield
    _aside[name] += used() - before


class Cost:
    """Puts on each report what was used since the one before, and sums it up where they arrive."""

    def __init__(self) -> None:
        self.last = 0.0
        self.tests: Counter[str] = Counter()
        self.collecting: list[float] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.last = used()
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["collecting"] = self.last
        else:
            self.collecting.append(self.last)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        self.collecting.append(getattr(node, "workeroutput", {}).get("collecting", 0.0))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self):
        report = yield
        now = used()
        report.cpu = {report.nodeid: now - self.last - _aside.total()} | _aside
        self.last = now
        _aside.clear()
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tests.update(getattr(report, "cpu", {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        say, profile = terminalreporter.write_line, PROFILE in os.environ
        spent = self.tests.total() + sum(self.collecting)
        say(f"CPU seconds: {spent:.0f}, of these {sum(self.collecting):.0f} to find the tests")
        if profile:
            self._show(say, _by_folder, len(self.tests))
            self._show(say, str, 10 * DEAREST)
        self._show(say, _by_file, 10 * DEAREST if profile else DEAREST)

    def _show(self, say, name, count) -> None:
        sums: Counter[str] = Counter()
        for test, seconds in self.tests.items():
            sums[name(test)] += seconds
        for key, seconds in sums.most_common(count):
            if seconds >= 0.05:
                say(f"{seconds:8.1f}  {key}")


def _by_file(test: str) -> str:
    return test.partition("::")[0]


def _by_folder(test: str) -> str:
    return _by_file(test).rpartition("/")[0]

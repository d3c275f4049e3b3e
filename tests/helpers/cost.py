"""Where the time of a test run goes: CPU seconds, by test file, of all workers and their processes.

At its end a run names the dearest files. Seconds of the processor are told and not those of the
clock: they hardly depend on what else the machine does.
"""

from __future__ import annotations

import resource
from collections import Counter

import pytest

DEAREST = 5


def used() -> float:
    """CPU seconds of this process so far, and of those that it started and that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


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
        report.cpu = {report.nodeid: now - self.last}
        self.last = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tests.update(getattr(report, "cpu", {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        say, files, spent = terminalreporter.write_line, Counter(), sum(self.collecting)
        for test, seconds in self.tests.items():
            files[test.partition("::")[0]] += seconds
        total = files.total() + spent
        say(f"CPU seconds: {total:.0f}, of these {spent:.0f} to find the tests")
        for name, seconds in files.most_common(DEAREST):
            say(f"{seconds:8.1f}  {name}")

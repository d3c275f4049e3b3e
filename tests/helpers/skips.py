"""Which tests may be skipped: otherwise nobody would miss one that no longer runs anywhere.

In CI, a thorough run of everything fails if it skips anything else than what is listed here. A run
with hidden programs (`python3 dev.py test --without-programs`) keeps only the files that need one,
and fails if for one of the programs nothing was skipped.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from helpers import programs, schedule

HIDDEN = "PSOFED_TEST_WITHOUT_PROGRAMS"  # set by `dev.py test --without-programs`
WRONG = 10  # the exit code, which is that of no failed test: to try one again does not help
# How many, by the beginning of the reason.
EXPECTED = {
    "it cannot be deployed": 28,
    "its fleet cannot change": 6,
    "it does not go live": 3,
    "it changes samples": 4,
    "it declares `several = False`": 1,
    "it knows what others send, as no deployed client does": 4,
    "the method does not take it": 16,
}
LATER = {"mosquitto_sub", "clang", "arm_gcc", "qemu_arm"}  # who needs one needs another first
# What .ci/run cannot bring to every machine. It tells what it could not install.
ABSENT = (*(f"needs {name}: " for name in programs.ORIGINS), "the air-quality data is not here")


def keep_those_with_programs(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With what else is in their files, where a test may need a program and not say so."""

    def needs(item: pytest.Item) -> bool:
        return not programs.ORIGINS.keys().isdisjoint(getattr(item, "fixturenames", ()))

    files = {item.path for item in items if needs(item)}
    kept = [i for i in items if needs(i) or (i.path in files and not schedule.is_long(i))]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def unexpected(reasons: list[str]) -> list[str]:
    """What is wrong with the skips of a run of everything."""
    found = Counter(
        next((known for known in (*EXPECTED, *ABSENT) if reason.startswith(known)), reason)
        for reason in reasons
    )
    for known in ABSENT:
        del found[known]
    wrong = sorted(name for name in {*found, *EXPECTED} if found[name] != EXPECTED.get(name, 0))
    return [f"{found[n]} skipped, not {EXPECTED.get(n, 0)}: {n}" for n in wrong]


def untried(reasons: list[str]) -> list[str]:
    """The programs that were not hidden, or are needed by no test."""
    hidden = programs.ORIGINS.keys() - LATER
    return [
        f"nothing was skipped that needs {name}"
        for name in sorted(hidden)
        if not any(reason.startswith(f"needs {name}: ") for reason in reasons)
    ]


class Skips:
    """Hears of every skip, where all reports arrive."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}
        self.wrong: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.reasons[report.nodeid] = report.longrepr[2].removeprefix("Skipped: ")

    pytest_collectreport = pytest_runtest_logreport  # of a whole file

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        config, reasons = session.config, list(self.reasons.values())
        ended = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if hasattr(config, "workerinput") or not ended or not is_everything(config):
            return
        if HIDDEN in os.environ:
            self.wrong = untried(reasons)
        elif os.environ.get("CI") and config.getoption("--thorough"):
            self.wrong = unexpected(reasons)
        if self.wrong:
            session.exitstatus = WRONG

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self.wrong:
            terminalreporter.write_line(f"{line} (tests/helpers/skips.py)", red=True)


def is_everything(config: pytest.Config) -> bool:
    """Whether nothing was chosen: neither paths, nor marks, nor names."""
    option = config.option
    chosen = (option.keyword, option.markexpr, option.deselect, option.collectonly)
    again = config.getoption("lf", default=False)  # absent without the cache
    return config.args_source == config.ArgsSource.TESTPATHS and not any((*chosen, again))

"""Every performance figure of README and docs: where it stands, and which benchmark measures it.

The number is read from the page itself: a pattern with one group finds it, and a test finds every
pattern. `key` names it in what the benchmark's `measure(quick)` returns. Ratios and counts hold if
they are within a tolerance; times and speeds are only told, because machines differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
RATIO, COUNT, TOLD = 0.25, 0.1, None  # tolerances


@dataclass(frozen=True)
class Source:
    """A benchmark: the command that prints more of it, and whether it is measured with --quick."""

    command: str
    quick: bool = True


@dataclass(frozen=True)
class Figure:
    """One number of a page."""

    page: str
    name: str
    pattern: str
    module: str
    key: str
    tolerance: float | None = TOLD
    inverse: bool = False  # the page has one over what is measured

    def documented(self) -> float:
        """The number on its page."""
        text = (ROOT / self.page).read_text(encoding="utf-8")
        found = re.findall(self.pattern, re.sub(r"\n *(?=[^\s|])", " ", text))  # lines are wrapped
        if len(found) != 1:
            raise LookupError(
                f"{self.page}: {self.pattern!r} is there {len(found)} times, not once"
            )
        return float(found[0].replace(",", ""))


SOURCES = {
    "engine": Source("engine.py --repeats 7"),
    "commands": Source("commands.py"),
    "lockstep": Source("lockstep.py"),
    "scaling": Source("scaling.py"),
    "client": Source("client.py"),
    "memofed": Source("memofed.py FOLDER --runs 100"),
    "own_function": Source("own_function.py"),
    "wire_bytes": Source("wire_bytes.py"),
    "load": Source("load.py"),
    "defended": Source("defended.py"),
    "dashboard": Source("dashboard.py --rounds 500 --turns 2"),
    "playground": Source("playground.py"),
    "leaks": Source("leaks.py"),
    "theory": Source("theory.py --time", quick=False),
}


def row(title: str, column: int) -> str:
    """The number in a column of the table row that begins with these words (0: right after)."""
    cells = r"[^|\n]*\|" * column
    return rf"\| {re.escape(title)} \|{cells} ([\d.,]+)"


SPEED, COMPARED, DEPLOY = "docs/performance.md", "docs/comparison.md", "docs/deploy.md"
OWN, PLAY, MEMO = "docs/extend.md", "docs/partial_sharing.md", "docs/memofed.md"
NUMPY, JAX, C = "NumPy, all clients at once", "JAX, jit and scan", "C, fused and lazy"
LOOP, APART = "plain NumPy loop", "plain loop, method by method"

FIGURES = (
    Figure("README.md", "vectorised NumPy over psofed", r"(\d+) times as fast as vectorised NumPy",
           "engine", NUMPY, RATIO),
    Figure("README.md", "JAX over psofed", r"(\d+) times as fast as JAX", "engine", JAX, RATIO),
    Figure("README.md", "psofed over C", r"([\d.]+) times as long as C", "engine", C, RATIO, True),
    Figure(SPEED, "ms a run", r"\| psofed \| float32 \| ([\d.]+)", "engine", "ms"),
    Figure(SPEED, "float64 over float32", r"\| psofed \| float64 \| [\d.]+ \| ([\d.]+) x",
           "engine", "psofed, float64", RATIO),
    Figure(SPEED, "plain loop over psofed",
           row("plain NumPy loop, features shared by the methods", 2), "engine", LOOP, RATIO),
    Figure(SPEED, "plain loop, by method, over psofed",
           row("plain NumPy loop, one simulation per method", 2), "engine", APART, RATIO),
    Figure(SPEED, "NumPy over psofed", row("NumPy, all clients at once", 2), "engine", NUMPY,
           RATIO),
    Figure(SPEED, "JAX over psofed", row("JAX, `jit`, `scan`, `vmap`", 2), "engine", JAX, RATIO),
    Figure(SPEED, "C over psofed", r"\| C, `gcc[^|]*\| float32 \| [\d.]+ \| ([\d.]+) x",
           "engine", C, RATIO),
    Figure(SPEED, "roofline over psofed", row("roofline", 2), "engine", "roofline", RATIO),
    Figure(SPEED, "10^6 over 10^2 clients, time", r"A million clients take ([\d.]+) times as long",
           "scaling", "million_over_hundred", RATIO),
    Figure(SPEED, "10^6 clients, CPU s", r"clients \(1,000(?:.*\n)+?\| 1,000,000 \| ([\d.]+)",
           "scaling", "million_seconds"),
    Figure(SPEED, "10^6 clients, peak MB",
           r"clients \(1,000(?:.*\n)+?\| 1,000,000 \| [\d.]+ \| (\d+)", "scaling",
           "million_peak_mb", RATIO),
    Figure(SPEED, "MB before a run", r"the process has (\d+) MB before", "scaling", "before_mb",
           RATIO),
    Figure(SPEED, "CPU s to the first run",
           r"([\d.]+) to [\d.]+ s of CPU time\s+with `PSOFED_JOBS=1`", "commands", "start"),
    Figure(COMPARED, "minutes for 100 runs", r"100 runs take ([\d.]+) to", "lockstep", "minutes"),
    Figure(COMPARED, "methods compared", r"--rounds 5000`, (\d+) methods", "lockstep", "methods",
           COUNT),
    Figure(MEMO, "arithmetic over LMS", r"where LMS needs 400: ([\d.]+) times", "memofed",
           "arithmetic", COUNT),
    Figure(MEMO, "kB of the basis", r"Memory: (\d+) kB at each client", "memofed", "basis_kb",
           COUNT),
    Figure(MEMO, "kB of a client's state", r"and (\d+) kB for its state", "memofed", "client_kb",
           COUNT),
    Figure(MEMO, "kB of a client at the server", r"for its state; (\d+) kB for each", "memofed",
           "server_kb", COUNT),
    Figure(MEMO, "a sample over PSO-Fed's, catching up", r"takes ([\d.]+) times as long as one of",
           "client", "d = 80, catching up"),
    Figure(MEMO, "a sample over PSO-Fed's, one at a time", r"it takes ([\d.]+) times as long, and",
           "client", "d = 80, one at a time"),
    Figure(OWN, "f as a function", r"stream: ([\d.]+) for the paper's f", "own_function",
           "its f as a function", RATIO),
    Figure(OWN, "Laplace noise", r"([\d.]+) with Laplace noise", "own_function",
           "its f, Laplace noise", RATIO),
    Figure(OWN, "own inputs", r"([\d.]+) with inputs drawn", "own_function",
           "its f, own inputs", RATIO),
    Figure(OWN, "own features", r"([\d.]+) with the\s+paper's features", "own_function",
           "its stream, own features", RATIO),
    Figure(DEPLOY, "bytes of frames", r"exchange (\d+) bytes of frames", "wire_bytes", "payload",
           COUNT),
    Figure(DEPLOY, "IP bytes, QoS 0", r"and (\d+) to \d+ bytes of IP", "wire_bytes",
           "qos0_back_to_back", COUNT),
    Figure(DEPLOY, "IP bytes, QoS 0, spaced", r"and \d+ to (\d+) bytes of IP", "wire_bytes",
           "qos0_spaced", COUNT),
    Figure(DEPLOY, "IP bytes, QoS 1, TLS", r"it is (\d+)\s+to \d+ bytes", "wire_bytes",
           "qos1_back_to_back", COUNT),
    Figure(DEPLOY, "IP bytes, QoS 1, TLS, spaced", r"it is \d+\s+to (\d+) bytes", "wire_bytes",
           "qos1_spaced", COUNT),
    Figure(DEPLOY, "rounds/s, cohort 4", r"handled (\d+)\s+rounds/s", "load", "rate_4"),
    Figure(DEPLOY, "rounds/s, cohort 100", r"and (\d+) rounds/s with cohorts", "load", "rate_100"),
    Figure(DEPLOY, "MB of the server, cohort 4", r"of 100, in ([\d.]+) MB", "load", "mb_4", RATIO),
    Figure(DEPLOY, "a commit with the defence, K = 10", r"commit takes ([\d.]+) times as long",
           "defended", "ratio_10", RATIO),
    Figure(DEPLOY, "a commit with the defence, K = 1000", r"for 10 clients, ([\d.]+)\s+for",
           "defended", "ratio_1000", RATIO),
    Figure(DEPLOY, "CPU s of a client's start", r"([\d.]+) s of CPU time until it waits", "client",
           "cpu"),
    Figure(DEPLOY, "MB of a client", r"(\d+) MB\s+resident", "client", "mb", RATIO),
    Figure(DEPLOY, "samples/s, float64", r"([\d,]+) samples a second in float64", "client",
           "float64"),
    Figure(DEPLOY, "samples/s, float32", r"([\d,]+) in float32", "client", "float32"),
    Figure("docs/operate.md", "CPU ms a round, no dashboard", r"round takes ([\d.]+) ms of CPU",
           "dashboard", "none"),
    Figure("docs/operate.md", "CPU ms a round, watched", r"and ([\d.]+) ms with one watched",
           "dashboard", "watched"),
    Figure(PLAY, "CPU s of 1,000 rounds", r"every test error take ([\d.]+) s", "playground",
           "1,000 rounds, s"),
    Figure(PLAY, "CPU s of 5,000 rounds", r"played to the end ([\d.]+) s", "playground",
           "5,000 rounds played, s"),
    Figure(PLAY, "CPU ms, longest task, loading", r"while loading ([\d.]+) ms", "playground",
           "longest task, loading, ms"),
    Figure("docs/privacy.md", "% found, M = 40, T = 6", r"determined and (\d+) % found, 8 are",
           "leaks", "six", COUNT),
    Figure("docs/privacy.md", "% of newest samples found",
           r"(\d+) % of the newest samples are found, and", "leaks", "newest", COUNT),
    Figure("docs/performance.md", "s of seven curves", r"paper's setting takes (\d+) s", "theory",
           "seconds"),
)  # fmt: skip

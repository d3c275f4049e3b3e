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
        found = re.findall(self.pattern, (ROOT / self.page).read_text(encoding="utf-8"))
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
    "estimators": Source("estimators.py"),
    "dashboard": Source("dashboard.py --rounds 500 --turns 2"),
    "playground": Source("playground.py"),
    "leaks": Source("leaks.py"),
    "tables": Source("tables.py --folder FOLDER", quick=False),
    "theory": Source("theory.py --time", quick=False),
}


def row(title: str, column: int) -> str:
    """The number in a column of the table row that begins with these words (0: right after)."""
    cells = r"[^|\n]*\|" * column
    return rf"\| {re.escape(title)} \|{cells} ([\d.,]+)"


SPEED, COMPARED, DEPLOY = "docs/performance.md", "docs/comparison.md", "docs/deploy.md"
OWN, PLAY, MEMO = "docs/own_function.md", "docs/playground.md", "docs/memofed.md"
NUMPY, JAX, C = "NumPy, all clients at once", "JAX, jit and scan", "C, fused and lazy"
LOOP, APART = "plain NumPy loop", "plain loop, method by method"

FIGURES = (
    Figure("README.md", "vectorised NumPy over psofed", r"(\d+) times as fast as vectorised NumPy",
           "engine", NUMPY, RATIO),
    Figure("README.md", "JAX over psofed", r"(\d+) times as fast as JAX", "engine", JAX, RATIO),
    Figure("README.md", "psofed over C", r"([\d.]+) times as slow as C", "engine", C, RATIO, True),
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
    Figure(SPEED, "CPU s to the first run", r"([\d.]+) to [\d.]+ s of CPU time with `--jobs 1`",
           "commands", "start"),
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
    Figure(OWN, "f as a function", r"another f \| ([\d.]+), ", "own_function",
           "its f as a function", RATIO),
    Figure(OWN, "f as an expression", r"another f \| [\d.]+, [\d.]+; ([\d.]+);", "own_function",
           "its f as an expression", RATIO),
    Figure(OWN, "Laplace noise", r"drawn by a function \| ([\d.]+);", "own_function",
           "its f, Laplace noise", RATIO),
    Figure(OWN, "own inputs", r"drawn by a function \| [\d.]+; ([\d.]+)", "own_function",
           "its f, own inputs", RATIO),
    Figure(OWN, "own features", row("the paper's features, computed by a function", 0),
           "own_function", "its stream, own features", RATIO),
    Figure(DEPLOY, "bytes of frames", r"exchange (\d+) bytes of frames", "wire_bytes", "payload",
           COUNT),
    Figure(DEPLOY, "IP bytes, QoS 0", r"and (\d+) to \d+ bytes of IP", "wire_bytes",
           "qos0_back_to_back", COUNT),
    Figure(DEPLOY, "IP bytes, QoS 0, spaced", r"and \d+ to (\d+) bytes of IP", "wire_bytes",
           "qos0_spaced", COUNT),
    Figure(DEPLOY, "IP bytes, QoS 1, TLS", r"it is (\d+) to \d+ bytes", "wire_bytes",
           "qos1_back_to_back", COUNT),
    Figure(DEPLOY, "IP bytes, QoS 1, TLS, spaced", r"it is \d+ to (\d+) bytes", "wire_bytes",
           "qos1_spaced", COUNT),
    Figure(DEPLOY, "rounds/s, cohort 4", row("4", 1), "load", "rate_4"),
    Figure(DEPLOY, "rounds/s, cohort 100", row("100", 1), "load", "rate_100"),
    Figure(DEPLOY, "MB of the server, cohort 4", row("4", 5), "load", "mb_4", RATIO),
    Figure(DEPLOY, "a commit with the defence, K = 10", row("10 clients", 2), "defended",
           "ratio_10", RATIO),
    Figure(DEPLOY, "a commit with the defence, K = 1000", row("1000 clients", 2), "defended",
           "ratio_1000", RATIO),
    Figure(DEPLOY, "CPU s of a client's start", row("CPU time until it waits for its broker", 0),
           "client", "cpu"),
    Figure(DEPLOY, "MB of a client", row("resident memory", 0), "client", "mb", RATIO),
    Figure(DEPLOY, "samples/s, float64", row("samples learned a second, float64", 0), "client",
           "float64"),
    Figure(DEPLOY, "samples/s, float32", row("samples learned a second, float32", 0), "client",
           "float32"),
    Figure("docs/tables.md", "samples/s of RFFKLMSRegressor", row("RFFKLMSRegressor", 1),
           "estimators", "RFFKLMSRegressor"),
    Figure("docs/tables.md", "samples/s of FederatedRegressor",
           row("FederatedRegressor, 10 clients, M = 40", 1), "estimators",
           "FederatedRegressor, 10 clients, M = 40"),
    Figure("docs/tables.md", "samples/s of RFFKLMSStream", row("RFFKLMSStream (River)", 1),
           "estimators", "RFFKLMSStream (River)"),
    Figure("docs/dashboard.md", "CPU ms a round, no dashboard", row("100", 4), "dashboard",
           "none"),
    Figure("docs/dashboard.md", "CPU ms a round, watched", r"\| 100 \|.* / ([\d.]+) \|",
           "dashboard", "watched"),
    Figure(PLAY, "CPU s of 1,000 rounds", row("1,000 rounds with every test error", 1),
           "playground", "1,000 rounds, s"),
    Figure(PLAY, "CPU s of 5,000 rounds", row("5,000 rounds, played to the end", 1),
           "playground", "5,000 rounds played, s"),
    Figure(PLAY, "CPU ms, longest task, loading",
           row("longest task of the main thread, loading", 1), "playground",
           "longest task, loading, ms"),
    Figure("docs/privacy.md", "% found, M = 40, T = 6",
           r"\| 40 \|(?: 100 / 100 \|){4} 100 / (\d+) \| 98", "leaks", "six", COUNT),
    Figure("docs/privacy.md", "% of newest samples found", row("subset, delay line, J = 8", 4),
           "leaks", "newest", COUNT),
    Figure("docs/air_quality.md", "CPU s of fit --alone", r"took ([\d.]+) s of CPU time on two",
           "tables", "fit_alone_cpu"),
    Figure("docs/air_quality.md", "CPU s of fit", r"controls it took ([\d.]+) s", "tables",
           "fit_cpu"),
    Figure("docs/air_quality.md", "CPU s of advise", r"with the same options ([\d.]+) s", "tables",
           "advise_cpu"),
    Figure("docs/theory.md", "s of seven curves", r"The seven curves took (\d+) to", "theory",
           "seconds"),
)  # fmt: skip

"""A small experiment that most commands are tried with, and one of a table."""

import pytest

TINY = """
clients = 6
rounds = 30
runs = 3
test_samples = 50
[features]
dim = 8
[[methods]]
name = "onlinefed"
[[methods]]
name = "psofed"
shared = 2
"""


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


TABLE = """
clients = 2
rounds = 30
cohort = 2
[stream]
name = "table"
file = "readings.csv"
clients = ["p", "q"]
first = 10
frozen = 30
[stream.columns]
target = "load"
time = ["t"]
client = "who"
inputs = ["celsius", "hpa"]
[stream.scaling]
celsius = [15, 8]
hpa = [1013, 10]
load = [500, 120]
[features]
dim = 60
[[methods]]
name = "psofed"
shared = 30
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.toml"
    path.write_text(TABLE)
    rows = [
        f"{t},{who},{12 + 5 * ((7 * t + i) % 11) / 11:.3f},{1000 + (3 * t + 5 * i) % 23},"
        f"{380 + (13 * t + 31 * i) % 240}"
        for t in range(40) for i, who in enumerate("pq") if not (who == "q" and t % 6 == 1)
    ]  # fmt: skip
    (tmp_path / "readings.csv").write_text("\n".join(["t,who,celsius,hpa,load", *rows]) + "\n")
    return path

"""A small experiment that most commands are tried with, and one of a table."""

import pytest


@pytest.fixture
def tiny(file):
    methods = [{"name": "onlinefed"}, {"name": "psofed", "shared": 2}]
    settings = {"clients": 6, "rounds": 30, "runs": 3, "test_samples": 50, "features": {"dim": 8}}
    return file("tiny.toml", **settings, methods=methods)


TABLE = {
    "name": "table", "file": "readings.csv", "clients": ["p", "q"], "first": 10, "frozen": 30,
    "columns": {"target": "load", "time": ["t"], "client": "who", "inputs": ["celsius", "hpa"]},
    "scaling": {"celsius": [15, 8], "hpa": [1013, 10], "load": [500, 120]},
}  # fmt: skip


@pytest.fixture
def table(tmp_path, file):
    more = {"stream": TABLE, "features": {"dim": 60}, "methods": [{"name": "psofed", "shared": 30}]}
    path = file("table.toml", clients=2, rounds=30, cohort=2, **more)
    rows = [
        f"{t},{who},{12 + 5 * ((7 * t + i) % 11) / 11:.3f},{1000 + (3 * t + 5 * i) % 23},"
        f"{380 + (13 * t + 31 * i) % 240}"
        for t in range(40) for i, who in enumerate("pq") if not (who == "q" and t % 6 == 1)
    ]  # fmt: skip
    (tmp_path / "readings.csv").write_text("\n".join(["t,who,celsius,hpa,load", *rows]) + "\n")
    return path

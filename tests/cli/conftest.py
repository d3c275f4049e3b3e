"""A small experiment that most commands are tried with."""

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

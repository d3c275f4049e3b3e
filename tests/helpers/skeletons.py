"""The skeletons that `psofed init` writes, as files of a user, whole or changed."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

TOML = """\
clients = 5
rounds = 12
runs = 2
cohort = 2
test_samples = 40
[features]
dim = 6
[[methods]]
name = "./mine.py"
"""


def skeleton(kind: str) -> str:
    return files("psofed").joinpath(f"cli/presets/{kind}.template").read_text(encoding="utf-8")


def put(
    folder: Path, *changes: tuple[str, str], kind: str = "method", name: str = "mine.py"
) -> Path:
    """The skeleton with these changes, each of which must be possible, in a file."""
    text = skeleton(kind)
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def experiment(folder: Path, text: str = TOML) -> Path:
    (folder / "mine.toml").write_text(text)
    return folder / "mine.toml"

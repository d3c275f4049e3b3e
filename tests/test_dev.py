"""dev.py says what it does."""

from __future__ import annotations

import importlib.util
import subprocess

import pytest

from helpers import ROOT


@pytest.fixture(scope="module")
def dev():
    spec = importlib.util.spec_from_file_location("dev", ROOT / "dev.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_step_is_a_line_with_its_seconds(dev, capsys):
    with dev.step("install things"):
        pass
    assert capsys.readouterr().err == "  install things ... done, 0 s\n"


def test_a_step_that_fails_says_so(dev, capsys):
    with pytest.raises(subprocess.CalledProcessError), dev.step("install things"):
        raise subprocess.CalledProcessError(1, "uv")
    assert "install things ... failed, 0 s" in capsys.readouterr().err


def test_setting_up_names_every_step_once(dev, capsys, monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(dev, "VENV", tmp_path)
    monkeypatch.setattr(dev, "PYTHON", tmp_path / "python")
    monkeypatch.setattr(dev.venv, "create", lambda folder, with_pip: calls.append(folder))
    monkeypatch.setattr(dev.subprocess, "check_call", lambda words, **_: calls.append(words))
    dev.set_up()
    said = capsys.readouterr().err
    assert said.count(" done, ") == len(calls) == 4
    dev.set_up()
    assert capsys.readouterr().err == ""
    assert len(calls) == 4

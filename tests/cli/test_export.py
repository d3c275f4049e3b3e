"""`psofed deploy export` as people use it."""

import json

import pytest

from helpers.command import call, wrong

QUICK = ("--set", "width=2", "--set", "step=0.4", "--set", "dim=20", "--set", "compare=false")


@pytest.fixture(scope="module")
def fit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("psofed.report.page.have", lambda module: False)
        done = call("fit", "--example", *QUICK, "--out", "fit", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "fit" / "model.psofed"


def test_a_model_is_exported_to_each_format(fit, process, works, tmp_path):
    done = process("deploy", "export", fit, "--to", "json")
    assert done.returncode == 0, done.stderr
    assert "Mix with PSO-Fed M=4 uncoordinated, mean of all clients" in done.stdout
    assert "Inputs: temperature, wind, traffic, wind_from, sin hour, cos hour" in done.stdout
    made = json.loads((tmp_path / "model.json").read_text())["made_by"]
    assert "psofed deploy export" in made
    assert "--to json" in made
    for format, name in (("c", "model-mill.h"), ("onnx", "model-mill.onnx")):
        works("deploy", "export", fit, "--to", format, "--client", "mill")
        assert (tmp_path / name).stat().st_size > 1000
    assert "static inline float model_mill_predict(" in (tmp_path / "model-mill.h").read_text()


def test_mistakes_get_one_clear_line_and_no_file(fit, psofed, tmp_path):
    for model, words, parts in (
        (fit, "--to xml", ["'xml' is not one of"]),
        ("none", "--to c", ["none", "cannot be read"]),
        (tmp_path, "--to c", ["is a folder without run.toml", "--plan"]),
        (fit, "--to c --client mil", ["did you mean 'mill'"]),
        (fit, "--to c --out no/x.h", ["x.h", "cannot be written"]),
        (fit, f"--to c --out {tmp_path}", ["is a folder"]),
    ):
        wrong(psofed("deploy", "export", model, *words.split()), *parts)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "model.h").write_text("mine")
    wrong(psofed("deploy", "export", fit, "--to", "c"), "model.h", "exists already", "give another")
    assert (tmp_path / "model.h").read_text() == "mine"

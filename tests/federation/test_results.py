"""A method of one's own in experiments, results, checkpoints, deployments and other processes."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from helpers.command import wrong
from helpers.loopback import disk
from helpers.skeletons import TOML, experiment, put, skeleton
from psofed import experiment as experiments
from psofed.compare import budget
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.federation import plugins
from psofed.fleet.protocol import deployment
from psofed.methods import onlinefed
from psofed.report import runs
from psofed.simulate import montecarlo
from psofed.simulate.finished import Accumulator, Checkpoint
from psofed.streams import paper


@pytest.fixture
def mine(tmp_path):
    put(tmp_path)
    return experiments.read(experiment(tmp_path))


def notebook(**members):
    """A class as a cell of a notebook makes it."""
    made = type("Mine", (onlinefed.Options,), {"__module__": "__main__", "name": "mine", **members})
    return dataclass(frozen=True)(made)


def test_a_file_of_ones_own_runs_and_is_written_so_that_it_is_read_again(mine, tmp_path):
    curves = montecarlo.run(mine, 1)
    assert curves.titles == ["Mine gain=1"]
    whole = Experiment(clients=5, rounds=12, runs=2, cohort=2, test_samples=40,
                       features=Features(dim=6), methods=(onlinefed.Options(),))  # fmt: skip
    assert np.allclose(curves.mse, montecarlo.run(whole, 1).mse, rtol=1e-5)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "again.toml").write_text(mine.to_toml())
    assert experiments.read(tmp_path / "elsewhere" / "again.toml") == mine


def test_what_a_notebook_made_runs_and_is_not_written_but_its_result_is_and_says_so(tmp_path):
    options = notebook(kind=onlinefed.Method, describe=lambda self: "Mine")()
    made = Experiment(clients=5, rounds=6, runs=1, test_samples=20, methods=(options,))
    plain = replace(made, methods=(onlinefed.Options(),))
    assert np.allclose(montecarlo.run(made, 1).mse, montecarlo.run(plain, 1).mse, rtol=1e-5)
    with pytest.raises(InputError, match="cannot be sent to another process"):
        montecarlo.run(made, pool=montecarlo.fresh_processes(1))
    with pytest.raises(InputError, match="was made in a notebook or a script; put it into a file"):
        made.to_toml()
    found = runs.render(montecarlo.run(made, 1), "python", {})
    text = found["experiment.toml"].decode()
    assert text.startswith("# This file cannot be read back: ")
    assert tomllib.loads(text)["methods"][0]["name"] == "__main__:Mine"
    store = Checkpoint(tmp_path, made)
    store.begin()
    with pytest.raises(InputError, match="may hold another experiment"):
        store.resume(Accumulator(made))


def test_a_notebook_has_to_say_which_method_belongs_to_its_options():
    options = notebook(describe=lambda self: "Mine")()
    # The nearest class with a method beside it is that of Online-Fed, which this one derives from.
    Experiment(methods=(options,))
    alone = type("Alone", (onlinefed.Common,), {"__module__": "__main__", "name": "alone",
                                                "describe": lambda self: "Alone"})  # fmt: skip
    with pytest.raises(InputError, match="Options declare it as `kind`, but Alone, which has no"):
        Experiment(methods=(dataclass(frozen=True)(alone)(),))


@dataclass(frozen=True)
class Own(paper.Options):
    name: ClassVar[str] = "own"


class Bare:
    """A stream without fields: enough to run, not to be written."""

    name, independent, taps = "bare", False, 4
    samples, snapshot = paper.Options().samples, paper.Options().snapshot


def test_a_stream_that_is_written_nowhere_is_refused_when_it_is_written():
    for stream, words in ((Own(), "under the name Options"), (Bare(), "no fields to be written")):
        made = Experiment(clients=4, rounds=5, runs=1, test_samples=10, stream=stream)
        with pytest.raises(InputError, match=words):
            made.to_toml()
        curves = montecarlo.run(made, 1)
        found = runs.render(curves, "python", {})
        assert "cannot be read back" in found["experiment.toml"].decode()
        usual = replace(made, stream=paper.Options())
        assert np.array_equal(curves.mse, montecarlo.run(usual, 1).mse)
        assert budget.cost(made, onlinefed.Options()) == budget.cost(usual, onlinefed.Options())


def test_a_result_keeps_path_digest_and_source_and_repeats_itself(mine, tmp_path, works):
    works("run", "mine.toml", "--out", "result")
    (about,) = json.loads((tmp_path / "result/summary.json").read_text())["plugins"]
    assert about["path"] == str(tmp_path / "mine.py")
    assert about["digest"] == plugins.of(type(mine.methods[0])).digest
    copy = tmp_path / "result" / f"mine-{about['digest'][:8]}.py"
    assert copy.read_text() == skeleton("method")
    (tmp_path / "mine.py").unlink()
    works("run", "result/experiment.toml", "--out", "again")
    curves = [(tmp_path / name / "curves.csv").read_bytes() for name in ("result", "again")]
    assert curves[0] == curves[1]
    assert (tmp_path / "again" / copy.name).exists()


def test_another_file_is_not_resumed_and_the_line_says_which(mine, tmp_path, psofed, works):
    store = Checkpoint(tmp_path / "result", mine)
    store.begin()
    path = put(tmp_path, ("1.0  # an option", "0.5  # an option"))
    changed = experiments.read(tmp_path / "mine.toml")
    with pytest.raises(InputError, match=rf"{path} has changed: its digest was \w+ and is \w+"):
        Checkpoint(tmp_path / "result", changed).resume(Accumulator(changed))
    for _ in range(2):
        works("run", "mine.toml", "--out", "whole")
    put(tmp_path)
    wrong(psofed("run", "mine.toml", "--out", "whole"), f"{path} has changed: its digest was")


def test_a_folder_that_was_moved_is_resumed(mine, tmp_path):
    store = Checkpoint(tmp_path / "result", mine)
    store.begin()
    put(tmp_path / "moved")
    moved = experiments.read(experiment(tmp_path / "moved"))
    Checkpoint(tmp_path / "result", moved).resume(Accumulator(moved))  # is not refused


FAILING = ('return client["w"].copy()', 'return client["w"] / {}["no"]')


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_error_in_the_plug_in_is_reported_as_its_own(tmp_path, psofed, monkeypatch, jobs):
    monkeypatch.setenv("PSOFED_JOBS", jobs)
    path = put(tmp_path, FAILING)
    line = 1 + path.read_text()[: path.read_text().index("{}[")].count("\n")
    experiment(tmp_path)
    done = psofed("run", "mine.toml", "--out", "result")
    wrong(done, f"{path}:{line}: upload failed with KeyError: 'no'")
    assert "bug in psofed" not in done.stderr
    assert not (tmp_path / "result").exists()


DEPLOYED = TOML + '[deploy]\nwire = "float64"\n'


def test_both_ends_of_a_deployment_must_have_the_same_file_wherever_it_lies(tmp_path):
    for name in ("server", "client", "other"):
        put(tmp_path / name, *([("* sum(", "* 1 * sum(")] if name == "other" else []))
        experiment(tmp_path / name, DEPLOYED)
    server, client, other = (
        deployment.read(tmp_path / name / "mine.toml") for name in ("server", "client", "other")
    )
    assert server.digest == client.digest
    assert server.digest != other.digest


def test_a_state_folder_keeps_the_file_and_imports_it_only_if_asked(tmp_path):
    from psofed.tables import export

    mark = "@dataclass(frozen=True)\n"
    put(tmp_path, (mark, f'open({str(tmp_path / "imported")!r}, "a").close()\n\n\n{mark}'))
    plan = deployment.read(experiment(tmp_path, DEPLOYED))
    files = disk()
    plan.keep(files)
    state = tmp_path / "state"
    state.mkdir()
    for name, data in files.files.items():
        (state / name).write_bytes(data)
    (tmp_path / "imported").unlink()
    with pytest.raises(InputError, match=r"is not imported here; allow it by naming the file: --p"):
        export.load(state)
    assert not (tmp_path / "imported").exists()
    assert deployment.read(state / deployment.PLAN).digest == plan.digest


def test_a_fit_takes_a_method_from_a_file_in_the_working_folder(tmp_path, works):
    put(tmp_path)
    done = works("fit", "--example", "--method", "./mine.py:gain=0.5", "--out", "fitted")
    assert "Mine gain=0.5" in done.stdout
    assert list((tmp_path / "fitted").glob("mine-*.py"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("class Options(Common)", "class Choice(Common)"), "has no class Options"),
        (("@dataclass(frozen=True)", "@dataclass"), "cannot be imported: "),
        (("@dataclass(frozen=True)\n", ""), "Options has gain, but no @dataclass(frozen=True)"),
        (("class Options(Common)", "class Options"), "cannot be read from a table"),
        (('"mine"', '"fedavg"'), "'fedavg' is that of psofed's own method"),
        (("class Method(OneClient)", "class Methods(OneClient)"), "which has no Method"),
        (("def upload", "def uploads"), "Method has everything of its contract, but it has no"),
        (("def fold(\n        self, server", "def fold(\n        self, more, server"), "it has fold("),
        (("class Method(OneClient)", "class Method"), "but it has no cohort, server, client, "),
    ],
)  # fmt: skip
def test_a_broken_contract_is_refused_at_the_start_with_its_rule(tmp_path, psofed, change, words):
    put(tmp_path, change)
    experiment(tmp_path)
    wrong(psofed("run", "mine.toml", "--out", "result"), words, "methods[0].name")
    assert not (tmp_path / "result").exists()


def test_what_is_no_stream_and_no_method_at_all_is_refused():
    with pytest.raises(InputError, match=r"stream\.name is .* a stream that breaks a rule"):
        Experiment(stream=object())
    with pytest.raises(InputError, match=r"methods\[0\]\.name is .* breaks a rule"):
        Experiment(methods=(object(),))

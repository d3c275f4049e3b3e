"""Attack and defence in results, sweeps and comparisons: said, swept, and reasons for who is out."""

import json

import pytest

import psofed as library
from helpers.battery import network, small
from helpers.mistakes import refused
from psofed import Experiment, OnlineFed
from psofed.compare import addresses, budget
from psofed.stages.attacks import Adaptive, Scale

TINY = {
    "clients": 10, "rounds": 12, "runs": 2, "cohort": 3, "test_samples": 20, "features": {"dim": 6},
    "attack": {"name": "scale", "factor": -5}, "defence": {"name": "centred"},
    "methods": [{"name": "onlinefed"}, {"name": "psofed", "shared": 2}],
}  # fmt: skip
SAID = "10 % of the clients are malicious: model times -5; defence: centred clipping tau=0.1"


@pytest.mark.parametrize(
    ("verb", "made"),
    [
        (("run",), "summary.json"),
        (("study", "sweep", "--set", "shared=1,2"), "sweep.json"),
        (("compare", "--tuning", "none", "--rounds", "100"), "comparison.json"),
    ],
)
@pytest.mark.usefixtures("sketched")
def test_results_say_who_is_malicious_and_what_is_done_about_it(works, file, tmp_path, verb, made):
    done = works(*verb, file(**TINY), "--out", "out")
    assert SAID in done.stdout
    assert json.loads((tmp_path / "out" / made).read_text())["threat"] == SAID
    page = (tmp_path / "out" / "report.html").read_text().replace("\\u2212", "-")
    assert SAID in page


def test_without_attack_and_defence_nothing_is_said():
    assert Experiment().threat == ""
    nobody = Experiment(attack=Scale(share=0.0))
    assert nobody.threat == "no client is malicious; no defence"


@pytest.mark.usefixtures("sketched")
def test_options_of_an_attack_are_swept(psofed, works, file, tmp_path):
    sets = ("--set", "attack.share=0,0.2", "--set", "attack.factor=-1,-5", "--set", "tau=0.1,1")
    works("study", "sweep", file(**TINY), *sets, "--out", "out")
    table = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert table["settings"] == {
        "attack.share": [0, 0.2], "attack.factor": [-1, -5], "defence.tau": [0.1, 1]
    }  # fmt: skip
    assert len(table["methods"]) == 2 * 2 * 2 * 2
    ends = {
        (e["attack.share"], e["attack.factor"], e["defence.tau"]): e["steady_db"]["value"]
        for e in table["methods"]
        if e["name"] == "onlinefed"
    }
    assert ends[0, -1, 1] == ends[0, -5, 1]  # nobody is malicious
    assert ends[0.2, -1, 1] != ends[0.2, -5, 1]
    assert "threat" not in table
    wrong = psofed("study", "sweep", "run.toml", "--set", "attack.share=0,0.01", "--out", "no")
    assert "attack.share is 0.01, which is nobody of 10 clients" in wrong.stderr


def test_a_setting_of_a_table_that_is_not_there_says_so():
    with pytest.raises(library.InputError, match=r"attack\.share is of an experiment with a table"):
        addresses.place(library.Experiment(), "attack.share")


def test_a_comparison_leaves_out_what_cannot_be_attacked_with_the_reason():
    few = {"clients": 10, "rounds": 100, "runs": 2, "test_samples": 20}
    world = small(library.PSOFed(shared=2), **few, attack=library.attacks.Scale())
    known, left_out = budget.attacked(world, (library.PSOFed(shared=2), library.rivals.Raw()))
    assert known == (library.PSOFed(shared=2),)
    assert left_out == [("Raw samples", "which sends no model that [attack] scale could change")]
    found = library.compare_methods(world, budget=0.5, tuning="none", jobs=1)
    assert found.curves.titles[0] == "Online-Fed"


test_an_attack_that_means_nothing_here_is_refused = refused({
    "attack.factor is nan; use a finite number": Scale(factor=float("nan")),
    "attack.share is 1.0; use a share of the clients, 0 to 1": Scale(share=1.0),
    "attack is 'adaptive, weak 10', which needs a model": Adaptive(push="weak"),
}, lambda attack: Experiment(attack=attack, learner=network.Options(), methods=(OnlineFed(),)))  # fmt: skip

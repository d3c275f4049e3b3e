import tomllib
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.battery import POLICIES, network
from helpers.mistakes import refused, refused_in_files
from psofed import experiment as experiments
from psofed.cli.run import PRESETS
from psofed.compare import budget
from psofed.experiment import Experiment, Features
from psofed.federation.learners import linear, nlms
from psofed.federation.membership import Change
from psofed.fleet.protocol.deployment import Deployment
from psofed.methods import onlinefed, psofed
from psofed.simulate import montecarlo
from psofed.stages.mix import MixOptions
from psofed.stages.privacy import Privacy
from psofed.streams import function, paper


def preset(name):
    """The table that `psofed init` writes."""
    return tomllib.loads(files("psofed").joinpath(f"cli/presets/{name}.toml").read_text("utf-8"))


def test_the_template_is_the_papers_setting():
    table = preset("paper")
    assert table["methods"][1].pop("shift") == psofed.Options(shared=1).tau
    assert experiments.parse(table) == Experiment()


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_an_experiment(name):
    experiment = experiments.parse(preset(name))
    assert experiment.methods[0].name == ("onlinefed" if experiment.privacy is None else "psofed")


OWN = (
    psofed.Options(4, features=Features(dim=12)), onlinefed.Options(learner=linear.Options()),
    psofed.Options(3, features=Features(dim=12), learner=nlms.Options(0.1)),
)  # fmt: skip
FLEET = (
    Change(4, add=(100, 101)), Change(6, exclude=(0,)), Change(9, remove=(2,), add=(108,)),
    Change(13, readmit=(0,)), Change(17, restore=8, void=15), Change(21, restore=19, keep=True),
)  # fmt: skip
GIVEN = [
    {"seed": 2**63 - 1, "step": 1 / 3, "clients": 10**6, "rounds": 10**6},
    {"features": Features("exponential", dim=40)}, {"world": 0}, {"absent": 0.5},
    {"targets": "noisy"}, {"judge": "personal"}, {"fleet": FLEET},
    {"methods": OWN}, {"learner": nlms.Options(0.3)},
    *({"learner": each, "methods": (psofed.Options(2),)}
      for each in (linear.Options(), network.Options(5))),
    {"mix": MixOptions(season=5, trust=(0.3, 0.1, 0.2, 0.2, 0.1, 0.1))},
    {"privacy": Privacy(masks=True, least=4, epsilon=2.0, level="client", clip_change=0.5),
     "methods": (onlinefed.Options(),)},
    *({"stream": each} for each in (paper.Options(away=0.5, stay=10.0, late=5, spread=1.0),
      paper.Options(inputs="iid", period=20), function.Options(paper.f, taps=4, late=5))),
    *({"methods": (psofed.Options(3, policy=policy), psofed.Options(3))} for policy in POLICIES),
]  # fmt: skip


@pytest.mark.parametrize("changes", GIVEN, ids=lambda given: "-".join(given))
def test_what_is_given_is_written_and_read_again_and_nothing_else_is(changes, tmp_path):
    made, path = Experiment(**changes), tmp_path / "given.toml"
    path.write_text(made.to_toml(), encoding="utf-8")
    assert experiments.read(path) == made
    # What is usual is not written, so that older files and digests stay the same.
    table, usual = made.to_table(), Experiment(privacy=Privacy()).to_table()
    assert ("features" in table) == made.learner.featured
    assert table.keys() - usual.keys() == changes.keys() - usual.keys()
    assert not usual.keys() & {"absent", "targets", "judge", "fleet", "learner", "mix", "privacy"}
    assert not usual["stream"].keys() & {"away", "stay", "late"}
    own = [options.keys() & {"features", "learner", "policy"} for options in usual["methods"]]
    assert not any(own)


@pytest.mark.parametrize("name", ["private", "lean-private"])
def test_the_private_presets_are_near_the_same_methods_without_masks_and_noise(name):
    private = replace(experiments.parse(preset(name)), runs=1, rounds=600, test_samples=200)
    assert Deployment(private).masked
    assert private.counts[0].closed
    assert private.privacy.epsilon == 4
    curves = [montecarlo.run(e, progress=False) for e in (private, replace(private, privacy=None))]
    assert 0 < curves[0].mse_db[0, -1] - curves[1].mse_db[0, -1] < 2
    assert (curves[0].cumulative == curves[1].cumulative).all()


def test_the_lean_presets_methods_cost_the_same():
    experiment = experiments.parse(preset("lean"))
    shares = {o.name: budget.cost(experiment, o).share for o in experiment.methods}
    assert shares.pop("onlinefed") == 1
    assert shares.pop("memofed") <= 1 / 40
    assert set(shares.values()) == {1 / 40}


test_library_users_get_the_same_checks = refused({
    "name is 'Cosine'; use": lambda: Features("Cosine"),
    "width is 1e-200": lambda: Features(width=1e-200),
    "methods[0].scheme is 'Coo'": lambda: Experiment(methods=(psofed.Options(scheme="Coo"),)),
    "methods[0].mask is 'b'": lambda: Experiment(methods=(psofed.Options(mask="b"),)),
    "dtype is 'float16'": lambda: Experiment(dtype="float16"),
    "rounds is 10.5, a number; use a whole number": lambda: Experiment(rounds=10.5),
    "clients is '5', a text": lambda: Experiment(clients="5"),
    f"clients is {10**23}; use 1000000000": lambda: Experiment(clients=10**23),
})  # fmt: skip


@given(st.integers(1, 50), st.integers(1, 50))
def test_the_last_round_is_always_evaluated(rounds, every):
    every = min(every, rounds)
    marks = Experiment(rounds=rounds, evaluate_every=every).evaluated
    assert marks[0] == 0
    assert marks[-1] == rounds
    assert (np.diff(marks) > 0).all()
    assert np.diff(marks).max() <= every


test_a_mistake_is_named_with_file_field_and_remedy = refused_in_files({
    "rouns = 3": "rouns is not a known key; did you mean 'rounds'?",
    "clients = 'many'": "clients is 'many', a text; use a whole number",
    "clients = true": "clients is True, true or false; use a whole number",
    "rounds = 2.5": "rounds is 2.5, a number; use a whole number",
    "runs = 0": "runs is 0; use a number above 0",
    "step = 0": "step is 0.0; use a number above 0",
    "step = nan": "step is nan; use a number above 0",
    "seed = -1": "seed is -1; use a whole number from 0 to 2^63 - 1",
    "cohort = 101": "cohort is 101, but there are only 100 clients; use 1 to 100",
    "evaluate_every = 9000": "evaluate_every is 9000, but there are only 5000 rounds; use 1 to 5000",
    "dtype = 'half'": 'dtype is \'half\'; use "float32" or "float64"',
    "targets = 'dirty'": 'targets is \'dirty\'; use "clean" or "noisy"',
    "judge = 'own'": "judge is 'own'",
    "features = 3": "features is 3, a whole number; use a table",
    "[features]\ndim = 0": "features.dim is 0; use a number above 0",
    "[features]\nname = 'exponential'\ndim = 3": "features.dim is 3, but these features come in pairs",
    "[features]\nwidht = 3.0": "features.widht is not a known key; did you mean 'width'?",
    "[stream]\nname = 'papre'": "stream.name is 'papre', which does not exist; did you mean 'paper'?",
    "[stream]\ntheta = [0.1, 0.2]": "stream.name is missing; use one of function, paper",
    "[stream]\nname = 'paper'\ntheta = [0.5, 1.0]": "stream.theta is [0.5, 1.0]; use two numbers inside (-1, 1)",
    "[stream]\nname = 'paper'\nnoise = [1, 'a']": "stream.noise is 'a', a text; use a number",
    "[stream]\nname = 'paper'\nnoise = [-1, 1]": "stream.noise is [-1.0, 1.0]; use two numbers that are not negative",
    "[stream]\nname = 'paper'\nmean = [1]": "stream.mean is [1]; use a list of 2 numbers",
    "methods = []": "methods is empty; give at least one [[methods]] table",
    "[[methods]]\nshared = 3": "methods[0].name is missing; use one of asofed, ",
    "[[methods]]\nname = 'pso-fed'": "methods[0].name is 'pso-fed', which does not exist; did you mean 'psofed'?",
    "[[methods]]\nname = 'psofed'\nshared = 201": "methods[0].shared is 201, but dim is 200; use 1 to 200",
    "[[methods]]\nname = 'psofed'\nstep = -1.0": "methods[0].step is -1.0; use a number above 0",
    "[[methods]]\nname = 'psofed'\nshift = 2": "methods[0].shift is 2: with dim = 200 and shared = 40 some entries",
    "[[methods]]\nname = 'local'\n[[methods]]\nname = 'local'": "methods[1].label is 'Local only', as that of another method",
})  # fmt: skip


def test_a_file_may_begin_with_the_mark_of_an_editor(tmp_path):
    path = tmp_path / "marked.toml"
    path.write_text("clients = 7\n", encoding="utf-8-sig")
    assert experiments.read(path).clients == 7


def test_a_method_may_have_its_own_step():
    options = psofed.Options(shared=3, step=0.1)
    experiment = replace(Experiment(), methods=(options, psofed.Options()))
    own, common = experiment.start(experiment.task(0))
    assert (own.step, common.step) == (0.1, 0.75)


def test_runs_of_one_world_share_features_masks_and_test_set_but_not_the_cohorts():
    shared = Experiment(
        world=3, clients=10, features=Features(dim=8), methods=(psofed.Options(shared=2),)
    )
    one, two = shared.task(0), shared.task(1)
    own = replace(shared, world=None).task(3)
    assert np.array_equal(one.features.W, own.features.W)
    assert np.array_equal(one.features.W, two.features.W)
    rounds, four = np.arange(20), np.array([4])
    assert not np.array_equal(one.cohorts.cohort(rounds), two.cohorts.cohort(rounds))
    for options in (
        psofed.Options(shared=2),
        psofed.Options(shared=2, scheme="coordinated"),
        psofed.Options(shared=2, mask="block"),
        psofed.Options(shared=2, selection="stochastic"),
    ):
        masks = [psofed.Method(options, task).schedule.entries(four, 9) for task in (one, two, own)]
        assert np.array_equal(masks[0], masks[1])
        assert np.array_equal(masks[0], masks[2])

"""Modules of PyTorch as learners: they learn, are deployed, and are refused where they are no function.

PyTorch is gigabytes, so no one installs it for these tests: where it is absent they are skipped,
and the network in NumPy stands for it, in the same adapter.
"""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import ROOT
from helpers.battery import small
from helpers.pages import blocks
from psofed import experiment as experiments
from psofed.cli.laws import drivers
from psofed.cli.laws.drivers import deployment, stepwise
from psofed.cli.laws.executors import compare_methods
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.experiment import Experiment, Features
from psofed.federation.learners import network
from psofed.federation.learners import torch as modules
from psofed.methods import fedavg, onlinefed, psofed
from psofed.rivals import fedprox
from psofed.simulate import montecarlo

NETS = """
import torch
from torch import nn

def make(taps):
    return nn.Sequential(nn.Linear(taps, 2), nn.Tanh(), nn.Linear(2, 1))

def flat(taps):
    return nn.Sequential(*make(taps), nn.Flatten(0))

def half(taps):
    return make(taps).half()

def double(taps):
    return make(taps).double()

def lazy(taps):
    return nn.Sequential(nn.LazyLinear(2), nn.Tanh(), nn.LazyLinear(1))

def layer(taps):
    return nn.Sequential(nn.Linear(taps, 3), nn.LayerNorm(3), nn.Linear(3, 1))

class Constant(nn.Module):
    def __init__(self, taps):
        super().__init__()
        self.line = nn.Linear(taps, 1)
        self.register_buffer("scale", torch.full((taps,), 2.0))

    def forward(self, x):
        return self.line(x * self.scale)

class Branches(Constant):
    def forward(self, x):
        y = super().forward(x)
        return 2 * y if y.sum() > 0 else y

class Tied(nn.Module):
    def __init__(self, taps):
        super().__init__()
        self.one, self.two = nn.Linear(taps, taps), nn.Linear(taps, taps)
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.two(torch.tanh(self.one(x))).sum(-1)

class Chance(Constant):
    def __init__(self, taps):
        super().__init__(taps)
        self.scale += torch.randn(taps)

def none(taps):
    return nn.Tanh()

def dropout(taps):
    return nn.Sequential(nn.Linear(taps, 2), nn.Dropout(0.5), nn.Linear(2, 1))

def batch(taps):
    return nn.Sequential(nn.Linear(taps, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))

def two(taps):
    return nn.Linear(taps, 2)

def pair(taps):
    return nn.GRU(taps, 1)

def frozen(taps):
    made = make(taps)
    made[0].weight.requires_grad_(False)
    return made

def numbers(taps):
    return nn.Linear(taps, 1, dtype=torch.complex64)

def three(taps):
    return 3

def wrong(taps):
    return nn.Linear(taps + 1, 1)

def broken(taps):
    return nn.Linear(nothing, 1)

def nobody():
    return nn.Linear(4, 1)

value = 3
"""
GOOD = "make", "flat", "half", "double", "lazy", "layer", "Constant", "Branches", "Tied"
BAD = {
    "none": "is none, whose module has no parameters",
    "dropout": "is dropout, whose output depends on chance",
    "batch": "is batch, whose module changes its buffers as it runs",
    "two": r"is two, whose module takes x \[3, 4\] to \[3, 2\]",
    "pair": r"is pair, whose module takes x \[3, 4\] to \[\]",
    "frozen": "is frozen, whose module has frozen parameters",
    "numbers": "is numbers, whose module has parameters that are not real numbers",
    "three": "is three, which returns int, not an nn.Module",
    "Chance": "is Chance, whose buffer 'scale' is drawn at random",
    "wrong": "fails: RuntimeError: mat1 and mat2 shapes",
    "broken": r"fails at .*nets.py:\d+: NameError: name 'nothing' is not defined",
    "nobody": r"fails at .*nets.py:\d+: TypeError: nobody.. takes 0 positional arguments",
    "value": "is 3, not a function",
    "mke": "but .* has no 'mke'; did you mean 'make'",
}


def test_without_pytorch_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    modules._bound.cache_clear()
    with pytest.raises(InputError, match=r"learner.name is 'torch', but PyTorch is not installed"):
        Experiment(learner=modules.Options(lambda taps: None), methods=(psofed.Options(2),))


def test_reading_the_package_does_not_import_pytorch():
    code = "import sys, psofed, psofed.federation.learners.torch; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture(scope="module")
def nets(tmp_path_factory):
    """The file of modules, if there is PyTorch."""
    pytest.importorskip("torch", reason="PyTorch is not installed; the NumPy network is tested")
    path = tmp_path_factory.mktemp("nets") / "nets.py"
    path.write_text(NETS)
    return path


def world(nets, *methods, name="make", **changes):
    learner = modules.Options(f"{nets}:{name}")
    return small(*methods, learner=learner, features=Features(), step=0.05, **changes)


@pytest.mark.parametrize("name", GOOD)
def test_a_module_is_a_function_of_its_flat_parameters(nets, name):
    learner, rng = modules.Options(f"{nets}:{name}"), np.random.default_rng(0)
    dim = learner.size(4, 0)
    w, x, tiny = rng.standard_normal((3, dim)), rng.standard_normal((3, 4)), 1e-5
    steps = tiny * np.eye(dim)[:, None]
    rise = (learner.predict(w + steps, x) - learner.predict(w - steps, x)).T
    np.testing.assert_allclose(learner.direction(w, x), rise / (2 * tiny), atol=1e-7)
    each = [learner.direction(w[i], x[i]) for i in range(3)]
    np.testing.assert_allclose(learner.direction(w, x), each, atol=1e-13)
    together = learner.predict(w[0], x)
    np.testing.assert_allclose(together, [learner.predict(w[0], one) for one in x], atol=1e-13)
    first = learner.initial(Seeds(1), 4, dim)
    np.testing.assert_array_equal(first, learner.initial(Seeds(1), 4, dim))
    assert not np.array_equal(first, learner.initial(Seeds(2), 4, dim))
    single = learner.learn(w.astype("f4"), x.astype("f4"), np.ones(3, "f4"), 0.1)
    assert single.dtype == np.float32


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_function_of_its_parameters_is_refused(nets, name):
    with pytest.raises(InputError, match=BAD[name]):
        world(nets, onlinefed.Options(), name=name)


@given(hidden=st.integers(1, 4), seed=st.integers(0, 20))
@settings(max_examples=8)
def test_the_numpy_network_is_the_same_as_one_of_pytorch(nets, hidden, seed):
    from torch import nn

    class Scaled(nn.Module):
        def __init__(self, taps):
            super().__init__()
            self.one, self.two = nn.Linear(taps + 1, hidden, False), nn.Linear(hidden + 1, 1, False)

        def forward(self, x):
            for layer, after in ((self.one, True), (self.two, False)):
                x = nn.functional.pad(x, (1, 0), value=1.0)
                x = layer(x) / x.shape[-1] ** 0.5
                x = x.tanh() if after else x
            return x

    ours, theirs, rng = (
        network.Options(hidden),
        modules.Options(Scaled),
        np.random.default_rng(seed),
    )
    dim = ours.size(3, 0)
    assert theirs.size(3, 0) == dim
    w, x = rng.standard_normal((2, dim)), rng.standard_normal((2, 3))
    np.testing.assert_allclose(ours.predict(w, x), theirs.predict(w, x), atol=1e-12)
    np.testing.assert_allclose(ours.direction(w, x), theirs.direction(w, x), atol=1e-12)


def test_a_module_learns_and_its_file_is_written_back(nets, tmp_path):
    made = world(nets, psofed.Options(5), onlinefed.Options(), rounds=300, test_samples=100)
    curves = montecarlo.run(made, 1)
    assert (curves.mse[:, -1] < 0.6 * curves.mse[:, 0]).all()
    path = tmp_path / "e.toml"
    path.write_text(made.to_toml())
    assert experiments.read(path) == made
    path.write_text(path.read_text().replace(str(nets), "./nets.py"))
    (tmp_path / "nets.py").write_text(NETS)
    assert experiments.read(path).dim == made.dim == 13


def test_executors_agree_on_a_module_and_so_does_its_deployment(nets):
    methods = psofed.Options(3), fedavg.Options(), fedprox.Options()
    for found in compare_methods(world(nets, *methods, rounds=20), 20):
        assert found.passed, found
    experiment = world(nets, psofed.Options(3), rounds=drivers.ROUNDS)
    found = drivers.deployed(experiment)
    assert np.abs(found - stepwise(experiment)).max() <= 1e-12
    assert deployment(experiment, "live").digest != deployment(experiment, "lockstep").digest


def test_a_function_of_a_notebook_runs_and_says_that_it_cannot_be_written(nets):
    from torch import nn

    learner = modules.Options(lambda taps: nn.Linear(taps, 1))
    made = small(onlinefed.Options(), learner=learner, features=Features(), step=0.05)
    assert montecarlo.run(made, 1).mse[0, -1] < np.inf
    with pytest.raises(InputError, match="which no file can name"):
        made.to_toml()


def test_the_example_of_the_page_learns(nets, tmp_path):
    page = ROOT / "docs" / "extend.md"
    net, toml = (b.text for b in blocks(page) if b.what.endswith("_of_the_page_learns"))
    (tmp_path / "net.py").write_text(net)
    (tmp_path / "e.toml").write_text(toml)
    made = experiments.read(tmp_path / "e.toml")
    curves = montecarlo.run(made, 1)
    assert made.dim == 73
    assert curves.mse[0, -1] < 0.6 * curves.mse[0, 0]

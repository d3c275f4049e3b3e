"""Moments given the state of the inputs, against all that can be drawn and against many runs."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.systems import enumerated, equal_population, given_system
from psofed.errors import PsofedWarning
from psofed.experiment import Experiment, Features
from psofed.methods import onlinefed, psofed
from psofed.report import theory as report
from psofed.simulate import montecarlo
from psofed.streams import function, paper
from psofed.theory import lifted, prediction, reduced
from psofed.theory.study import Study

FEW = np.random.default_rng(4).normal(size=(3, 5)) / 2  # windows, D and y
LASTING = 0.1 + 0.7 * np.eye(3)  # which follows which


def chain(follows, noise=0.0):
    """FEW windows, one of which follows another; the state is the last of them."""
    old, now = (each.ravel() for each in np.indices((3, 3)))
    h = np.linalg.qr(np.column_stack([np.ones(3), np.eye(3)[:, 1:]]))[0].T * -np.sqrt(3)
    weights = follows[old, now] / 3
    return lifted.Chain(weights, h[:, old], h[:, now], FEW[now, :4], FEW[now, 4], noise)


def independent(chain):
    """Nothing but h_0."""
    return replace(chain, before=chain.before[:1], after=chain.after[:1])


def exact(system):
    """What `enumerated` gives for equal clients."""
    few = np.broadcast_to(FEW, (system.total, *FEW.shape))
    return enumerated(system, few[..., :4], few[..., 4], 30, LASTING)


def agree(known, found, within=1e-12):
    """Means and covariances of the server's model."""
    for expected, theory in zip(known, found, strict=True):
        assert all(np.abs(a - b).max() < within for a, b in zip(expected, theory, strict=True))


@pytest.mark.parametrize("masks", [[[0]], [[1, 2]], [[0, 1, 2, 3]]])
def test_one_client_is_exact_on_a_chain_of_windows(masks):
    system = given_system(masks, 1, 4, clients=1, cohort=1, step=0.75)
    agree(exact(system), lifted.LiftedRecursion(system, (chain(LASTING),)).models(30))


@pytest.mark.parametrize("masks", [[[0]], [[0, 1], [1, 2]], [[0, 1, 2, 3]]])
@pytest.mark.parametrize("idle", [True, False])
def test_two_clients_lack_only_the_interaction_of_their_states(masks, idle):
    system = given_system(masks, 1, 4, clients=2, cohort=1, step=0.75, idle=idle)
    both = ((each,) * 2 for each in (chain(LASTING), independent(chain(LASTING))))
    models = exact(system), *(lifted.LiftedRecursion(system, each).models(30) for each in both)
    known, theory, other = (
        np.array([mean @ mean + np.trace(covariance) for mean, covariance in each])
        for each in models
    )
    assert np.abs(theory - known)[:3].max() < 1e-12
    assert np.abs(theory - known).max() < 0.05 * np.abs(other - known).max()


@pytest.mark.parametrize("masks", [[[0]], [[0, 1]], [[0, 1, 2, 3]]])
@pytest.mark.parametrize("idle", [True, False])
def test_independent_windows_have_the_recursion_of_independent_windows(masks, idle):
    """Equal clients with common windows, for which that one is exact too."""
    system = given_system(masks, 1, 4, clients=3, cohort=2, step=0.75, idle=idle)
    found = lifted.LiftedRecursion(system, (chain(np.full((3, 3), 1 / 3), 0.2),) * 3).models(20)
    data = equal_population(FEW[:, :4], FEW[:, 4], 0.2, 3)
    states = reduced.ReducedRecursion(system, data).trajectory(20)
    agree(((state.means.server[0], state.second.A) for state in states), found)


PAPER = Experiment(clients=3, cohort=1, rounds=60, runs=1000, world=1, step=1.0, test_samples=400,
                   features=Features(dim=8),
                   methods=(psofed.Options(shared=2), onlinefed.Options()))  # fmt: skip


def test_the_papers_series_is_predicted_to_a_fifth_of_a_db_where_independence_is_far_off():
    world, simulated = prediction.world(PAPER), montecarlo.run(PAPER).mse_db
    for j, each in enumerate(prediction.systems(world).items()):
        gap = prediction.one(world, *each).mse_db - simulated[j]
        other = prediction.one(world, *each, world.population).mse_db - simulated[j]
        assert abs(gap[30:].mean()) < 0.2
        assert other[30:].mean() < -0.35


def test_a_series_of_one_tap_and_no_correlation_is_one_of_independent_windows(monkeypatch):
    monkeypatch.setattr(lifted, "NEGLIGIBLE", 0.0)
    stream = function.Options(lambda x: x[..., 0] ** 2, taps=1, theta=(0.0, 0.0))
    world = prediction.world(replace(PAPER, stream=stream))
    system = prediction.systems(world)["PSO-Fed M=2 uncoordinated"]
    known = tuple(independent(chain) for chain in world.chains)
    found = (lifted.LiftedRecursion(system, each).models(20) for each in (known, world.chains))
    agree(*found, 1e-11)


def test_correlated_samples_of_a_large_system_have_a_caveat_wherever_its_curve_is_shown(
    monkeypatch,
):
    [known, _] = prediction.curves(replace(PAPER, rounds=2))
    assert known.caveat == ""
    for clients in (1, 3):
        slow = replace(PAPER, clients=clients, stream=paper.Options(theta=(0.95, 0.95)))
        assert bool(prediction.world(slow).caveat) == (clients > 1)
    monkeypatch.setattr(lifted, "NUMBERS", 0)
    large = replace(PAPER, rounds=2)
    with pytest.warns(PsofedWarning, match="samples are NOT independent over time") as caught:
        [found, _] = prediction.curves(large)
    assert caught[0].filename == __file__
    assert found.caveat in repr(found)
    study = Study(prediction.world(large), None, [], [], [found])
    shown = report.over_simulation(report.Findings(study, None, ""))
    assert found.caveat in shown.note
    assert found.caveat in "".join(map(str, report._predictions(study)))

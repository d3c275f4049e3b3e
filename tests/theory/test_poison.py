"""Noise in the uploads of malicious clients: against the simulator, and as laws."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.systems import WORLD, given_system, line
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.federation.learners import linear
from psofed.methods import onlinefed, psofed
from psofed.report import theory as words
from psofed.simulate import montecarlo
from psofed.stages.attacks import labels, perturbation, scale
from psofed.stages.attacks.contract import Attackers, bind
from psofed.stages.defences import median
from psofed.stages.privacy import Privacy
from psofed.streams import function
from psofed.theory import prediction, reduced, system
from psofed.theory.exact import DenseRecursion

NOISE = perturbation.Options(sigma=0.5, chance=0.5, share=0.4)
LINEAR = Experiment(
    clients=5, cohort=2, rounds=80, runs=400, world=0, dtype="float64", step=0.5,
    stream=function.Options(line, taps=3, inputs="iid"),
    learner=linear.Options(), attack=NOISE,
    methods=(
        onlinefed.Options(),
        psofed.Options(shared=1, scheme="coordinated"),
        psofed.Options(shared=1),
        psofed.Options(shared=2, idle=False),
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def linear_world():
    return prediction.world(LINEAR)


def poisoned(world, attack):
    """The same world with another attack: what is known of its data stays."""
    return replace(world, experiment=replace(world.experiment, attack=attack))


def test_theory_and_simulation_of_malicious_clients_agree_within_three_standard_errors(
    linear_world,
):
    curves = montecarlo.run(LINEAR)
    late = curves.rounds >= 60
    for j, p in enumerate(prediction.predict(linear_world)):
        assert p.kind == "exact"
        error = curves.point(j, "steady").stderr * np.log(10) / 10
        gap = np.log(p.mse[late].mean() / curves.mse[j][late].mean())
        assert abs(gap) < 3 * error, p.title
        score = (p.mse - curves.mse[j])[1:] / curves.stderr[j][1:]
        assert np.sqrt(np.square(score).mean()) < 2.2, p.title  # rounds are correlated


def test_noise_of_size_zero_is_no_attack(linear_world):
    rough = replace(linear_world, fourth=None)
    for world in (linear_world, rough):
        clean = prediction.predict(poisoned(world, None))
        for attack in (replace(NOISE, sigma=0.0), replace(NOISE, chance=0.0)):
            for a, b in zip(clean, prediction.predict(poisoned(world, attack)), strict=True):
                assert np.abs(a.mse - b.mse).max() <= 1e-12


@settings(max_examples=8, deadline=None)
@given(st.floats(0.05, 0.9), st.floats(0.1, 2.0), st.booleans())
def test_more_noise_and_more_of_it_is_worse_in_every_round(linear_world, chance, sigma, whole):
    few = replace(LINEAR, rounds=12, methods=(LINEAR.methods[0 if whole else 2],))
    world = replace(linear_world, experiment=few)
    base = replace(NOISE, chance=chance, sigma=sigma)
    [mse] = [p.mse for p in prediction.predict(poisoned(world, base))]
    for more in (replace(base, chance=chance * 1.1), replace(base, sigma=sigma * 1.1)):
        [worse] = [p.mse for p in prediction.predict(poisoned(world, more))]
        assert (worse[2:] > mse[2:]).all()
    # What the noise adds is proportional to p_a sigma^2.
    [clean] = [p.mse for p in prediction.predict(poisoned(world, None))]
    [half] = [p.mse for p in prediction.predict(poisoned(world, replace(base, chance=chance / 2)))]
    assert np.allclose(mse - clean, 2 * (half - clean), rtol=1e-9, atol=1e-15)


def attacked(system, share=0.5, sigma=0.7, chance=0.3):
    """The system with malicious clients, and who they are."""
    attackers = Attackers(system.total, system.dim, share, Seeds(3))
    options = perturbation.Options(sigma=sigma, chance=chance, share=share)
    return replace(system, attack=bind(options, attackers)), attackers.ids


@pytest.mark.parametrize("masks", [[[0, 2]], [[0, 1], [1, 2], [0, 3], [2, 3]]])
def test_what_noise_adds_is_its_average_over_all_cohorts(masks):
    system, bad = attacked(given_system(masks, 1, 4, clients=4, cohort=3, step=0.5))
    cohorts = list(combinations(range(4), 3))
    for n in range(3):
        d1 = np.broadcast_to(system.masks(n + 1), (4, 4))
        sums = [sum((d1[k] for k in chosen if k in bad), np.zeros(4)) for chosen in cohorts]
        assert np.allclose(system.poison(n), 0.3 * 0.7**2 * np.mean(sums, axis=0) / 3**2)


def test_the_reduced_recursion_with_noise_is_exact_for_equal_clients_with_common_windows(equal):
    _, exact, data = equal
    for masks in ([[1, 4, 6]], [list(range(8))]):
        system, _ = attacked(given_system(masks, 1, 8, clients=4, cohort=2, step=0.75))
        both = zip(
            DenseRecursion(system, exact).trajectory(60),
            reduced.ReducedRecursion(system, data).trajectory(60),
            strict=True,
        )
        for full, pooled in both:
            assert np.abs(full.covariance[:8, :8] - pooled.second.A).max() < 1e-12


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"attack": scale.Options(share=0.5)}, "attack.name is 'scale', but the theory knows"),
        ({"attack": labels.Options(share=0.5)}, "attack.name is 'labels', but the theory knows"),
        ({"defence": median.Options()}, "defence.name is 'median', but the theory is that of a"),
        ({"privacy": Privacy(masks=True)}, "privacy is given, but in the theory uploads are"),
    ],
)
def test_what_the_theory_does_not_know_is_refused_by_name(change, words):
    methods = (psofed.Options(shared=3, scheme="coordinated"),)
    experiment = replace(WORLD, cohort=3, methods=methods, **change)
    with pytest.raises(InputError, match=words):
        prediction.curves(experiment)
    # Nobody is malicious: then it does not matter.
    if "attack" in change:
        prediction.check(replace(experiment, attack=replace(change["attack"], share=0.0)))


def test_a_step_is_unsafe_for_sure_only_where_the_theory_knows_what_happens():
    methods = (psofed.Options(shared=3, scheme="coordinated", step=9.0),)
    plain = replace(WORLD, cohort=3, methods=methods)
    for change, sure in (
        ({"attack": NOISE}, True),
        ({"attack": scale.Options(share=0.5)}, False),
        ({"defence": median.Options()}, False),
    ):
        [alarm] = system.alarms(replace(plain, **change))
        assert alarm.sure is sure


def test_a_linear_f_leaves_no_bias_and_no_number_that_is_none(linear_world):
    long = replace(LINEAR, rounds=600, methods=LINEAR.methods[:1])
    [p] = prediction.predict(replace(linear_world, experiment=long))
    assert (p.bias >= 0).all()
    assert words._bias(p) == "none"

"""The adaptive attacker where no defence limits it."""

import numpy as np
import pytest

from psofed import Experiment
from psofed.stages.attacks.adaptive import Options
from psofed.stages.surroundings import attack_in


@pytest.mark.parametrize("push", ["against", "random", "weak"])
def test_without_a_defence_every_member_has_a_model_of_its_own(push):
    attacked = Experiment(clients=10, attack=Options(push=push, size=0.2))
    attack = attack_in(attacked.attack, attacked.task(0))
    w_k, w = np.arange(600.0).reshape(3, 200) - 300.5, np.ones(200)
    sent = attack.models(0, [0, 1, 2], w_k, np.array([True, False, False]), w)
    assert sent.shape == w_k.shape
    np.testing.assert_allclose(np.sqrt(np.mean((sent - w) ** 2, axis=1)), 0.2)

"""Every attack and every defence obeys every rule of its contract, in every executor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.battery import exchange, prepare, small, stepwise
from psofed import schema
from psofed.attacks import alie, constant, labels, perturbation, scale, stuck
from psofed.checks import of_attacks, of_defences
from psofed.checks.rules import obey
from psofed.compare import attacking
from psofed.errors import InputError
from psofed.methods import local, periodic, psofed, topk
from psofed.privacy.settings import Privacy
from psofed.protocol.deployment import Deploy, Deployment
from psofed.simulate import montecarlo
from psofed.verify import executors

MORE = (perturbation.Options(sigma=2.0, chance=0.5), stuck.Options(begin=7))
DEFENCES = [schema.load("psofed.defences", n).Options() for n in schema.names("psofed.defences")]
UNUSUAL = [
    psofed.Options(3, wire="4 bit"), psofed.Options(4, scheme="coordinated", average=True),
    periodic.Options(local_steps=3, shared=4), topk.Options(3),
]  # fmt: skip


@pytest.mark.parametrize("rule", of_attacks.RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("options", [*attacking.every_attack(), *MORE], ids=lambda o: o.describe())
def test_every_attack_obeys_every_rule(options, rule):
    obey(rule, options)


@pytest.mark.parametrize("rule", of_defences.RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("options", DEFENCES, ids=lambda o: o.describe())
def test_every_defence_obeys_every_rule(options, rule):
    obey(rule, options)


@pytest.mark.parametrize("method", UNUSUAL, ids=lambda o: o.title())
def test_methods_with_other_messages_are_attacked_alike_by_simulated_and_deployed_clients(method):
    for attack in (scale.Options(factor=-2, share=0.4), labels.Options(share=0.4)):
        world = small(method, rounds=20, attack=attack)
        expected = stepwise(world)
        assert not np.array_equal(expected, stepwise(replace(world, attack=None)))
        assert np.abs(exchange(world).models - expected).max() <= 1e-12


def test_clients_that_learn_alone_are_harmed_by_labels_and_by_nothing_else():
    clean = small(local.Options(), rounds=10)
    honest = stepwise(clean)
    for options, same in ((scale.Options(share=0.4), True), (labels.Options(share=0.4), False)):
        attacked = replace(clean, attack=options)
        bad = prepare(attacked)[0].task.attack.insiders.ids
        found = stepwise(attacked)
        assert np.array_equal(found, honest) is same
        kept = np.setdiff1d(np.arange(5), bad)
        assert np.array_equal(found[:, kept], honest[:, kept])


@pytest.mark.parametrize("share", [0.1, 0.25, 0.29, 0.5, 0.9])
def test_the_malicious_are_as_many_as_the_share_says_in_every_run_of_every_size(share):
    world = small(psofed.Options(3), clients=20, attack=scale.Options(share=share))
    for run in range(5):
        ids = prepare(world, run)[0].task.attack.insiders.ids
        assert len(set(ids.tolist())) == round(share * 20)
    shared = replace(world, world=3)
    one, other = (prepare(shared, run)[0].task.attack.insiders.ids for run in (0, 1))
    assert np.array_equal(one, other)  # who they are belongs to the world


def test_an_attack_with_a_share_of_nobody_leaves_the_curves_to_the_bit():
    world = small(psofed.Options(3), runs=3, dtype="float32")
    clean = montecarlo.run(world, 1)
    none = montecarlo.run(replace(world, attack=constant.Options(share=0.0)), 1)
    assert np.array_equal(none.mse, clean.mse)


def test_what_needs_the_models_of_others_is_neither_deployed_nor_verified():
    world = small(psofed.Options(3), attack=alie.Options(share=0.4))
    with pytest.raises(InputError, match=r"attack\.name is 'alie', whose clients know what others"):
        Deployment(world)
    with pytest.raises(InputError, match="know what others send"):
        executors.compare_methods(world, 5)
    Deployment(replace(world, attack=alie.Options(share=0.0)))


def test_under_masks_attacks_are_tried_without_a_defence_and_that_is_said():
    method = psofed.Options(3, "coordinated")
    world = small(method, clients=8, cohort=4, privacy=Privacy(masks=True))
    found = attacking.plan(world, [constant.Options()], [0.4], attacking.usual_defence())
    assert found.defences == (None,)
    assert [what for what, _ in found.left_out] == ["the defence clip"]


def test_both_ends_of_a_deployment_have_to_agree_on_attack_and_defence():
    world = small(psofed.Options(3))
    worlds = [
        world,
        replace(world, attack=scale.Options(share=0.4)),
        replace(world, attack=scale.Options(share=0.2)),
        replace(world, attack=scale.Options(share=0.4, factor=-5)),
        *(replace(world, defence=each) for each in DEFENCES if not each.compares),
    ]
    digests = {Deployment(each, Deploy()).digest for each in worlds}
    assert len(digests) == len(worlds)

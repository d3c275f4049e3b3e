"""Every attack and every defence obeys every rule of its contract, in every executor."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from helpers.battery import exchange, holds, small, stepwise
from psofed.cli.laws import executors, of_stages
from psofed.cli.laws.drivers import compiled
from psofed.compare import attacks as study
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.federation import schema
from psofed.fleet.protocol.deployment import Deployment
from psofed.methods import local, onlinefed, periodic, psofed
from psofed.rivals import pdlms, topk
from psofed.simulate.onerun import one_run, some_runs
from psofed.stages.attacks import constant, ipm, labels, perturbation, scale, stuck
from psofed.stages.attacks.contract import Attackers
from psofed.stages.privacy import Privacy
from psofed.stages.surroundings import attack_in

MORE = (perturbation.Options(sigma=2.0, chance=0.5), stuck.Options(begin=7))
DEFENCES = [schema.load("psofed.defences", n).Options() for n in schema.names("psofed.defences")]
every_attack = pytest.mark.parametrize(
    "options", [*study.every_attack(), *MORE], ids=lambda o: o.describe()
)
UNUSUAL = [
    psofed.Options(3, wire="4 bit"), psofed.Options(4, scheme="coordinated", average=True),
    periodic.Options(local_steps=3, shared=4), topk.Options(3),
]  # fmt: skip


@pytest.mark.parametrize("rule", of_stages.ATTACK, ids=lambda rule: rule.__name__)
@every_attack
def test_every_attack_obeys_every_rule(options, rule):
    holds(rule, options)


@every_attack
def test_a_share_of_nobody_is_clean_and_the_engine_has_the_models_of_the_handlers(options):
    for method in of_stages.METHODS:
        clean = small(method, rounds=20)
        nobody = replace(clean, attack=replace(options, share=0.0))
        assert np.array_equal(stepwise(nobody), stepwise(clean))
        hurt = replace(clean, attack=replace(options, share=0.4))
        if (found := compiled(hurt)) is not None:
            expected = stepwise(hurt)
            size = max(1.0, np.abs(expected).max())
            assert np.abs(found - expected).max() <= 1e-12 * size
    Deployment(nobody)
    if not options.omniscient:
        Deployment(hurt)
        return
    for refused in (Deployment, partial(executors.compare_methods, rounds=5)):
        with pytest.raises(InputError, match=r"whose clients know what others send"):
            refused(hurt)


@pytest.mark.parametrize("options", DEFENCES, ids=lambda o: o.describe())
def test_defended_models_are_the_same_in_every_executor(options):
    world = small(onlinefed.Options(), clients=12, cohort=6, rounds=15, defence=options)
    assert np.abs(exchange(world).models - stepwise(world)).max() <= 1e-12
    for run, found in enumerate(some_runs(world, (0, 1, 2))):
        assert np.abs(found.mse - one_run(world, run).mse).max() <= 1e-12


@pytest.mark.parametrize("rule", of_stages.DEFENCE, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("options", DEFENCES, ids=lambda o: o.describe())
def test_every_defence_obeys_every_rule(options, rule):
    holds(rule, options)


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
        bad = attack_in(options, attacked.task(0)).attackers.ids
        found = stepwise(attacked)
        assert np.array_equal(found, honest) is same
        kept = np.setdiff1d(np.arange(5), bad)
        assert np.array_equal(found[:, kept], honest[:, kept])


def test_an_attack_on_what_a_server_knows_is_refused_where_there_is_none():
    world = small(pdlms.Options(shared=5), attack=ipm.Options(share=0.4))
    with pytest.raises(InputError, match="has no server"):
        stepwise(world)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.29, 0.5, 0.9])
def test_the_malicious_are_as_many_as_the_share_says_in_every_run_of_every_size(share):
    world = small(psofed.Options(3), clients=20, attack=scale.Options(share=share))
    alone = [attack_in(world.attack, world.task(run)).attackers.ids for run in range(5)]
    assert {len(set(ids.tolist())) for ids in alone} == {round(share * 20)}
    many = Attackers(20, world.dim, share, Seeds(world.seed, tuple(range(5))))
    assert np.array_equal(many.ids[:, 0], alone)
    shared = replace(world, world=3)
    one, other = (attack_in(shared.attack, shared.task(run)).attackers.ids for run in (0, 1))
    assert np.array_equal(one, other)  # who they are belongs to the world


def test_under_masks_attacks_are_tried_without_a_defence_and_that_is_said():
    method = psofed.Options(3, "coordinated")
    world = small(method, clients=8, cohort=4, privacy=Privacy(masks=True))
    found = study.plan(world, [constant.Options()], [0.4], study.usual_defence())
    assert found.defences == (None,)
    assert [what for what, _ in found.left_out] == ["the defence clip"]

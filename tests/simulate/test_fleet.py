"""A fleet that changes: the lockstep executor gives what one client after another gives."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.battery import METHODS
from helpers.mistakes import refused
from psofed.cli.laws.drivers import played, prepare, small
from psofed.cli.laws.executors import compare_methods
from psofed.errors import InputError
from psofed.experiment import parse
from psofed.federation.membership import Change
from psofed.methods import fedavg, local, memofed, psofed
from psofed.rivals.policies import importance
from psofed.simulate.any_method import Membership
from psofed.simulate.onerun import one_run
from psofed.stages.checks import outliers
from psofed.stages.defences import clip
from psofed.stages.defences.contract import OWN
from psofed.theory import prediction

# Joins, leaves, returns, and two restores, one with void rounds and one that clients survive.
STORY = (
    Change(4, add=(5, 6)),
    Change(6, exclude=(0,)),
    Change(9, remove=(2,), add=(8,)),
    Change(13, readmit=(0,)),
    Change(17, restore=8, void=15),
    Change(21, restore=19, keep=True),
    Change(23, exclude=(5, 6, 8)),
    Change(26, readmit=(6,), add=(9,)),
)
CHANGING = [o for o in METHODS if not (o.settled or o.simulated)]


def told(experiment):
    """Global models, local ones and bytes before every round, by the lockstep executor."""
    method, draws = prepare(experiment)
    sent, found = np.zeros(3), []
    for moment in played(method, draws):
        sent += moment.traffic
        local = moment.clients.get("w", np.empty(0)).copy()
        found.append((method.models(moment.server, moment.clients).copy(), local, sent.copy()))
    return found


test_a_fleet_that_cannot_be_is_refused_by_name = refused({
    "fleet[0].round is 30, but there are 30 rounds": {"fleet": (Change(30, add=(5,)),)},
    "fleet[0].add has 4; use 5 or more: numbers are never used again": {"fleet": (Change(3, add=(4,)),)},
    "fleet[0].exclude has 7, which is not a member": {"fleet": (Change(3, exclude=(7,)),)},
    "fleet[1].remove has 5, which is not a member": {"fleet": (Change(9, add=(5,)), Change(3, remove=(5,)))},
    "fleet[0] is 'add 5'; use": {"fleet": ("add 5",)},
    "fleet[0].readmit has 1, which is not excluded": {"fleet": (Change(3, readmit=(1,)),)},
    "fleet[0].remove leaves no member": {"fleet": (Change(3, remove=(0, 1, 2, 3, 4)),)},
    "absent is given, but so is [[fleet]]": {"fleet": STORY, "absent": 0.2},
    "methods[0].name is memofed...can neither join nor leave": {"fleet": STORY, "methods": (memofed.Options(size=6),)},
    "methods[0].name is local...can neither join nor leave": {"fleet": STORY, "methods": (local.Options(),)},
    "methods[0].policy is given": {"fleet": STORY, "methods": (psofed.Options(3, policy=importance.Options()),)},
}, lambda changes: small(psofed.Options(3), **changes))  # fmt: skip

test_a_change_that_cannot_be_read_is_refused_by_name = refused({
    "fleet[0].round is -1; use 0 or more": {"round": -1},
    "fleet[0].restore is 6, but that round was not reached; use 0 to 5": {"round": 5, "restore": 6},
    "fleet[0].restore is 4, but that round was not reached; use 0 to 3": {"round": 5, "restore": 4, "void": 3},
    "fleet[0].void is given without restore": {"round": 5, "void": 3},
    "fleet[0].keep is given without restore": {"round": 5, "keep": True},
    "fleet[0].void is 6; use 0 to 5": {"round": 5, "restore": 1, "void": 6},
    "fleet[0].ad is not a known key; did you mean 'add'?": {"round": 5, "ad": [7]},
    "fleet[0].add is 7; use a list": {"round": 5, "add": 7},
    "fleet[0] is 7, a whole number; use a table": 7,
}, lambda change: parse({"fleet": [change]}))  # fmt: skip


def test_the_theory_and_the_messages_refuse_a_fleet_that_changes():
    experiment = small(psofed.Options(3), fleet=STORY)
    for asked in (lambda: prediction.check(experiment), lambda: compare_methods(experiment, 30)):
        with pytest.raises(InputError, match=r"^fleet is given"):
            asked()


@pytest.mark.parametrize("options", CHANGING, ids=lambda o: f"{o.name}-{o.title()}")
def test_before_its_first_change_a_fleet_is_the_same_to_the_bit(options):
    plain = small(options)
    changing = told(replace(plain, fleet=(Change(29, add=(5,)),)))
    for found, expected in zip(changing[:30], told(plain)[:30], strict=True):
        assert np.array_equal(found[0], expected[0])
        assert np.array_equal(found[1][:5], expected[1])
        assert np.array_equal(found[2], expected[2])


def test_methods_of_all_executors_run_side_by_side():
    methods = psofed.Options(3), fedavg.Options(), psofed.Options(4, wire="4 bit")
    together = one_run(small(*methods, fleet=STORY, test_samples=30), 1)
    for j, options in enumerate(methods):
        alone = one_run(small(options, fleet=STORY, test_samples=30), 1)
        assert np.array_equal(together.mse[j], alone.mse[0])
        assert np.array_equal(together.traffic[:, j], alone.traffic[:, 0])


def test_what_a_defence_knows_survives_a_restore_and_those_who_start_over():
    method, _ = prepare(small(psofed.Options(3), fleet=STORY, defence=clip.Options()))
    server = method.server()
    known = {name: array for name, array in server.items() if name.startswith(OWN)}
    for array in known.values():
        array[...] = 1
    membership = Membership(method, method.task.cohorts.history, server)
    for n in range(30):
        membership.turn(n)
    assert len(known) > 5
    assert all((array == 1).all() for array in known.values())


def test_samples_are_counted_from_the_first_contact_on():
    experiment = small(psofed.Options(3), fleet=STORY, check=outliers.Options())
    method, draws = prepare(experiment)
    *_, last = played(method, draws)  # which asserts the law for each client
    counts = last.clients["check counts"].sum(axis=1)
    assert counts[1] < 30  # it started over at the restore
    assert counts[7] == 0  # a number that nobody has

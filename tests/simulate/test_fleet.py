"""A fleet that changes: the lockstep executor gives what one client after another gives."""

import numpy as np
import pytest

from helpers.battery import METHODS
from helpers.fleet_by_hand import ByHand
from psofed.checks.bench import played, prepare, small
from psofed.core.fleet import Change

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
    sent, found = np.zeros(2), []
    for moment in played(method, draws):
        sent += moment.traffic[:2]
        local = moment.clients.get("w", np.empty(0)).copy()
        found.append((method.models(moment.server, moment.clients).copy(), local, sent.copy()))
    return found


@pytest.mark.parametrize("options", CHANGING, ids=lambda o: f"{o.name}-{o.title()}")
def test_a_changing_fleet_is_what_its_clients_do_one_by_one(options):
    experiment = small(options, fleet=STORY)
    lazy = prepare(experiment)[0].lazy
    for (w, local, sent), (w_, local_, sent_) in zip(
        told(experiment), ByHand(experiment).play(), strict=True
    ):
        assert np.abs(w - w_).max() <= 1e-12
        assert lazy or np.abs(local - local_).max(initial=0) <= 1e-12
        assert sent.tolist() == sent_

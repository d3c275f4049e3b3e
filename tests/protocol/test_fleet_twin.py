"""A deployment whose fleet changes equals the simulation of its history."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.battery import METHODS
from helpers.loopback import World, plan
from psofed.cli.laws.executors import simulate
from psofed.errors import InputError
from psofed.fleet.protocol.deployment import Deployment
from psofed.fleet.protocol.history import LOG, changes


class Story(World):
    """A deployment, and what happens to its fleet."""

    def start(self):
        super().start().snapshots.every = 3

    def joined(self, k):
        return self.members.get(k) or self.member(k)

    def some_answer(self, count):
        for k, frame in list(self.server.frames().items())[:count]:
            self.server.take(k, self.joined(k).take(frame)[0])

    def close(self, count=1):
        for _ in range(count):
            self.some_answer(None)
            self.server.commit()

    def put_back(self, keep):
        """To the second snapshot; those that send differences cannot keep their clients."""
        try:
            self.server.put_back(self.server.snapshots.rounds()[1], keep=keep)
        except InputError:
            assert keep
            self.put_back(keep=False)

    def compare(self):
        log = self.disks[-1].read(LOG)
        history = changes(log, self.server.log.count, "")
        twin = Deployment(replace(self.plan.experiment, fleet=tuple(history)), self.plan.deploy)
        w, local = simulate(twin, self.server.n)
        assert np.abs(self.model - w).max(initial=0) <= 1e-12
        table, method = self.table, self.plan.method()
        if method.lazy:
            return  # the simulation brings their clients up to date at contacts only
        for k in table.members(self.server.n).tolist():
            member = self.joined(k).client
            if table.begun[table.row(k)] and "w" in member.state:
                member.catch_up(self.server.n)
                assert np.abs(member.state["w"] - local[k]).max() <= 1e-12


STORY = [  # after so many rounds, and so many answers in the next one
    (4, 0, lambda story: story.server.change("add", [5])),
    (3, 1, lambda story: story.server.change("exclude", [1])),
    (5, 0, lambda story: story.server.change("readmit", [1])),
    (2, 1, lambda story: story.server.change("remove", [2])),
    (3, 0, lambda story: story.start()),
    (4, 1, lambda story: story.put_back(keep=False)),
    (3, 0, lambda story: story.server.change("add", [7])),
    (2, 0, lambda story: story.put_back(keep=True)),
    (2, 1, lambda story: story.server.change("exclude", [0])),
]


@pytest.mark.parametrize("options", METHODS, ids=lambda options: options.describe())
def test_every_method_whose_fleet_can_change_equals_the_simulation(options):
    if options.simulated:
        pytest.skip(f"it cannot be deployed: {options.simulated}")
    made = plan(rounds=60, methods=(options,))
    if made.settled:
        pytest.skip(f"its fleet cannot change: {made.settled}")
    story = Story(given=made)
    for rounds, answers, act in STORY:
        story.close(rounds)
        story.some_answer(answers)
        act(story)
    story.close(4)
    story.compare()

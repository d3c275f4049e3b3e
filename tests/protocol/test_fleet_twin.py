"""A deployment whose fleet changes equals the simulation of its history."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.battery import METHODS
from helpers.loopback import World, plan
from psofed.cli.laws.executors import simulate
from psofed.errors import InputError
from psofed.fleet.protocol.deployment import Deployment
from psofed.fleet.protocol.history import LOG, changes
from psofed.methods import fedavg, psofed

ROUNDS = 30


class Story(World):
    """A deployment, and what happens to its fleet."""

    def start(self):
        super().start().snapshots.every = 3

    def joined(self, k):
        return self.members.get(k) or self.member(k)

    def some_answer(self, count):
        for k, frame in list(self.server.frames().items())[:count]:
            self.server.take(k, self.joined(k).take(frame)[0])

    def close(self):
        self.some_answer(None)
        self.server.commit()

    def happens(self, act, i):
        """Something, if it can: client i of those whom it can concern."""
        table = self.table
        if act == "restart":
            self.start()
        elif act == "restore":
            known = self.server.snapshots.rounds()
            if known and self.server.n + 2 < ROUNDS:
                # Who has answered in the open round keeps what came down, and nobody records that.
                answered = {m.client.last_round for m in self.members.values()}
                keep = i % 2 == 1 and self.server.n not in answered
                self.server.put_back(known[i % len(known)], keep=keep)
        elif act == "add":
            self.server.change("add", [table.next + i % 2])
        else:
            status = 2 if act == "readmit" else 1
            whom = sorted(table.ids[table.status == status].tolist())
            if whom:
                try:
                    self.server.change(act, [whom[i % len(whom)]])
                except InputError as error:
                    assert re.search("is the last member|still open", str(error))  # noqa: PT017

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


def told(made, acts):
    story = Story(given=made)
    for waited, answered, act, i in acts:
        for _ in range(waited):
            if story.server.n + 1 < ROUNDS:
                story.close()
        story.some_answer(answered)
        story.happens(act, i)
    story.close()  # the last change is effective
    while story.server.n < ROUNDS:
        story.close()
    story.compare()


ACTS = "add", "remove", "exclude", "readmit", "restore", "restart"
act = st.tuples(st.integers(0, 5), st.integers(0, 2), st.sampled_from(ACTS), st.integers(0, 9))
acts = st.lists(act, max_size=12)


@pytest.mark.parametrize("options", [psofed.Options(shared=3), fedavg.Options(local_steps=3)])
@given(some=acts)
def test_whatever_happens_to_the_fleet_the_deployment_equals_the_simulation(options, some):
    told(plan(rounds=ROUNDS + 20, methods=(options,)), some)


STORY = [
    (4, 0, "add", 0), (3, 1, "exclude", 1), (5, 0, "readmit", 0), (2, 1, "remove", 2),
    (3, 0, "restart", 0), (4, 1, "restore", 1), (3, 0, "add", 1),
]  # fmt: skip


@pytest.mark.parametrize("options", METHODS, ids=lambda options: options.describe())
def test_every_method_whose_fleet_can_change_equals_the_simulation(options):
    if options.simulated:
        pytest.skip(f"it cannot be deployed: {options.simulated}")
    made = plan(rounds=ROUNDS + 20, methods=(options,))
    if made.settled:
        pytest.skip(f"its fleet cannot change: {made.settled}")
    told(made, STORY)

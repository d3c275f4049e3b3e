"""Rule 19: sums of masked uploads, with those who drop out, and servers that ask for too much."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from masked_sums import masked_world, shared_keys

from helpers.loopback import World, altered, disk
from psofed.cli.client import _private
from psofed.errors import InputError
from psofed.federation.stage import within
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.deployment import Deployment
from psofed.fleet.protocol.masking import ALONE, FEW, GARBAGE, bits
from psofed.fleet.protocol.member import Member
from psofed.simulate import montecarlo
from psofed.stages import mask as masks
from psofed.stages.privacy import Privacy

PLAIN, SELF = 4, 5  # worlds without and with self-masks: cohorts of 5 and 6


both = pytest.mark.parametrize("number", [PLAIN, SELF])


class Table(World):
    """A server and its clients around a table: nothing is lost that is not left out by hand."""

    def __init__(self, number: int, shared: int = 0, clock="lockstep", **privately) -> None:
        made, self.streams = masked_world(number)
        world = made.experiment
        method, privacy = world.methods[0], replace(world.privacy, **privately)
        methods = (replace(method, shared=shared or method.shared),)
        self.keys = shared_keys(world.clients)
        world = replace(world, methods=methods, privacy=privacy)
        super().__init__(given=Deployment(world, replace(made.deploy, clock=clock)))

    def member(self, k: int, keys=None) -> Member:
        files, pairs = self.disks.setdefault(k, disk()), keys or self.keys[k]
        source = None if self.plan.deploy.live else self.streams[k]
        self.members[k] = Member(self.plan, k, files, source, pairs=pairs)
        return self.members[k]

    def ask(self, without=(), frames=None) -> None:
        """Everybody who is asked answers, but for some."""
        for k, frame in (frames or self.server.frames()).items():
            if k not in without and (reply := self.members[k].take(frame)[0]) is not None:
                self.server.take(k, reply)

    def sent(self) -> dict[int, np.ndarray]:
        """The masked words of everybody's answer, which nobody takes."""
        answers = {k: self.members[k].take(f)[0] for k, f in self.server.frames().items()}
        return {k: np.frombuffer(wire.decode(a, 10_000).body, "<u4") for k, a in answers.items()}

    def full(self, value: float) -> bytes:
        """What comes down if all entries have this value."""
        return np.full(within(self.plan.method()).shared, value).astype("<f8").tobytes()

    def close(self):
        """Those who are in the sum tell what is needed."""
        if self.server.seal():
            self.ask()
        return self.server.commit()


def test_too_few_are_no_sum():
    table = Table(PLAIN)
    table.ask(without=table.server.missing[2:])
    before = table.model.copy()
    assert not table.server.seal()
    closed = table.server.commit()
    assert (closed.void, closed.accepted, len(closed.left_out)) == (FEW, 0, 2)
    assert (table.model == before).all()
    table.balanced()


def question(table: Table, present, n: int = 0) -> bytes:
    cohort = sorted(map(int, table.plan.method().task.cohorts.cohort(n)))
    body = bits(cohort, present)
    return wire.encode(wire.Frame(wire.QUESTION, table.plan.digest, n, body=body))


def test_a_client_helps_with_one_sum_of_a_round_only_also_after_a_kill():
    table = Table(PLAIN)
    cohort = table.server.missing
    table.ask()
    k = cohort[0]
    assert table.members[k].take(question(table, cohort[:4]))[1] == "revealed"
    assert table.members[k].take(question(table, cohort[:4]))[1] == "repeated"
    again = table.member(k)
    assert again.take(question(table, cohort[:4]))[1] == "repeated"
    second = "round 0: asked for a second sum, of others"
    assert again.take(question(table, cohort[:3])) == (None, second)


def test_a_client_refuses_what_would_make_sums_easier_to_read():
    table = Table(7)  # 5 of 8 clients
    cohort, frames = table.server.missing, table.server.frames()
    k, outside = cohort[0], next(j for j in range(8) if j not in cohort)
    long = wire.encode(wire.Frame(wire.QUESTION, table.plan.digest, 0, body=b"\xff\xff"))
    for who, frame, why in (
        (outside, frames[k], "by the seed"),
        (k, altered(frames[k], body=table.full(65.0)), "not finite or too large"),
        (k, altered(frames[k], kind=wire.BEGIN), "nobody starts over"),
        (k, frames[k], ""),
        (k, question(table, cohort[:2]), "too few"),
        (k, question(table, cohort[1:]), "without this client"),
        (k, question(table, cohort, n=1), "not of the last one"),
        (k, long, "without this client"),
    ):
        answer, found = table.members[who].take(frame)
        assert why in found
        assert (answer is None) == bool(why)
    table = Table(PLAIN)
    k, frame = next(iter(table.server.frames().items()))
    table.members[k].client.state["w"][:] = 1e4
    for _ in range(2):  # it is asked again
        assert "beyond [privacy] range" in table.members[k].take(frame)[1]
    with pytest.raises(InputError, match="keys of masks are missing"):
        Member(table.plan, 0, disk(), table.streams[0])


@both
def test_a_sum_in_which_one_has_received_another_model_is_not_read(number):
    table = Table(number)
    frames = table.server.frames()
    victim = min(frames)
    # Its own step is then the largest.
    frames[victim] = altered(frames[victim], body=table.full(60.0))
    table.ask(frames=frames)
    assert table.server.server.answers.keys() == frames.keys()
    assert table.close().void == GARBAGE


def test_a_client_that_has_lost_its_last_record_sends_nothing_more_under_its_masks():
    table = Table(PLAIN)
    k = table.server.missing[0]
    table.members[k].save()
    table.ask()
    newest = table.members[k].store.slots[table.members[k].store.sequence % 2]
    table.disks[k].write(newest, b"torn")
    with pytest.raises(InputError, match="under the masks of then would show"):
        table.member(k)


@pytest.mark.parametrize("self_masks", [False, True])
def test_all_that_a_large_cohort_tells_fits_into_a_frame(self_masks):
    plan, _ = masked_world(PLAIN)
    privacy = Privacy(masks=True, self_masks=self_masks)
    world = replace(plan.experiment, clients=1000, cohort=1000, privacy=privacy)
    plan = Deployment(world, plan.deploy)
    everybody = range(1000)
    for present in (everybody, range(3)):
        told = sum(1 for _ in masks.wanted(0, everybody, present, privacy))
        assert wire.size(wire.SEEDS, 1000 // 8 + masks.SEED * told) <= plan.largest


@both
def test_seeds_that_were_told_for_another_sum_before_a_kill_are_refused(number):
    table = Table(number)
    cohort = table.server.missing
    table.ask(without=cohort[:1])
    table.server.seal()
    stale = table.members[cohort[2]].take(table.server.frames()[cohort[2]])[0]
    table.start()
    table.ask(without=cohort[1:2])
    table.server.seal()
    assert table.server.take(cohort[2], stale) == "late"
    table.ask()
    assert table.server.missing == [cohort[2]]  # it has helped with another sum
    assert table.server.commit().void == ALONE


def test_operator_and_device_are_told_whether_sums_are_closed(capsys):
    table = Table(PLAIN)
    _private(table.members[0])
    told = "a sum of 1 number over 3 clients is closed: 6 unknowns a round"
    assert f"Masks: {told}" in capsys.readouterr().err
    assert table.plan.defence.endswith(told)


@pytest.mark.parametrize("shared", [2, 5])  # who learns at once, and who waits for a download
def test_who_has_learned_nothing_new_is_in_no_sum(shared):
    """Or a sum that seems to be over a cohort would be over one sample, and read."""
    table = Table(PLAIN, shared, clock="live")
    cohort = table.server.missing

    def measured(*who, count=1):
        for k in who:
            table.members[k].client.learn(*table.streams[k](0, count))

    measured(*cohort)  # which the check does not learn from yet
    table.ask()
    assert table.close().missing == tuple(cohort)
    measured(*cohort, count=20)
    table.ask()
    assert table.close().accepted == 5
    measured(cohort[0])
    table.ask()
    frame, idle = table.server.frames()[cohort[1]], table.members[cohort[1]]
    for again in (idle, idle, table.member(cohort[1])):
        assert "no sample was learned" in again.take(frame)[1]
    measured(cohort[1])
    table.ask()  # once more
    assert table.server.missing == cohort[2:]
    assert table.close().void == FEW
    measured(*cohort[:4])
    table.members[cohort[0]].save()
    table.member(cohort[0])  # only what still waits is surely new
    table.ask()
    assert table.close().accepted == (4 if shared == 5 else 3)


@pytest.mark.parametrize("act", [lambda s: s.change("remove", [0]), lambda s: s.put_back(0),
                                 lambda s: s.warm(np.zeros(9))])  # fmt: skip
def test_a_masked_fleet_is_settled(act):
    with pytest.raises(InputError, match="follows from the seed alone"):
        act(Table(PLAIN).server)


@both
def test_a_simulation_counts_the_bytes_that_go_up_besides_heads(number):
    table = Table(number)
    table.ask()
    closed = table.close()
    heads = wire.head(wire.UPLOAD) + (number == SELF) * wire.head(wire.SEEDS)
    found = montecarlo.run(replace(table.plan.experiment, runs=1))
    assert found.uplink[0, 1] == closed.up - closed.asked * heads


# What docs/privacy.md admits.


def near(table: Table, found, clients) -> bool:
    """Whether words are the sum of what these clients would have sent without masks."""
    method = table.plan.method()
    states = [(k, table.members[k].client.state) for k in clients]
    plain = [method.upload(state, np.array([k]), 0).values[0] for k, state in states]
    return bool((masks.added(np.array(plain)) == found).all())


@pytest.mark.parametrize("others", [2, 1])
def test_a_server_that_lies_needs_one_less_than_least_of_the_members_to_read_another(others):
    table = Table(SELF)
    cohort, privacy = table.server.missing, table.plan.world.privacy
    sent = table.sent()
    victim, bad = cohort[0], cohort[1 : 1 + others]
    small = [victim, *cohort[1:3]]
    told = table.members[victim].take(question(table, small))[0]
    seeds = wire.decode(told, 10_000).body[1:]  # after the bits of the sum
    found = sent[victim]
    for at, (kind, i, j) in enumerate(masks.wanted(victim, cohort, small, privacy)):
        mask = masks.stream(seeds[masks.SEED * at : masks.SEED * (at + 1)], len(found))
        if i == victim:
            found = found - (masks.signed(mask, i, j) if kind == "pair" else mask)
    for k in bad:
        masking = table.members[k].client.masking
        pair = masks.stream(masking.pairs.pair(victim, 0, masking.down), len(found))
        found = found - masks.signed(pair, victim, k)
        found = found - masks.stream(masking.pairs.by_self(victim, victim, 0), len(found))
    assert near(table, found, [victim]) == (others == 2)


def test_a_server_that_lies_learns_two_sums_of_a_cohort_that_has_twice_as_many_as_least():
    table = Table(SELF)
    cohort, privacy = table.server.missing, table.plan.world.privacy
    sent = table.sent()
    for half in (cohort[:3], cohort[3:]):
        asked = {k: table.members[k].take(question(table, half))[0] for k in half}
        told = {k: wire.decode(answer, 10_000).body[1:] for k, answer in asked.items()}
        left = masks.left_over(told, cohort, half, len(sent[half[0]]), privacy)
        found = masks.added(np.array([sent[k] for k in half])) - left
        assert near(table, found, half)


def test_by_default_a_sum_has_more_than_half_of_a_cohort_so_that_there_are_no_two():
    table = Table(SELF, least=None)
    cohort = table.server.missing
    table.sent()
    for half in (cohort[:3], cohort[3:]):
        assert all("too few" in table.members[k].take(question(table, half))[1] for k in half)
    assert table.members[cohort[0]].take(question(table, cohort[:4]))[1] == "revealed"


@pytest.mark.parametrize(("clip", "stands_out"), [(None, True), (0.5, False)])
def test_a_model_that_was_spoilt_in_void_rounds_shows_in_a_fair_one_unless_errors_are_clipped(
    clip, stands_out
):
    table = Table(PLAIN, shared=5, clip_error=clip)
    spoilt = (20.0 * (-1.0) ** np.arange(5)).astype("<f8").tobytes()
    victim, *others = table.server.missing
    for n in range(6):
        frames = table.server.frames()
        if n < 5:
            frames[victim] = altered(frames[victim], body=spoilt)
        before = table.model.copy()
        table.ask(frames=frames)
        assert (table.close().void == "") == (n == 5)
    method = table.plan.method()
    fresh = np.intersect1d(
        *(method.entries(np.array([victim]), np.array([5]), up) for up in (0, 1))
    )
    local = {k: table.members[k].client.state["w"][0] for k in frames}
    steps = {k: np.abs(local[k] - before)[fresh].max() for k in frames}
    assert (steps[victim] > 10 * max(steps[k] for k in others)) == stands_out

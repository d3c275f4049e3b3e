"""Clipped and noisy uploads: the drivers agree, and one sample is told of once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from masked_sums import shared_keys

from helpers.battery import network
from helpers.virtual_disk import Chance, VirtualDisk
from psofed import Change, Experiment, FedAvg, InputError, OnlineFed, Privacy, PSOFed
from psofed.cli.laws.drivers import exchange, prepare, samples, simulate, small
from psofed.experiment import Features
from psofed.federation.clients import stacked
from psofed.federation.contract import whole
from psofed.federation.learners import nlms
from psofed.federation.round import closes
from psofed.fleet.protocol.client import Client
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.member import Member
from psofed.fleet.samples import replay
from psofed.methods import memofed
from psofed.rivals import etpsofed, fedprox
from psofed.rivals.policies import importance
from psofed.simulate import any_method
from psofed.simulate.onerun import some_runs
from psofed.stages.checks import outliers
from psofed.stages.noise import PUBLIC, SPENT, noise_in

SAMPLE, CLIENT = Privacy(epsilon=4.0), Privacy(epsilon=4.0, level="client", uploads=5)
METHODS = (
    PSOFed(1, "coordinated"), PSOFed(3), PSOFed(10), PSOFed(3, average=True), FedAvg(3),
    OnlineFed(),
)  # fmt: skip
ONE = np.zeros(1, np.intp)  # client 0, as a stack
SETTINGS = (SAMPLE, CLIENT, Privacy(clip_error=0.3), Privacy(clip_change=0.2))


@pytest.mark.parametrize("options", METHODS, ids=lambda o: o.title())
@pytest.mark.parametrize("privacy", SETTINGS, ids=lambda p: str(p.to_table()))
def test_all_drivers_agree(options, privacy):
    experiment = small(options, privacy=privacy)
    np.testing.assert_allclose(simulate(experiment), exchange(experiment).models, atol=1e-12)


def test_runs_with_steps_of_their_own_have_the_noise_of_theirs():
    steps = [PSOFed(3, step=mu) for mu in (0.1, 0.4)]
    both = some_runs(small(*steps, privacy=SAMPLE), [0, 1])
    for j, options in enumerate(steps):
        alone = some_runs(small(options, privacy=SAMPLE), [0, 1])
        for one, found in zip(alone, both, strict=True):
            np.testing.assert_array_equal(found.mse[j], one.mse[0])


@pytest.mark.parametrize("options", [PSOFed(3, "coordinated"), FedAvg(2)], ids=lambda o: o.name)
def test_members_that_change_agree_too_and_what_was_spent_stays_spent(options):
    fleet = (Change(8, exclude=(0, 1)), Change(12, readmit=(0, 1)))
    privacy = replace(CLIENT, uploads=1000)
    experiment = small(options, privacy=privacy, fleet=fleet)
    method, draws = prepare(experiment)
    last = list(any_method.play(method, any_method.RunSamples(draws)))[-1]
    ends = [n for n in range(30) if closes(method, n)]
    uploads = sum(k in method.cohort(n, {}) for n in ends for k in (0, 1))
    assert last.clients[SPENT][:2].sum() == uploads > 0


def test_a_client_whose_budget_is_spent_sends_what_is_known_and_learns_on():
    method, draws = prepare(small(PSOFed(3), privacy=CLIENT, clients=2, cohort=2))
    x, y = samples(draws)
    client, server = Client(method, 0), method.server()
    for n in range(8):
        client.learn(x[0, n : n + 1], y[0, n : n + 1])
        before = client.state[PUBLIC][0].copy()
        down = method.encode(method.download(server, ONE, n).row(0), up=False)
        answer = method.decode(client.take_part(n, down), up=True)
        known = client.state[PUBLIC][0][method.entries(ONE, n, up=True)[0]]
        np.testing.assert_array_equal(answer, known)
        told = not np.isin(known, [*before, *server["w"]]).all()
        assert told == (n < 5)
    assert client.state[SPENT] == 5
    assert not np.array_equal(client.state["w"], client.state[PUBLIC])


def test_who_has_spent_its_budget_still_adds_its_share_to_a_masked_sum():
    masks = Privacy(True, self_masks=True, epsilon=4.0, level="client", uploads=1)
    world = {"clients": 4, "cohort": 4, "privacy": masks}
    method, _ = prepare(small(OnlineFed(), **world))
    client, sent = stacked(method.client(), 1), []
    for n in range(3):
        client["w"] += 5.0  # far more than what an upload may change
        up = method.upload(client, ONE, n).row(0)
        sent.append(method.decode(method.encode(up, up=True), up=True))
    assert client[SPENT] == 1
    assert len({tuple(each) for each in sent}) == 3, "noise is new each time"
    values = [np.where(v < 2**31, v, v - 2.0**32) / method.scale for v in sent]
    assert max(np.abs(v).max() for v in values) < 6 * noise_in(method).sigma + masks.change


def test_a_deployed_client_has_noise_that_does_not_follow_from_its_file():
    plan = Deployment(small(PSOFed(3), privacy=SAMPLE), Deploy(wire="float64"))
    answers = []
    for method in (plan.method(), plan.method(), plan.device(), plan.device()):
        client = Client(method, 0, lambda start, stop: (np.ones((stop - start, 4)), np.ones(1)))
        down = method.encode(method.download(method.server(), ONE, 0).row(0), up=False)
        answers.append(client.take_part(0, down))
        assert client.take_part(0, down) == answers[-1]  # asked again, it repeats
    assert answers[0] == answers[1]
    assert len(set(answers)) == 3


def test_a_sample_that_is_not_finite_moves_nothing_and_a_model_that_is_not_is_not_released():
    method, _ = prepare(small(PSOFed(3), privacy=SAMPLE))
    client = stacked(method.client(), 1)
    for x, y in ((np.ones(4), np.nan), (np.full(4, np.inf), 1.0), (np.ones(4), np.inf)):
        with np.errstate(invalid="ignore"):
            method.learn(client, x[None], method.task.features(x[None]), np.array([y]))
    np.testing.assert_array_equal(client["w"], 0)
    method, _ = prepare(small(PSOFed(3), privacy=CLIENT))
    for far in (np.nan, np.inf, 1e300):
        client = stacked(method.client(), 1)
        client["w"][:] = far
        sent = method.upload(client, ONE, 0).values
        assert np.abs(sent).max() < 6 * noise_in(method).sigma + CLIENT.change


def _same_upload(method, here, there, n, random):
    """Both upload the same values; how far the noise of the two is apart is what was told."""
    window = method.entries(ONE, n, up=True)
    noise = random.normal(size=window.shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(method, "_drawn", lambda k, n, shape: noise)
        ours = method.upload(here, ONE, n).values
        public = np.take_along_axis(there[PUBLIC], window, axis=-1)
        moved = np.take_along_axis(there["w"], window, axis=-1) - public
        needed = ours - public - method._clipped(moved)
        patch.setattr(method, "_drawn", lambda k, n, shape: needed)
        np.testing.assert_allclose(method.upload(there, ONE, n).values, ours, atol=1e-12)
    return noise - needed


@given(
    st.integers(0, 10**6), st.sampled_from([1, 2, 5, 10]), st.booleans(), st.floats(0.05, 1.0),
    st.sampled_from([None, 0.2]), st.integers(0, 14),
)  # fmt: skip
def test_all_uploads_together_release_of_one_sample_what_one_could(
    seed, shared, coordinated, step, change, lost
):
    """Two clients with the same public values, of whom one lacks a sample: sum |told|^2 <= c^2."""
    scheme = "coordinated" if coordinated else "uncoordinated"
    privacy = Privacy(epsilon=1.0, clip_error=0.5, clip_change=change)
    experiment = small(PSOFed(shared, scheme), privacy=privacy, step=step)
    method, _ = prepare(experiment)
    method.again = True  # also where the next download would overwrite it
    random = np.random.default_rng(seed)
    here, there = (stacked(method.client(), 1) for _ in range(2))
    told = 0.0
    for n in range(15):
        entries = method.entries(ONE, n, up=False)
        if random.random() < 0.5:
            values = whole(random.normal(size=entries.shape))
            for client in (here, there):
                method.receive(client, ONE, n, values)
        x, y = random.normal(size=4) * random.choice([0.1, 1.0, 10.0]), random.normal() * 3
        for client in (here, there)[: 1 + (n != lost)]:
            method.learn(client, x[None], method.task.features(x[None]), np.array([y]))
        if random.random() < 0.7:
            told += np.square(_same_upload(method, here, there, n, random)).sum()
    c = step * 0.5 * np.sqrt(2)
    assert noise_in(method).sensitivity == pytest.approx(c)
    assert told <= c**2 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("options", "changes", "field"),
    [
        (memofed.Options(), {}, "methods[0].name"),
        (etpsofed.Options(3), {}, "methods[0].name"),
        (fedprox.Options(), {}, "methods[0].name"),
        (PSOFed(3, wire="4 bit"), {}, "methods[0].wire"),
        (PSOFed(3, policy=importance.Options()), {}, "methods[0].policy"),
        (PSOFed(3, step=1.2), {}, "methods[0].step"),
        (PSOFed(3), {"learner": nlms.Options()}, "methods[0].learner"),
        (PSOFed(3), {"features": Features(dim=10, basis="whitened")}, "methods[0].features"),
        (PSOFed(3), {"features": Features("gaussian", dim=10)}, "methods[0].features"),
        (PSOFed(3), {"check": outliers.Options()}, "check"),
    ],
)
def test_what_has_no_proof_is_refused(options, changes, field):
    with pytest.raises(InputError) as caught:
        small(options, privacy=SAMPLE, **changes)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("options", "changes"),
    [(fedprox.Options(), {}), (PSOFed(3, learner=network.Options()), {}),
     (PSOFed(3), {"check": outliers.Options()}), (PSOFed(3, step=1.2), {})],
)  # fmt: skip
def test_a_client_can_be_hidden_with_any_learner(options, changes):
    assert simulate(small(options, privacy=CLIENT, **changes)).size


def test_a_table_that_only_clips_has_no_noise_and_none_that_is_off_changes_a_bit():
    plain = small(PSOFed(3))
    np.testing.assert_array_equal(simulate(plain), simulate(replace(plain, privacy=Privacy())))
    loose = replace(plain, privacy=Privacy(clip_change=1e6, clip_error=1e6))
    np.testing.assert_allclose(simulate(loose), simulate(plain), atol=1e-12)
    assert loose.noises == [None]


def test_what_is_learned_is_sent_up_to_its_limit_in_length_not_in_each_entry():
    method, _ = prepare(small(PSOFed(3), privacy=Privacy(clip_change=0.2)))
    client = stacked(method.client(), 1)
    client["w"] += 1.0
    np.testing.assert_allclose(method.upload(client, ONE, 0).values, 0.2 / np.sqrt(3))


def test_noise_under_masks_is_shared_where_nobody_could_read_an_upload_alone():
    """Downloads overwrite everything, and self-masks keep a curious server from single uploads."""
    world = Experiment(methods=(OnlineFed(), PSOFed(5, "coordinated")))
    plain, masked, both = (
        replace(world, privacy=Privacy(epsilon=4.0, **how)).noises
        for how in ({}, {"masks": True}, {"masks": True, "self_masks": True})
    )
    assert [noise.shares for noise in (*masked, *both)] == [1, 1, 3, 1]
    assert masked[0].sigma == plain[0].sigma
    assert both[1].sigma == pytest.approx(both[0].sigma * np.sqrt(3))


def test_a_masked_deployment_has_the_noise_of_its_devices():
    """Of which the simulation knows the size alone: the model differs by what was drawn."""
    privacy = Privacy(masks=True, least=3, epsilon=4.0)
    experiment = small(OnlineFed(), privacy=privacy, clients=4, cohort=4, rounds=4, step=0.001)
    plan, keys = Deployment(experiment, Deploy(wire="float64")), shared_keys(4)
    disks = [VirtualDisk(str(k), Chance(0, k)) for k in range(5)]
    server = Coordinator(plan, disks[4])
    members = [Member(plan, k, disks[k], replay(experiment, k), pairs=keys[k]) for k in range(4)]
    for k, frame in server.frames().items():
        server.take(k, members[k].take(frame)[0])
    assert server.commit().void == ""
    sigma = members[0].noise.sigma / np.sqrt(4)  # of a mean of four
    assert 0.3 * sigma < server.server.model.std() < 3 * sigma
    assert not np.array_equal(server.server.model, simulate(experiment)[1])

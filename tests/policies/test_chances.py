"""The draws of each policy: its probabilities, its weights on average, its deadline."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed.core.seeds import Seeds
from psofed.federation import schema
from psofed.federation.policy import Federation
from psofed.rivals.policies import fedcs, importance, optimal

DRAWS = 4_000  # a mean that is off by 0.07 standard deviations of one draw is noticed


def of(options, clients=9, cohort=4, seed=3):
    federation = Federation(clients, cohort, 800, Seeds(seed))
    return schema.load("psofed.policies", options.name).Policy(options, federation)


Q = np.array([9.0, 0.1, 1.0, 1.0, 3.0, 0.01, 2.0, 0.5, 1.5])


@pytest.mark.parametrize("beta", [0.3, 0.95])
def test_systematic_sampling_includes_each_client_with_its_probability(beta):
    policy = of(importance.Options(beta=beta))
    pi = policy.chances(Q)
    assert pi.sum() == pytest.approx(4, abs=1e-12)
    assert (pi.max() == 1) == (beta == 0.95)  # in one of the cases it is clipped
    counts = np.zeros(9)
    for n in range(DRAWS):
        members = policy.invite({"q": Q}, n, 0, 0).members
        assert members == sorted(set(members))
        assert len(members) == 4
        counts[members] += 1
    free = pi < 1
    assert (counts[~free] == DRAWS).all()
    score = (counts - DRAWS * pi)[free] / np.sqrt(DRAWS * pi * (1 - pi))[free]
    assert np.abs(score).max() < 4.5


UPDATES = np.array([3.0, -1.0, 0.2, 5.0, -2.0, 0.7, 0.0, 4.0, 1.0])


@pytest.mark.parametrize(
    "options",
    [importance.Options(), importance.Options(beta=0.95), optimal.Options(asked=5, uploads=2),
     optimal.Options(asked=9, uploads=3)],
    ids=lambda o: o.describe(),
)  # fmt: skip
def test_on_average_the_weighted_updates_are_the_mean_of_all(options):
    policy, sums = of(options), []
    for n in range(DRAWS):
        state = {"q": Q.copy()}
        members = policy.invite(state, n, 0, 0).members
        scores = {k: abs(UPDATES[k]) for k in members}
        weights = policy.admit(state, n, scores).weights
        assert list(weights) == sorted(weights)
        sums.append(sum(a * UPDATES[k] for k, a in weights.items()))
    error = np.std(sums, ddof=1) / np.sqrt(DRAWS)
    assert abs(np.mean(sums) - UPDATES.mean()) < 4 * error


def test_scores_are_remembered_after_the_weights_are_given():
    policy = of(importance.Options())
    state = {"q": Q.copy()}
    pi = policy.chances(Q)
    weights = policy.admit(state, 0, {1: 2.0, 4: float("nan")}).weights
    assert weights == {1: 1 / (9 * pi[1]), 4: 1 / (9 * pi[4])}
    assert state["q"][1] == pytest.approx(0.9 * 0.1 + 0.1 * 2.0)
    assert np.isfinite(state["q"]).all()
    assert max(1 / (9 * policy.chances(q)).min() for q in (Q, state["q"])) <= 2 / 4 + 1e-12


@given(st.lists(st.floats(0, 1e6) | st.just(0.0), min_size=1, max_size=20), st.data())
def test_chances_are_probabilities_that_sum_to_the_uploads(u, data):
    uploads = data.draw(st.integers(1, len(u)))
    p = optimal.chances(np.array(u), uploads)
    assert (p >= 0).all()
    assert (p <= 1).all()
    assert p.sum() == pytest.approx(uploads, rel=1e-9)
    order = np.argsort(u, kind="stable")
    assert (np.diff(p[order]) >= -1e-12).all()


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20), st.data())
def test_clipped_probabilities_keep_their_sum_and_order(p, data):
    size = data.draw(st.integers(1, len(p)))
    pi = importance.clipped(np.array(p) / np.sum(p), size)
    assert (pi > 0).all()
    assert (pi <= 1).all()
    assert pi.sum() == pytest.approx(size, rel=1e-9)
    assert (np.diff(pi[np.argsort(p)]) >= -1e-12).all()


def test_the_usual_deadline_fits_online_fed_with_the_usual_cohort():
    policy = of(fedcs.Options(), clients=100)
    online = [len(policy.invite({}, n, 800, 800).members) for n in range(400)]
    assert abs(np.mean(online) - 4) < 0.5
    assert len(policy.invite({}, 0, 800, 800).members) <= 10
    short = [len(policy.invite({}, n, 160, 160).members) for n in range(400)]
    assert np.mean(short) > 1.5 * np.mean(online)
    assert 1e3 <= policy.rate.min() < policy.rate.max() <= 1e5
    assert 1e-3 <= policy.time.min() < policy.time.max() <= 2e-2


def test_clients_are_packed_by_the_time_they_add():
    upload, time, download = np.array([2.0, 1.0, 5.0]), np.array([0.0, 4.0, 0.0]), np.zeros(3)
    assert fedcs.pack(upload, time, download, 100.0) == [0, 1, 2]  # 2, then 1 + 4 - 2 = 3, then 5
    assert fedcs.pack(upload, time, download, 5.1) == [0, 1]
    assert fedcs.pack(upload, time, download, 5.0) == [0]  # strictly before the deadline
    slow = np.array([0.0, 97.0, 0.0])
    assert fedcs.pack(upload, 0 * time, slow, 1e3) == [0, 2, 1]  # 1 adds 97 to the distribution
    assert fedcs.pack(upload, time, slow, 100.0) == [0, 2]

"""Policies: what they reduce to, that their weights are right on average, and what they cost."""

import tomllib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed import compare, named
from psofed import experiment as experiments
from psofed.core.seeds import Seeds
from psofed.deploy.server import Server
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.methods import (
    centralised,
    cmfl,
    etpsofed,
    fedavg,
    onlinefed,
    psofed,
    quantised,
    raw,
    sketch,
    topk,
)
from psofed.policies import fedcs, importance, optimal
from psofed.policies.contract import Admitted, Federation
from psofed.report import tables
from psofed.simulate import lockstep, onerun, selecting
from psofed.streams.contract import Samples
from test_methods import METHODS, prepare, small, stepwise

POLICIES = [
    importance.Options(),
    importance.Options(beta=0.9),
    optimal.Options(asked=4, uploads=2),
    fedcs.Options(share=0.8),
    fedcs.Options(share=1.0, deadline=0.05),
]
UNIFORM = [  # policies that select nobody in particular, and the cohort that they then choose
    (importance.Options(beta=0.0), 2),
    (optimal.Options(asked=4, uploads=4), 4),
    (fedcs.Options(share=0.6, deadline=float("inf")), 3),
]


def fits(options, policy):
    """Whether the method accepts the policy."""
    try:
        small(replace(options, policy=policy))
    except InputError:
        return False
    return True


SERVERS = [options for options in METHODS if fits(options, POLICIES[0])]
PAIRS = [(o, p) for o in SERVERS for p in POLICIES if fits(o, p)]
every_server = pytest.mark.parametrize("options", SERVERS, ids=lambda o: f"{o.name}-{o.title()}")
every_pair = pytest.mark.parametrize(
    ("options", "policy"), PAIRS, ids=lambda o: f"{o.name}-{o.describe()}"
)


def moments(options, **changes):
    method, draws = prepare(small(options, **changes))
    yield from lockstep.play(draws, method, lockstep.Samples(draws))


def test_every_method_with_a_server_that_asks_the_cohort_takes_a_policy():
    own = {"asofed", "centralised", "local", "memofed", "paofed", "pdlms", "pdrls"}
    assert {o.name for o in SERVERS} == set(named.names("psofed.methods")) - own
    refused = [(o, p) for o in SERVERS for p in POLICIES if not fits(o, p)]
    assert {o.name for o, _ in refused} == {"raw", "quantised"}
    assert {p.name for _, p in refused} == {"optimal"}


@every_server
def test_a_fold_is_linear_in_the_weights_and_leaves_the_model_where_they_are_zero(options):
    method, draws = prepare(small(options))
    moved = False
    for n, moment in enumerate(lockstep.play(draws, method, lockstep.Samples(draws))):
        if not method.ends(n):
            continue
        cohort = method.cohort(n, moment.server).tolist()
        uploads = {}
        for k in cohort:
            member = {name: array[k, ...].copy() for name, array in moment.clients.items()}
            uploads[k] = method.upload(member, k, n)
        change = []
        for scale in (0.0, 1.0, 2.0):
            server = {name: array.copy() for name, array in moment.server.items()}
            weights = {k: scale * (0.3 + i) for i, k in enumerate(cohort)}
            method.fold(server, n, uploads, weights)
            change.append(server["w"] - moment.server["w"])
        assert not change[0].any()
        assert np.abs(change[2] - 2 * change[1]).max() <= 1e-12
        moved = moved or change[1].any()
    assert moved


@every_server
@pytest.mark.parametrize(("policy", "size"), UNIFORM, ids=lambda p: getattr(p, "name", p))
def test_a_policy_that_prefers_nobody_is_the_uniform_cohort(options, policy, size):
    if not fits(options, policy):
        return
    for run in range(2):
        selected = stepwise(small(replace(options, policy=policy)), run)
        uniform = stepwise(small(options, cohort=size), run)
        assert np.abs(selected).max() > 0
        assert np.abs(selected - uniform).max() <= 1e-12


@every_pair
def test_a_selection_is_reproducible_and_nothing_else_changes_it(options, policy):
    options = replace(options, policy=policy)
    first = stepwise(small(options))
    assert np.array_equal(first, stepwise(small(options)))
    assert not np.array_equal(first, stepwise(small(options, seed=1)))
    assert np.isfinite(first).all()


@every_pair
def test_zero_targets_leave_zero_models_under_a_policy(options, policy):
    method, draws = prepare(small(replace(options, policy=policy)))

    def silent(*where):
        drawn = draws.source(*where)
        return Samples(drawn.x, 0 * drawn.clean, 0 * drawn.noise, drawn.memory)

    quiet = replace(draws, source=silent)
    for moment in lockstep.play(quiet, method, lockstep.Samples(quiet)):
        assert not moment.server["w"].any()


@every_server
def test_where_nobody_uploads_the_model_stays(options):
    late = fedcs.Options(share=0.6, deadline=1e-6)  # nobody is invited
    policies = [late] + [p for p in POLICIES if p.name == "optimal" and fits(options, p)]
    for policy in policies:
        method, draws = prepare(small(replace(options, policy=policy)))
        method.policy.admit = lambda state, n, scores: Admitted({})
        for moment in lockstep.play(draws, method, lockstep.Samples(draws)):
            assert not moment.server["w"].any()


class Watched:
    """A policy that writes down what it is asked and what it answers."""

    def __init__(self, policy):
        self.policy, self.options = policy, policy.options
        self.start, self.invited, self.admitted = policy.start, {}, {}

    def invite(self, state, n, *sizes):
        self.invited[n] = self.policy.invite(state, n, *sizes)
        return self.invited[n]

    def admit(self, state, n, scores):
        self.admitted[n] = self.policy.admit(state, n, scores)
        return self.admitted[n]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.describe())
@pytest.mark.parametrize("steps", [1, 3])
def test_bytes_are_those_of_the_messages_and_of_what_the_policy_asks(policy, steps):
    method, draws = prepare(small(fedavg.Options(local_steps=steps, policy=policy)))
    method.policy = watched = Watched(method.policy)
    play = lockstep.play(draws, method, lockstep.Samples(draws))
    sent = [moment.traffic for moment in play][1:]
    asked = {"importance": (0, 0), "optimal": (0, 0), "fedcs": (8, 1)}[policy.name]
    told = {"importance": (0, 0), "optimal": (4, 4), "fedcs": (0, 0)}[policy.name]
    uploads = 0
    for n, (up, down, multicast) in enumerate(sent):
        expected = [0, 0, 0]
        if n % steps == 0:
            members = watched.invited[n].members
            many = method.policy.policy.asked if policy.name == "fedcs" else len(members)
            whole = 80 * len(members)  # D = 10, float64 on this wire
            expected = [asked[0] * many, whole + asked[1] * many]
            expected += [80 * bool(members) + asked[1] * many]
        if (n + 1) % steps == 0:
            many, let = len(members), len(watched.admitted[n].weights)
            uploads += let
            more = [80 * let + told[0] * many, told[1] * many, told[1] * many]
            expected = [a + b for a, b in zip(expected, more, strict=True)]
        assert [up, down, multicast] == expected
    assert uploads > 0
    assert sorted(watched.invited) == list(range(0, 30, steps))


def test_members_stay_for_a_block_and_score_what_they_learned_in_it():
    method, draws = prepare(
        small(fedavg.Options(local_steps=3, policy=optimal.Options(asked=3, uploads=2)))
    )
    method.policy = watched = Watched(method.policy)
    heard, admit = {}, watched.admit

    def listening(state, n, scores):
        heard[n] = dict(scores)
        return admit(state, n, scores)

    watched.admit = listening
    play = lockstep.play(draws, method, lockstep.Samples(draws))
    before = None
    for n, moment in enumerate(play):
        if n % 3 == 0 and n:
            ends = {k: np.linalg.norm(moment.clients["w"][k] - before) for k in heard[n - 1]}
            assert heard[n - 1] == pytest.approx(ends, rel=1e-12)
            assert list(heard[n - 1]) == watched.invited[n - 3].members
        if n % 3 == 0:
            before = moment.server["w"].copy()


def test_the_servers_score_of_a_model_is_its_distance():
    method, _ = prepare(small(onlinefed.Options(policy=importance.Options())))
    server = method.server()
    server["w"] += 0.5
    other = np.arange(10.0)
    score = selecting.change(method, server, 3, 1, other)
    assert score == pytest.approx(np.linalg.norm(other - 0.5), rel=1e-12)
    assert (server["w"] == 0.5).all()


DRAWS = 10_000


def of(options, clients=9, cohort=4, seed=3):
    federation = Federation(clients, cohort, 800, Seeds(seed))
    return named.load("psofed.policies", options.name).Policy(options, federation)


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
    assert fedcs.pack(upload, time, slow, 100.0) == [0, 2]


def test_a_deadline_that_nobody_meets_leaves_the_model():
    policy = fedcs.Options(share=0.6, deadline=1e-6)
    for options in (onlinefed.Options(policy=policy), sketch.Options(policy=policy)):
        for n, moment in enumerate(moments(options)):
            assert not moment.server["w"].any()
            assert moment.traffic == ((24, 3, 3) if n else (0, 0, 0))


def test_a_silent_client_is_expected_to_speak():
    """ETPSO-Fed at rest says nothing, but a deadline has to reckon with its window."""
    for options, up in [
        (etpsofed.Options(shared=3), 24),
        (psofed.Options(shared=3), 24),
        (topk.Options(kept=2), 16 + 1),
        (raw.Options(), 40),
    ]:
        method, _ = prepare(small(options))
        assert selecting.rehearse(method, lockstep.Sizes(method))[0] == up


@pytest.mark.parametrize("policy", POLICIES[:3], ids=lambda p: p.describe())
def test_a_method_that_diverges_does_so_under_a_policy_as_well(policy):
    for options in (onlinefed.Options(step=40.0), psofed.Options(shared=3, step=40.0)):
        run = onerun.one_run(small(replace(options, policy=policy), rounds=200, dtype="float32"), 0)
        assert not run.mse[0, -1] < 1e6


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.describe())
def test_a_policy_survives_toml_and_shows_in_the_title(policy):
    one = small(psofed.Options(shared=3, policy=policy), psofed.Options(shared=3))
    assert experiments.parse(tomllib.loads(one.to_toml())) == one
    assert one.methods[0].title() == f"PSO-Fed M=3 uncoordinated, {policy.describe()}"
    assert replace(one.methods[0], label="mine").title() == "mine"
    with_policy, without = one.start(one.task(0))
    assert not psofed.is_pure(with_policy)
    assert psofed.is_pure(without)


def test_a_policy_is_read_from_its_own_table(tmp_path):
    path = tmp_path / "some.toml"
    path.write_text(
        '[[methods]]\nname = "fedavg"\n[methods.policy]\nname = "fedcs"\ndeadline = inf\n'
        '[[methods]]\nname = "fedavg"\n[methods.policy]\nname = "optimal"\nasked = 20\n'
    )
    first, second = (options.policy for options in experiments.read(path).methods)
    assert first == fedcs.Options(deadline=float("inf"))
    assert second == optimal.Options(asked=20)


HEAD = "[[methods]]\nname = 'psofed'\n[methods.policy]\n"
WRONG = {
    HEAD: "methods[0].policy.name is missing; use one of fedcs, importance, optimal",
    HEAD + "name = 'importanc'": "methods[0].policy.name is 'importanc', which does not exist; did you mean 'importance'?",
    HEAD + "name = 'importance'\nbeta = 1": "methods[0].policy.beta is 1.0; use 0 or more, below 1",
    HEAD + "name = 'importance'\nbeta = 'a'": "methods[0].policy.beta is 'a', a text; use a number",
    HEAD + "name = 'importance'\nbta = 1": "methods[0].policy.bta is not a known key; did you mean 'beta'?",
    HEAD + "name = 'optimal'\nasked = 101": "methods[0].policy.asked is 101, but there are only 100 clients; use 1 to 100",
    HEAD + "name = 'optimal'\nasked = 0": "methods[0].policy.asked is 0; use 1 to 100",
    HEAD + "name = 'optimal'\nuploads = 17": "methods[0].policy.uploads is 17, but 16 are asked; use 1 to 16",
    HEAD + "name = 'fedcs'\nshare = 0": "methods[0].policy.share is 0.0; use a number above 0, at most 1",
    HEAD + "name = 'fedcs'\ndeadline = nan": "methods[0].policy.deadline is nan; use a number of seconds",
    HEAD + "name = 'fedcs'\nrates = [5, 1]": "methods[0].policy.rates is [5.0, 1.0]; use the smallest and",
    HEAD + "name = 'fedcs'\ncomputing = [-1, 1]": "methods[0].policy.computing is [-1.0, 1.0]; use the smallest and",
    "[[methods]]\nname = 'psofed'\npolicy = 3": "methods[0].policy is 3, a whole number; use a table",
    "[[methods]]\nname = 'local'\n[methods.policy]\nname = 'fedcs'": "methods[0].policy is given, but local itself decides who takes part",
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_in_a_policy_is_named(text, tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        experiments.read(path)
    assert str(error.value).startswith(f"{path}: {WRONG[text]}")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (psofed.Options(policy="importance"), "methods[0].policy is 'importance'; use the Options"),
        (psofed.Options(policy=importance.Options(beta="x")), "methods[0].policy.beta is 'x'"),
        (centralised.Options(policy=importance.Options()), "methods[0].policy is given"),
        (raw.Options(policy=optimal.Options()), "methods[0].policy is optimal, but clients that"),
        (
            quantised.Options(reference="last", policy=optimal.Options()),
            "methods[0].policy is optimal, but who downloads",
        ),
        (cmfl.Options("literal", policy=importance.Options()), "methods[0].policy is given, but"),
    ],
)
def test_a_policy_that_a_method_cannot_have_is_refused(options, says):
    with pytest.raises(InputError) as error:
        Experiment(methods=(options,))
    assert str(error.value).startswith(says)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.describe())
def test_a_deployed_server_refuses_policies(policy):
    method, _ = prepare(small(psofed.Options(shared=3, policy=policy)))
    says = "clients could choose" if policy.name == "optimal" else "have no place for"
    with pytest.raises(InputError, match=says):
        Server(method)


def test_bytes_of_a_comparison_are_counted_among_all_clients():
    experiment = small(onlinefed.Options(), clients=20)
    chosen = onlinefed.Options(policy=optimal.Options(asked=16, uploads=16))
    share = compare.cost(experiment, chosen).share
    assert share == pytest.approx(16 * (2 * 40 + 8) / (2 * 2 * 40))


def test_online_fed_under_a_policy_is_not_what_others_are_compared_with():
    chosen, plain = onlinefed.Options(policy=importance.Options()), onlinefed.Options()
    curves = SimpleNamespace(experiment=Experiment(methods=(chosen, psofed.Options(), plain)))
    assert tables.baseline(curves) == 2

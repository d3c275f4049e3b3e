"""Policies: what they reduce to under every method, their draws, what they cost, mistakes in them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.battery import METHODS, POLICIES, fits, holds, prepare, small, stepwise
from helpers.mistakes import refused_in_files
from psofed.cli.laws import of_stages
from psofed.compare import budget
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.federation import schema
from psofed.federation.policy import Admitted, PolicyTask
from psofed.federation.round import Sizes, rehearse
from psofed.federation.stage import around
from psofed.fleet.protocol.server import Server
from psofed.methods import fedavg, onlinefed, psofed
from psofed.rivals import etpsofed, raw, topk
from psofed.rivals.policies import fedcs, importance, optimal
from psofed.simulate import any_method, family
from psofed.stages.selection import Selected

UNIFORM = [  # policies that select nobody in particular, and the cohort that they then choose
    (importance.Options(beta=0.0), 2),
    (optimal.Options(asked=4, uploads=4), 4),
    (fedcs.Options(share=0.6, deadline=float("inf")), 3),
]


SERVERS = [options for options in METHODS if fits(options, POLICIES[0])]
FIRST = {options.name: options for options in reversed(SERVERS)}  # one setting of each method
every_server = pytest.mark.parametrize(
    "options",
    [pytest.param(o, marks=[] if o is FIRST[o.name] else [pytest.mark.thorough]) for o in SERVERS],
    ids=lambda o: f"{o.name}-{o.title()}",
)


def test_every_method_with_a_server_that_asks_the_cohort_takes_a_policy():
    own = {"asofed", "centralised", "local", "memofed", "paofed", "pdlms", "pdrls"}
    assert {o.name for o in SERVERS} == set(schema.names("psofed.methods")) - own
    refused = [(o, p) for o in SERVERS for p in POLICIES if not fits(o, p)]
    assert all(o.differs or o.name == "raw" for o, _ in refused)
    assert {p.name for _, p in refused} == {"optimal"}


@every_server
@pytest.mark.parametrize(("policy", "size"), UNIFORM, ids=lambda p: getattr(p, "name", p))
def test_a_policy_that_prefers_nobody_is_the_uniform_cohort(options, policy, size):
    if not fits(options, policy):
        pytest.skip("the method does not take it")
    for run in range(2):
        selected = stepwise(small(replace(options, policy=policy), rounds=20), run)
        uniform = stepwise(small(options, rounds=20, cohort=size), run)
        assert np.abs(selected).max() > 0
        assert np.abs(selected - uniform).max() <= 1e-12


@every_server
def test_where_nobody_is_invited_or_admitted_the_model_stays(options):
    late = fedcs.Options(share=0.6, deadline=1e-6)
    for policy in (late, optimal.Options(asked=4, uploads=2)):
        if not fits(options, policy):
            continue
        method, draws = prepare(small(replace(options, policy=policy)))
        (bound,) = (stage.policy for stage in around(method) if isinstance(stage, Selected))
        asks = policy.scores == "client"  # else all have uploaded, and each has a weight
        bound.admit = lambda state, n, scores, asks=asks: Admitted(
            {} if asks else dict.fromkeys(scores, 0.0)
        )
        for n, moment in enumerate(any_method.play(method, any_method.RunSamples(draws))):
            assert not moment.server["w"].any()
            if policy is late:  # three are asked, and answer
                asked = n > 0 and (n - 1) % method.pace == 0
                assert moment.traffic == ((24, 3, 3) if asked else (0, 0, 0))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.describe())
@pytest.mark.parametrize("rule", of_stages.POLICY, ids=lambda rule: rule.__name__)
def test_every_policy_obeys_its_rules(policy, rule):
    holds(rule, policy)


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
    play = any_method.play(method, any_method.RunSamples(draws))
    sent = [moment.traffic for moment in play][1:]
    asked = {"fedcs": (8, 1)}.get(policy.name, (0, 0))
    told = {"optimal": (4, 4)}.get(policy.name, (0, 0))
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


def test_a_silent_client_is_expected_to_speak():
    """ETPSO-Fed at rest says nothing, but a deadline has to reckon with its window."""
    for options, up in [
        (etpsofed.Options(shared=3), 24),
        (psofed.Options(shared=3), 24),
        (topk.Options(kept=2), 16 + 1),
        (raw.Options(), 40),
    ]:
        method, _ = prepare(small(options))
        assert Sizes(method).of(rehearse(method)[0], up=True) == up


def test_bytes_of_a_comparison_are_counted_among_all_clients():
    experiment = small(onlinefed.Options(), clients=20)
    chosen = onlinefed.Options(policy=optimal.Options(asked=16, uploads=16))
    share = budget.cost(experiment, chosen).share
    assert share == pytest.approx(16 * (2 * 40 + 8) / (2 * 2 * 40))


def test_online_fed_under_a_policy_is_not_what_others_are_compared_with():
    chosen, plain = onlinefed.Options(policy=importance.Options()), onlinefed.Options()
    assert Experiment(methods=(chosen, psofed.Options(), plain)).baseline == 2


DRAWS = 4_000  # a mean that is off by 0.07 standard deviations of one draw is noticed


def of(options, clients=9, cohort=4, seed=3):
    federation = PolicyTask(clients, cohort, 800, Seeds(seed))
    return schema.load("psofed.policies", options.name).Policy(options, federation)


Q = np.array([9.0, 0.1, 1.0, 1.0, 3.0, 0.01, 2.0, 0.5, 1.5])


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


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.describe())
def test_a_policy_shows_in_the_title_and_is_not_compiled(policy):
    one = small(psofed.Options(shared=3, policy=policy), psofed.Options(shared=3))
    assert one.methods[0].title() == f"PSO-Fed M=3 uncoordinated, {policy.describe()}"
    assert replace(one.methods[0], label="mine").title() == "mine"
    with_policy, without = one.start(one.task(0))
    assert not family.supports(with_policy)
    assert family.supports(without)


HEAD = "[[methods]]\nname = 'psofed'\n[methods.policy]\n"

test_a_mistake_in_a_policy_is_named = refused_in_files({
    HEAD: "methods[0].policy.name is missing; use one of fedcs, folb, importance, optimal",
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
})  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.describe())
def test_a_deployed_server_refuses_policies(policy):
    method, _ = prepare(small(psofed.Options(shared=3, policy=policy)))
    says = "clients could choose" if policy.name == "optimal" else "has no messages"
    with pytest.raises(InputError, match=says):
        Server(method)

"""Policies: what they reduce to under every method, and what they cost."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from helpers.battery import METHODS, POLICIES, fits, holds, prepare, small, stepwise
from psofed.cli.laws import of_stages
from psofed.compare import budget
from psofed.experiment import Experiment
from psofed.federation import schema
from psofed.federation.contract import whole
from psofed.federation.policy import Admitted
from psofed.federation.round import Sizes, rehearse
from psofed.federation.stage import around
from psofed.methods import fedavg, onlinefed, psofed
from psofed.report import runs
from psofed.rivals import etpsofed, raw, sketch, topk
from psofed.rivals.policies import fedcs, importance, optimal
from psofed.simulate import any_method, onerun
from psofed.stages.defences.contract import change
from psofed.stages.selection import Selected

UNIFORM = [  # policies that select nobody in particular, and the cohort that they then choose
    (importance.Options(beta=0.0), 2),
    (optimal.Options(asked=4, uploads=4), 4),
    (fedcs.Options(share=0.6, deadline=float("inf")), 3),
]


SERVERS = [options for options in METHODS if fits(options, POLICIES[0])]

FIRST = {options.name: options for options in reversed(SERVERS)}  # one setting of each method


def usual(options, *more):
    """A case that is always tried for one setting of a method, else with `pytest --thorough`."""
    thorough = [] if options is FIRST[options.name] else [pytest.mark.thorough]
    return pytest.param(options, *more, marks=thorough)


every_server = pytest.mark.parametrize(
    "options", [usual(o) for o in SERVERS], ids=lambda o: f"{o.name}-{o.title()}"
)


def moments(options, **changes):
    method, draws = prepare(small(options, **changes))
    yield from any_method.play(method, any_method.RunSamples(draws))


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
        for moment in any_method.play(method, any_method.RunSamples(draws)):
            assert not moment.server["w"].any()


def test_the_policies_that_are_skipped_are_as_many_as_they_were():
    uniform = [o for o in SERVERS for policy, _ in UNIFORM if not fits(o, policy)]
    assert len(uniform) == 13


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
    play = any_method.play(method, any_method.RunSamples(draws))
    before = None
    for n, moment in enumerate(play):
        if n % 3 == 0 and n:
            ends = {k: np.linalg.norm(moment.clients["w"][k] - before) for k in heard[n - 1]}
            assert heard[n - 1] == pytest.approx(ends, rel=1e-12)
            assert list(heard[n - 1]) == watched.invited[n - 3].members
        if n % 3 == 0:
            before = moment.server["w"].copy()


def test_the_server_scores_a_model_by_its_difference():
    method, _ = prepare(small(onlinefed.Options(policy=importance.Options())))
    server = method.server()
    server["w"] += 0.5
    other = np.arange(10.0)
    moved = change(method.inner, server, np.array([3]), 1, whole(other[None]), 0)
    assert moved == pytest.approx(other - 0.5, rel=1e-12)
    assert (server["w"] == 0.5).all()


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
        assert Sizes(method).of(rehearse(method)[0], up=True) == up


@pytest.mark.parametrize("policy", [*POLICIES[:3], POLICIES[-1]], ids=lambda p: p.describe())
def test_a_method_that_diverges_does_so_under_a_policy_as_well(policy):
    for options in (onlinefed.Options(step=40.0), psofed.Options(shared=3, step=40.0)):
        run = onerun.one_run(small(replace(options, policy=policy), rounds=200, dtype="float32"), 0)
        assert not run.mse[0, -1] < 1e6


def test_bytes_of_a_comparison_are_counted_among_all_clients():
    experiment = small(onlinefed.Options(), clients=20)
    chosen = onlinefed.Options(policy=optimal.Options(asked=16, uploads=16))
    share = budget.cost(experiment, chosen).share
    assert share == pytest.approx(16 * (2 * 40 + 8) / (2 * 2 * 40))


def test_online_fed_under_a_policy_is_not_what_others_are_compared_with():
    chosen, plain = onlinefed.Options(policy=importance.Options()), onlinefed.Options()
    curves = SimpleNamespace(experiment=Experiment(methods=(chosen, psofed.Options(), plain)))
    assert runs.baseline(curves) == 2

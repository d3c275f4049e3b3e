"""Advice has one voice: what it recommends, what it says and what it lists never disagree."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from psofed.methods import local, onlinefed, psofed
from psofed.tables import advice, choices, fitting
from psofed.tables.choices import Choice, Evidence, Gain, Limits

CLIENT_GAINS = (
    ("a", Gain(0.2, 0.1, 0.3)),
    ("b", Gain(-0.2, -0.3, -0.1)),
    ("c", Gain(0.0, -0.1, 0.1)),
)
FIXED = (
    ("Local only", "alone", local.Options(), 0.0),
    ("Persistence", "persistence", None, 0.0),
    (choices.LINEAR_ALONE, "linear alone", None, 0.0),
    (fitting.LINEAR, "linear", None, 50.0),
    ("Centralised, batch", "raw", None, 60.0),
    ("Online-Fed", "kernel", onlinefed.Options(), 800.0),
)  # fmt: skip


@st.composite
def tables(draw):
    """Candidates with random errors and costs; some break a limit."""
    levels = st.sampled_from([0.1, 0.104, 0.11, 0.2, 0.3, 0.9, float("inf")])
    windows = range(1, 1 + draw(st.integers(0, 5)))
    some = [(f"PSO-Fed M={m}", "kernel", psofed.Options(m), float(4 * m)) for m in windows]
    rows = [*FIXED, *some]
    found = []
    for title, kind, options, cost in rows:
        chosen, error = draw(levels), draw(levels)
        why_not = draw(st.sampled_from(["", "", "message of 800 B"])) if cost else ""
        sent = (cost, cost / 4, int(cost), 8)
        found.append(Choice(title, kind, options, chosen, error, error, error, *sent,
                            draw(st.sampled_from(["global", "own"])), why_not))  # fmt: skip
    return draw(st.permutations(found))


LIMITS = st.builds(
    Limits, target_error=st.sampled_from([None, None, 0.05, 0.15, 0.5]),
    within=st.sampled_from([0.001, 0.05, 0.5]),
)  # fmt: skip
GAINS = st.tuples(*[st.floats(-2, 0.99)] * 3).map(
    lambda v: Gain(*(sorted(v)[i] for i in (1, 0, 2)))
)


def told(found, limits, gain):
    chosen = choices.best(found, limits)
    other = None if chosen is None else choices.rival(found, chosen)
    evidence = None
    if other is not None:
        pair = (chosen, other) if chosen.federated else (other, chosen)
        evidence = Evidence(*pair, gain, CLIENT_GAINS)
    held = choices.expressible(found, chosen, limits)
    return chosen, held, evidence, advice._words(found, chosen, limits, evidence, held)


def says_better(title, line):
    """Whether the line names this one; "Linear, Online-Fed was better" does not name Online-Fed."""
    return any(f"{before}{title} was better" in line for before in ("last rounds ", "; "))


@given(tables(), LIMITS, GAINS)
def test_the_words_never_contradict_the_recommendation_or_the_table(found, limits, gain):
    chosen, held, evidence, words = told(found, limits, gain)
    usable = [c for c in found if c.kind != "raw" and not c.why_not and c.chosen < float("inf")]
    if chosen is None:
        assert not usable
        assert words[0].startswith("Nothing is recommended")
        return
    assert chosen in usable
    best = min(c.chosen for c in usable)
    if limits.target_error is None:
        assert chosen.chosen <= best * (1 + limits.within)
    else:
        assert chosen.chosen <= limits.target_error or chosen.chosen == best
    assert not [c for c in usable if c.bytes < chosen.bytes and c.chosen < chosen.chosen]
    assert words[0].startswith("Federate" if chosen.federated else "Do not federate")
    assert chosen.title in words[0] or advice.LOCAL[chosen.kind] in words[0]
    assert not any("ederate" in line for line in words[1:])
    better = [c for c in usable if c.bytes <= chosen.bytes and c.error < chosen.error]
    named = [c for c in usable if any(says_better(c.title, line) for line in words)]
    assert bool(named) >= bool(better)
    assert all(c.error < chosen.error for c in named)
    if evidence is None:
        assert chosen.federated or "No shared model fits" in words[1]
    else:
        says = "lower" if gain.low > 0 else "raise" if gain.high < 0 else "cannot be told whether"
        assert says in words[1]
        assert "1 gains, 1 loses, 1 cannot be told" in words[1]
        if chosen.federated:
            assert ("with doubt" in words[0]) == (not gain.low > 0)
        else:
            assert ("with doubt" in words[0]) == any(c.federated for c in named)
    assert held is chosen or "A plan cannot hold" in words[-1]


@given(tables(), LIMITS, GAINS)
def test_what_a_plan_holds_is_as_federated_as_the_recommendation_where_that_fits(
    found, limits, gain
):
    chosen, held, _, _ = told(found, limits, gain)
    assume(chosen is not None)
    alike = [
        c for c in found if c.usable and c.options is not None and c.federated == chosen.federated
    ]
    if alike:
        assert held.usable
        assert held.options is not None
        assert held.federated == chosen.federated


def candidate(title, kind, options, chosen, error, cost):
    return Choice(title, kind, options, chosen, error, error, error, cost, 1.0, int(cost), 8)


TABLE = [
    candidate("Online-Fed", "kernel", onlinefed.Options(), 0.10, 0.10, 800.0),
    candidate("PSO-Fed M=5", "kernel", psofed.Options(5), 0.14, 0.107, 20.0),
    candidate("PSO-Fed M=10", "kernel", psofed.Options(10), 0.078, 0.078, 40.0),
    candidate("Local only", "alone", local.Options(), 0.091, 0.091, 0.0),
    candidate(fitting.LINEAR, "linear", None, 0.3, 0.3, 50.0),
    candidate("Persistence", "persistence", None, 0.9, 0.9, 0.0),
    candidate(choices.LINEAR_ALONE, "linear alone", None, 0.4, 0.4, 0.0),
    candidate("Centralised, batch", "raw", None, 0.07, 0.07, 30.0),
]  # fmt: skip


def test_the_ruler_is_the_best_of_all_and_not_full_sharing():
    chosen, _, _, words = told(TABLE, Limits(), Gain(0.14, 0.09, 0.18))
    assert chosen.title == "PSO-Fed M=10"  # Online-Fed's 0.10 would let learning alone pass
    assert words[0].startswith("Federate: use PSO-Fed M=10: 0.078 of the variance, 40 bytes")
    assert words[1] == (
        "Sharing lowers the error against learning alone (0.091) by 14 % (95 %: 9.0 to 18 %);"
        " of 3 clients 1 gains, 1 loses, 1 cannot be told."
    )
    [raw] = [line for line in words if line.startswith("If raw samples may be sent: Centralised")]
    assert raw.endswith("Models tell about samples too: docs/privacy.md.")


@pytest.mark.parametrize(
    ("better", "headline", "plan"),
    [
        ("Local only", "Do not federate: learning alone reaches 0.050", ""),
        ("Persistence", "Do not federate: repeating the last known label reaches 0.050", "Local only"),
        (choices.LINEAR_ALONE, "Do not federate: a linear model, which each device learns alone, reaches 0.050", "Local only"),
        (fitting.LINEAR, "Federate: a linear model is enough: use Linear", "PSO-Fed M=10"),
    ],
)  # fmt: skip
def test_what_is_no_kernel_method_is_recommended_when_it_is_best(better, headline, plan):
    found = [replace(c, chosen=0.05, error=0.05) if c.title == better else c for c in TABLE]
    gain = Gain(0.4, 0.3, 0.5) if better == fitting.LINEAR else Gain(-0.3, -0.4, -0.2)
    chosen, held, _, words = told(found, Limits(), gain)
    assert chosen.title == better
    assert words[0].startswith(headline)
    assert held.title == (plan or better)
    assert (f"plan.toml has the nearest that `psofed fit` can run, {plan}" in words[-1]) == bool(
        plan
    )


def test_a_target_error_takes_the_cheapest_that_reaches_it():
    chosen, *_ = told(TABLE, Limits(target_error=0.15), Gain(0.1, 0.05, 0.2))
    assert chosen.title == "Local only"
    chosen, _, _, words = told(TABLE, Limits(target_error=0.08), Gain(0.1, 0.05, 0.2))
    assert chosen.title == "PSO-Fed M=10"
    chosen, _, _, words = told(TABLE, Limits(target_error=0.01), Gain(0.1, 0.05, 0.2))
    assert chosen.title == "PSO-Fed M=10"
    assert any("none reaches 0.01" in line for line in words)

"""Advice has one voice: what it recommends, what it says and what it lists never disagree."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed.errors import InputError
from psofed.methods import local, onlinefed, psofed
from psofed.report.advice import ALONE, words
from psofed.streams.data.columns import Columns
from psofed.tables import advice as advising
from psofed.tables.advice import LINKS, Advice, Choice, Evidence, Limits
from psofed.tables.gains import Gain
from psofed.tables.plan import Plan

INFINITE = float("inf")
CLIENT_GAINS = (
    ("a", Gain(0.2, 0.1, 0.3)),
    ("b", Gain(-0.2, -0.3, -0.1)),
    ("c", Gain(0.0, -0.1, 0.1)),
)
FIXED = (
    ("Local only", "alone", local.Options(), 0.0),
    ("Centralised, batch", "raw", None, 60.0),
    ("Online-Fed", "kernel", onlinefed.Options(), 800.0),
)
LIMITS = st.builds(
    Limits, target_error=st.sampled_from([None, None, 0.05, 0.15, 0.5]),
    within=st.sampled_from([0.001, 0.05, 0.5]),
)  # fmt: skip
GAINS = st.tuples(*[st.floats(-2, 0.99)] * 3).map(
    lambda v: Gain(*(sorted(v)[i] for i in (1, 0, 2)))
)


@st.composite
def tables(draw):
    """Candidates with random errors and costs; some break a limit."""
    levels = st.sampled_from([0.1, 0.104, 0.11, 0.2, 0.3, 0.9, INFINITE])
    windows = range(1, 1 + draw(st.integers(0, 5)))
    some = [(f"PSO-Fed M={m}", "kernel", psofed.Options(m), float(4 * m)) for m in windows]
    found = []
    for title, kind, options, cost in [*FIXED, *some]:
        why_not = draw(st.sampled_from(["", "", "message of 800 B"])) if cost else ""
        made = candidate(title, kind, options, draw(levels), draw(levels), cost)
        found.append(replace(made, why_not=why_not))
    return draw(st.permutations(found))


def candidate(title, kind, options, chosen, error, cost):
    return Choice(title, kind, options, chosen, error, cost, cost / 4, int(cost), 8)


def told(found, limits, gain):
    chosen = advising.best(found, limits)
    other = None if chosen is None else advising.rival(found, chosen)
    evidence = None
    if other is not None:
        pair = (chosen, other) if chosen.federated else (other, chosen)
        evidence = Evidence(*pair, gain, CLIENT_GAINS)
    plan = Plan(Columns("y", ("t",)))
    made = Advice(plan, found, chosen, evidence, 9, limits, [], None)
    return chosen, evidence, words(made)


@given(tables(), LIMITS, GAINS)
def test_the_words_never_contradict_the_recommendation_or_the_table(found, limits, gain):
    chosen, evidence, lines = told(found, limits, gain)
    usable = [c for c in found if c.kind != "raw" and not c.why_not and c.chosen < INFINITE]
    if chosen is None:
        assert not usable
        assert lines[0].startswith("Nothing is recommended")
        return
    assert chosen in usable
    best = min(c.chosen for c in usable)
    if limits.target_error is None:
        assert chosen.chosen <= best * (1 + limits.within)
    else:
        assert chosen.chosen <= limits.target_error or chosen.chosen == best
    assert not [c for c in usable if c.bytes < chosen.bytes and c.chosen < chosen.chosen]
    assert lines[0].startswith("Federate" if chosen.federated else "Do not federate")
    assert (chosen.title if chosen.federated else ALONE) in lines[0]
    assert not any("ederate" in line for line in lines[1:])
    better = [c for c in usable if c.bytes <= chosen.bytes and c.error < chosen.error]
    named = [c for c in usable if any(f"last rounds {c.title} was better" in li for li in lines)]
    assert bool(named) >= bool(better)
    assert all(c.error < chosen.error for c in named)
    if evidence is None:
        assert chosen.federated or "No shared model fits" in lines[1]
    else:
        says = "lower" if gain.low > 0 else "raise" if gain.high < 0 else "may lower or raise"
        assert says in lines[1]
        assert "by client: 1 cannot be told, 1 gains, 1 loses" in lines[1]
        doubt = not gain.low > 0 if chosen.federated else any(c.federated for c in named)
        assert ("with doubt" in lines[0]) == doubt
    assert chosen.options is not None, "a plan can hold it"


TABLE = [
    candidate("Online-Fed", "kernel", onlinefed.Options(), 0.10, 0.10, 800.0),
    candidate("PSO-Fed M=5", "kernel", psofed.Options(5), 0.14, 0.107, 20.0),
    candidate("PSO-Fed M=10", "kernel", psofed.Options(10), 0.078, 0.078, 40.0),
    candidate("Local only", "alone", local.Options(), 0.091, 0.091, 0.0),
    candidate("Centralised, batch", "raw", None, 0.07, 0.07, 30.0),
]


def test_the_ruler_is_the_best_of_all_and_not_full_sharing():
    chosen, _, lines = told(TABLE, Limits(), Gain(0.14, 0.09, 0.18))
    assert chosen.title == "PSO-Fed M=10"  # Online-Fed's 0.10 would let learning alone pass
    assert lines[0].startswith("Federate: use PSO-Fed M=10: 0.078 of the variance, 40 bytes")
    assert lines[1] == (
        "Sharing lowers the error, PSO-Fed M=10 against what each device has alone (0.091): by 14 %"
        " (95 %: 9.0 to 18 %); by client: 1 cannot be told, 1 gains, 1 loses."
    )


def test_not_to_share_is_recommended_when_it_is_as_good():
    found = [replace(c, chosen=0.05, error=0.05) if c.kind == "alone" else c for c in TABLE]
    chosen, _, lines = told(found, Limits(), Gain(-0.3, -0.4, -0.2))
    assert chosen.title == "Local only"
    assert lines[0].startswith("Do not federate: what each device has alone reaches 0.050 of the")
    assert lines[1].startswith("Sharing would raise the error, PSO-Fed M=10 against")


@pytest.mark.parametrize(
    ("wanted", "title"), [(0.15, "Local only"), (0.08, "PSO-Fed M=10"), (0.01, "PSO-Fed M=10")]
)
def test_a_target_error_takes_the_cheapest_that_reaches_it(wanted, title):
    chosen, _, lines = told(TABLE, Limits(target_error=wanted), Gain(0.1, 0.05, 0.2))
    assert chosen.title == title
    assert ("The wanted error of 0.01 is not reached." in lines) == (wanted == 0.01)


def test_the_limits_of_a_link_are_those_of_its_standard_or_stricter():
    assert [LINKS[f"lorawan-dr{i}"][0] for i in range(6)] == [51, 51, 51, 115, 222, 222]
    # 1 % of a day on air and as many answers, each of 51 + 13 bytes at SF12: Semtech AN1200.13.
    symbols = 8 + 4.25 + 8 + 5 * -(-(8 * 64 - 4 * 12 + 28 + 16) // (4 * (12 - 2)))
    assert LINKS["lorawan-dr0"][1] == 2 * 0.01 * 86400 // (symbols * 2**12 / 125e3)
    assert Limits(payload=40).of_link("lorawan-dr0").payload == 40
    with pytest.raises(InputError, match="did you mean 'lorawan-dr"):
        Limits().of_link("lorawan-dr")

"""What is drawn: random numbers, which entries travel, and who takes part, in a fleet that changes."""

from math import gcd

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed.core.schedule import PresentCohorts, Rotating, Sequential, UniformCohorts, is_even
from psofed.core.seeds import Seeds, subsets
from psofed.errors import InputError
from psofed.federation.membership import Change, FleetCohorts, FleetHistory
from psofed.methods.psofed import Options


@st.composite
def windows(draw):
    dim = draw(st.integers(2, 24))
    return dim, draw(st.integers(1, dim)), draw(st.integers(-30, 30)), draw(st.booleans())


@given(windows(), st.integers(0, 50), st.booleans())
def test_the_closed_form_is_the_circular_shift(window, n, coordinated):
    dim, shared, shift, block = window
    schedule = Sequential(Seeds(3), dim, shared, shift, coordinated, block)
    diagonal = np.zeros(dim)
    diagonal[schedule.entries(np.array([4]), 0)] = 1
    for _ in range(n):
        diagonal = np.roll(diagonal, shift)
    assert sorted(schedule.entries(np.array([4]), n)[0]) == np.flatnonzero(diagonal).tolist()


@given(windows(), st.booleans())
def test_each_entry_travels_m_times_in_d_rounds_where_coverage_holds(window, coordinated):
    dim, shared, shift, block = window
    schedule = Sequential(Seeds(1), dim, shared, shift, coordinated, block)
    counts = np.zeros(dim, int)
    for n in range(dim):
        counts[schedule.entries(np.array([2]), n)] += 1
    g = gcd(shift, dim)  # entry i travels g |{s in S_0 : s = i mod g}| times
    alike = np.bincount(schedule.entries(np.array([2]), 0)[0] % g, minlength=g)
    assert counts.tolist() == (g * alike[np.arange(dim) % g]).tolist()
    if is_even(dim, shared, shift, block):
        assert (counts == shared).all()


@given(windows())
def test_an_uneven_schedule_is_refused_and_can_be_forced(window):
    dim, shared, shift, block = window
    options = {"shared": shared, "shift": shift, "mask": "block" if block else "subset"}
    if is_even(dim, shared, shift, block):
        Options(**options).check(dim, 10)
    else:
        with pytest.raises(InputError, match="shift"):
            Options(**options).check(dim, 10)
    Options(**options, allow_uneven=True).check(dim, 10)


def test_uncoordinated_clients_have_masks_of_their_own_and_coordinated_ones_do_not():
    for coordinated in (True, False):
        schedule = Sequential(Seeds(0), 200, 5, 1, coordinated, block=False)
        masks = {*map(tuple, schedule.entries(np.arange(20), 0).tolist())}
        assert len(masks) == (1 if coordinated else 20)
        late = np.array([1, 2**16 + 1])  # of so many clients no table is kept
        assert (schedule.entries(late, 0) == schedule.initial(late)).all()


def test_a_late_round_does_not_overflow():
    schedule = Rotating(np.array([[0, 1]]), shift=10**9, dim=7)
    n = 10**15
    (row,) = schedule.entries(np.array([0]), n).tolist()
    assert row == [(s + 10**9 * n) % 7 for s in (0, 1)]


def test_cohorts_are_a_function_of_the_round_alone():
    cohorts = UniformCohorts(Seeds(0, run=2), clients=100, size=4)
    whole = cohorts.cohort(np.arange(50))
    assert whole.shape == (50, 4)
    assert all(np.array_equal(cohorts.cohort(n), whole[n]) for n in range(50))


def test_the_members_of_many_rounds_are_those_of_each():
    ends = {"first": np.arange(9), "stop": np.arange(30, 39), "busy": np.arange(50) % 3 > 0}
    cohorts = PresentCohorts(Seeds(1), 9, 4, **ends)
    alone = [[] if cohorts.is_silent(n) else cohorts.cohort(n).tolist() for n in range(50)]
    members, sizes = cohorts.many(np.arange(50))
    assert members.tolist() == [k for each in alone for k in each]
    assert sizes.tolist() == [len(each) for each in alone]


def cohorts(clients, size, *changes, seed=0):
    return FleetCohorts(Seeds(seed), clients, size, history=FleetHistory(clients, changes))


@given(st.integers(2, 20), st.integers(0, 50), st.data())
def test_who_joins_takes_the_place_of_one_and_who_leaves_makes_room_for_one(clients, seed, data):
    size = data.draw(st.integers(1, clients))
    before = cohorts(clients, size, seed=seed)
    joined = cohorts(clients, size, Change(0, add=(clients,)), seed=seed)
    gone = data.draw(st.integers(0, clients - 1))
    left = cohorts(clients, size, Change(0, exclude=(gone,)), seed=seed)
    for n in range(20):
        was, new, less = (set(c.cohort(n).tolist()) for c in (before, joined, left))
        assert new == was if clients not in new else len(new & was) == size - 1
        assert less == was if gone not in was else was - less == {gone}
        assert (len(new), len(less)) == (size, min(size, clients - 1))


def test_every_member_is_selected_equally_often_whenever_it_joined():
    fleet = cohorts(5, 2, Change(0, add=(5, 6, 9), remove=(1,)))
    members, counts = fleet.many(np.arange(20_000))
    share = np.bincount(members, minlength=10) / counts.sum()
    present = [0, 2, 3, 4, 5, 6, 9]
    assert share[[1, 7, 8]].sum() == 0
    assert np.abs(share[present] - 1 / 7).max() < 0.005


words = st.integers(0, 2**40)


@given(seed=words, run=words, client=words, round=words, count=st.integers(1, 30))
def test_uniforms_are_the_numbers_of_numpys_philox(seed, run, client, round, count):
    seeds = Seeds(seed, run)
    expected = seeds.generator("x", client=client, round=round).random(count)
    found = seeds.uniforms("x", client=client, round=round, count=count)
    assert np.array_equal(found, expected)


def test_there_are_rounds_before_the_first():
    seeds, rounds = Seeds(1), np.arange(-3, 3)
    together = seeds.uniforms("x", round=rounds, count=4)
    alone = [seeds.uniforms("x", round=n, count=4) for n in rounds.tolist()]
    assert np.array_equal(together, alone)


def test_every_coordinate_of_a_draw_changes_it():
    def draw(seed=1, purpose="p", run=2, client=3, round=4):
        return Seeds(seed, run).uniforms(purpose, client=client, round=round, count=8).tobytes()

    variants = [{}, {"seed": 9}, {"purpose": "q"}, {"run": 9}, {"client": 9}, {"round": 9}]
    assert len({draw(**variant) for variant in variants}) == len(variants)


@given(clients=st.lists(st.integers(0, 10**6), min_size=1, max_size=6, unique=True))
def test_a_client_draws_the_same_alone_and_among_others(clients):
    seeds = Seeds(5)
    together = seeds.uniforms("x", client=clients, count=5)
    normals = seeds.normals("x", clients, 7)
    for row, normal, client in zip(together, normals, clients, strict=True):
        assert np.array_equal(row, seeds.uniforms("x", client=client, count=5))
        assert np.array_equal(normal, seeds.normals("x", [client], 7)[0])
        assert np.array_equal(normal, seeds.generator("x", client=client).standard_normal(7))


@given(places=st.lists(st.tuples(words, words), min_size=1, max_size=6))
def test_a_generator_that_is_moved_is_the_one_that_is_made(places):
    seeds = Seeds(5, 3)
    moved = seeds.mover("x")
    for client, round in places:
        there, made = moved(client, round), seeds.generator("x", client=client, round=round)
        # An odd number of small ones: half of a word is left for the next, and must not be used.
        for generator in (there, made):
            generator.integers(0, 9, 3, dtype=np.int32)
        assert there.normal() == made.normal()


@given(population=st.integers(1, 60), data=st.data())
def test_subsets_are_sorted_and_distinct_and_a_few_are_those_of_many(population, data):
    size = data.draw(st.integers(1, population))
    uniforms = Seeds(data.draw(words)).uniforms("s", client=range(20), count=size)
    chosen = subsets(uniforms, population)
    assert np.array_equal(chosen[:3], subsets(uniforms[:3], population))
    assert np.array_equal(chosen[5], subsets(uniforms[5], population))
    assert chosen.shape == (20, size)
    assert (np.diff(chosen, axis=1) > 0).all()
    assert chosen.min() >= 0
    assert chosen.max() < population


def test_subsets_are_uniform():
    trials = 30_000
    chosen = subsets(Seeds(0).uniforms("s", client=range(trials), count=3), 6)
    _, counts = np.unique(chosen @ [36, 6, 1], return_counts=True)
    assert len(counts) == 20  # all subsets of 3 out of 6
    expected = trials / 20
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 43.8  # 99.9 % quantile with 19 degrees of freedom

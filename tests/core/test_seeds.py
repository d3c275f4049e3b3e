import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from psofed.core.seeds import Seeds, subsets

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

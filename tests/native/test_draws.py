"""Compiled draws have the bits of NumPy's, and of the NumPy code that runs where none is compiled."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.plain import both, uncompiled
from psofed.core import native
from psofed.core.seeds import Seeds, subsets
from psofed.streams.synthetic import Laws, autoregress

pytestmark = pytest.mark.skipif(not native.available(), reason="nothing is compiled here")
words = st.integers(0, 2**63 - 1)
few = st.lists(words, min_size=1, max_size=4)


@given(words, few, few, few, st.integers(0, 150))
def test_uniforms_of_several_runs_are_those_of_each(seed, runs, clients, rounds, count):
    seeds, n = Seeds(seed, tuple(runs)), np.array(rounds)[:, None, None]
    found = seeds.uniforms("x", client=clients, round=n, count=count)
    assert found.shape == (len(rounds), len(runs), len(clients), count)
    with uncompiled():
        assert np.array_equal(found, seeds.uniforms("x", client=clients, round=n, count=count))
        for r, run in enumerate(runs):
            alone = Seeds(seed, run).uniforms("x", client=clients, round=n[:, 0], count=count)
            assert np.array_equal(found[:, r], alone)


@given(words, few, few, few, st.integers(0, 150))
def test_normals_are_those_of_numpy_s_generator(seed, runs, clients, rounds, count):
    seeds, n = Seeds(seed, tuple(runs)), np.array(rounds)[:, None, None]
    assert np.array_equal(*both(seeds.normals, "x", clients, count, n))


@pytest.mark.parametrize("seed", range(3))
def test_a_million_normals_are_numpy_s_in_layers_wedges_and_tail(seed):
    seeds, count = Seeds(seed), 10**6
    found = seeds.normals("many", 7, count, 3)
    generator = seeds.generator("many", client=7, round=3)
    assert np.array_equal(found, generator.standard_normal(count))
    # 0.03 % lie beyond the last layer; where a word was refused, more than one made a number.
    assert np.count_nonzero(np.abs(found) > 3.6541528853610088) > 150
    used = generator.bit_generator.state["state"]["counter"][0] * 4
    assert used > 1.01 * count


@given(st.integers(1, 300), st.integers(0, 5), words, st.data())
def test_subsets_are_those_of_numpy(population, rows, seed, data):
    size = data.draw(st.integers(1, population))
    uniforms = Seeds(seed).uniforms("s", client=np.arange(rows), count=size)
    assert np.array_equal(*both(subsets, uniforms, population))


@given(
    st.sampled_from(["float32", "float64"]), st.integers(1, 9), st.integers(1, 40), words,
    st.booleans(),
)  # fmt: skip
def test_the_series_is_numpy_s(dtype, clients, rounds, seed, goes_on):
    seeds, ids = Seeds(seed), np.arange(clients)
    u = seeds.uniforms("law", client=ids, count=4)
    laws = Laws(2 * u[:, 0] - 1, *u[:, 1:].T)
    normals = seeds.normals("x", ids, rounds + 1).astype(dtype)
    last = normals[:, -1] if goes_on else None
    found, plain = both(autoregress, laws, normals[:, :-1], last)
    assert found.dtype == dtype
    assert np.array_equal(found, plain)

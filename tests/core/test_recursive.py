"""RLS for many samples at once is RLS sample by sample."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psofed import native
from psofed.core import equations, recursive

both = pytest.mark.parametrize(
    "forms",
    [
        pytest.param((recursive.gains, recursive.correct), id="compiled"),
        pytest.param((recursive.block, recursive.in_turn), id="NumPy"),
    ],
)


def one_by_one(w, Q, z, y, forget, turn, amount):
    """`equations.rls` and `equations.inform`, in place."""
    for t in range(len(z)):
        equations.rls(w, Q, z[t], y[t], forget)
        if amount:
            equations.inform(Q, np.array((turn + t) % len(Q)), amount)


def distance(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


@both
@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 23), st.integers(1, 45), st.sampled_from([1.0, 0.999, 0.9]),
    st.sampled_from([0.0, 0.05]), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_many_samples_at_once_are_those_samples_in_a_row(forms, dim, count, forget, amount, seed):
    gains, correct = forms
    rng = np.random.default_rng(seed)
    turn = int(rng.integers(dim))
    z, y = rng.normal(size=(count, dim)) / np.sqrt(dim), rng.normal(size=count)
    Q, w = 10 * np.eye(dim), rng.normal(size=dim)
    Q_there, w_there = Q.copy(), w.copy()
    correct(w, gains(Q, z, forget, turn, amount), z, y)
    one_by_one(w_there, Q_there, z, y, forget, turn, amount)
    assert distance(Q, Q_there) <= 1e-11
    assert distance(w, w_there) <= 1e-10
    assert np.array_equal(Q, Q.T)


@pytest.mark.parametrize("amount", [0.0, 0.01])
def test_blocks_follow_the_recursion_over_a_thousand_samples(amount):
    """In 40 directions that samples excite more and less, by a factor of a million."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=(1000, 40)) * np.logspace(0, -3, 40)
    y = z @ rng.normal(size=40) + 0.1 * rng.normal(size=1000)
    Q, w = 100 * np.eye(40), np.zeros(40)
    Q_there, w_there = Q.copy(), w.copy()
    one_by_one(w_there, Q_there, z, y, 0.998, 0, amount)
    recursive.correct(w, recursive.gains(Q, z, 0.998, 0, amount), z, y)
    assert distance(w, w_there) <= 1e-9
    assert distance(Q, Q_there) <= 1e-9
    assert np.linalg.eigvalsh(Q).min() > 0


@given(st.integers(1, 9), st.integers(1, 5), st.sampled_from(["float32", "float64"]))
def test_several_clients_are_corrected_as_each_alone(clients, count, dtype):
    rng = np.random.default_rng(clients)
    w, z = (rng.normal(size=s).astype(dtype) for s in ((clients, 11), (count, clients, 11)))
    y, gains = rng.normal(size=(count, clients)).astype(dtype), rng.normal(size=z.shape) / 10
    alone = w.copy()
    recursive.correct(w, gains, z, y)
    for k in range(clients):
        recursive.in_turn(alone[k], gains[:, k], z[:, k], y[:, k])
    assert np.abs(w - alone).max() <= 200 * np.finfo(dtype).eps * np.abs(alone).max()


@both
def test_what_is_not_positive_any_more_is_no_number(forms):
    Q = -np.eye(3)
    assert np.isnan(forms[0](Q, np.ones((2, 3)), 0.9, 0, 0.0)).all()
    assert np.isnan(Q).all()


@both
def test_no_samples_change_nothing(forms):
    gains, correct = forms
    Q, w, nothing = np.eye(3), np.ones(3), np.empty((0, 3))
    correct(w, gains(Q, nothing, 0.9, 0, 0.1), nothing, np.empty(0))
    assert np.array_equal(Q, np.eye(3))
    assert np.array_equal(w, np.ones(3))


def test_there_is_compiled_code_where_it_is_tested():
    assert native.available()

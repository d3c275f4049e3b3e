"""What a comparison may try, and what the published forms of methods cost."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.battery import exchange, small
from psofed.core.schedule import Groups, Rotating
from psofed.federation import schema
from psofed.federation.options import geometric
from psofed.rivals import asofed, etpsofed, fedscr

CLASSES = [schema.load("psofed.methods", name).Options for name in schema.names("psofed.methods")]


@given(st.integers(1, 400), st.integers(1, 5000), st.sampled_from(CLASSES))
def test_every_choice_fits_every_form_that_is_compared(dim, rounds, cls):
    for options, (field, values) in product(cls.compared(dim), cls.choices(dim, rounds).items()):
        assert values
        assert len(set(values)) == len(values)
        for value in values:
            form = replace(options, **{field: value})
            schema.check(form, skip=("policy",))
            form.check(dim, 6)


@given(st.integers(1, 50), st.integers(0, 5000))
def test_values_to_try_grow_geometrically_and_are_never_none(least, most):
    values = geometric(least, most)
    assert values == tuple(sorted(set(values)))
    assert values == (least,) or least <= values[0] <= values[-1] <= most


@given(st.integers(1, 40), st.data())
def test_groups_have_all_entries_and_only_those_that_fill_the_last_twice(dim, data):
    shared = data.draw(st.integers(1, dim))
    count = -(-dim // shared)
    turns = Rotating(np.array([[data.draw(st.integers(0, count - 1))]]), 1, count)
    windows = [Groups(turns, dim, shared).entries(0, n) for n in range(count)]
    assert all(len(set(window.tolist())) == shared for window in windows)
    often = np.bincount(np.concatenate(windows), minlength=dim)
    assert set(often.tolist()) <= {1, 2}
    assert often.sum() - dim == -dim % shared


def test_an_adaptive_threshold_costs_a_loss_up_and_a_variance_down():
    everything = {"block": 5, "scale": 0.0}  # of thresholds at zero all blocks pass
    fixed, adaptive = (fedscr.Options(rule=r, **everything) for r in ("fixed", "adaptive"))
    plain, more = (exchange(small(options)).traffic for options in (fixed, adaptive))
    value = 8  # bytes: this wire has double precision
    assert (more[:, :2] - plain[:, :2] == 2 * value).all()  # of two members


def test_skipping_samples_changes_models_and_no_message_lengths():
    skips, learns = (etpsofed.Options(shared=3, samples=s) for s in ("informative", "all"))
    sizes = {1, 3 * 8}
    for options in (skips, learns):
        run = exchange(small(options))
        assert set(np.unique(run.traffic[:, 0])) <= {a + b for a in sizes for b in sizes}
        assert (run.traffic[:, 1] == 2 * 3 * 8).all()


def test_one_visitor_a_round_costs_a_fraction_of_the_cohort_and_many_are_the_cohort():
    sent = {}
    for visitors in (None, 1, 2, 9):
        options = asofed.Options(visitors=visitors)
        sent[visitors] = exchange(small(options, cohort=4)).traffic[:, 0].sum()
    assert sent[1] * 4 == sent[2] * 2 == sent[None] == sent[9]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.name)
def test_titles_say_which_form_it_is(cls):
    titles = [options.title() for options in cls.compared(200)]
    assert len(set(titles)) == len(titles)

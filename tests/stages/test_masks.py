"""Masks cancel in the sum over those who agree who is in it, and in no other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed.stages import mask as masks
from psofed.stages.mask import Pairs
from psofed.stages.privacy import Privacy

RUN, SIZE = 77, 6


def pairs(clients: int, self_masks: bool, run: int = RUN) -> list[Pairs]:
    generator = np.random.default_rng(clients)
    keys = {(i, j): generator.bytes(32) for i in range(clients) for j in range(i)}
    return [
        Pairs(i, {j: keys[max(i, j), min(i, j)] for j in range(clients) if j != i}, run, self_masks)
        for i in range(clients)
    ]


@given(st.data(), st.booleans(), st.integers(0, 2**32 - 1))
def test_what_is_left_in_a_sum_is_taken_off_exactly(data, self_masks, n):
    everybody = pairs(7, self_masks)
    cohort = sorted(data.draw(st.sets(st.integers(0, 6), min_size=2)))
    present = data.draw(st.sets(st.sampled_from(cohort), min_size=1))
    words = np.random.default_rng(n).integers(0, 2**32, (7, SIZE), np.uint32)
    sent = [everybody[k].hidden(words[k], cohort, n) for k in sorted(present)]
    revealed = {k: everybody[k].revealed(cohort, present, n) for k in present}
    left = masks.left_over(revealed, cohort, present, SIZE, everybody[0])
    expected = masks.added(words[sorted(present)])
    assert (masks.added(np.array(sent)) - left == expected).all()


def test_a_whole_cohort_needs_nothing_and_pays_nothing_without_self_masks():
    everybody, cohort = pairs(4, False), [0, 1, 2, 3]
    assert [one.revealed(cohort, cohort, 5) for one in everybody] == [b""] * 4
    assert len(everybody[0].hidden(np.zeros(40), cohort, 5).tobytes()) == 160


def test_one_who_is_absent_costs_16_bytes_each_and_32_more_with_self_masks():
    cohort, present = [0, 1, 2, 3], [0, 2, 3]
    assert [len(one.revealed(cohort, present, 5)) for one in pairs(4, False)[:1]] == [16]
    assert [len(one.revealed(cohort, present, 5)) for one in pairs(4, True)[:1]] == [64]


def test_masks_of_two_rounds_or_runs_have_nothing_in_common():
    zero, cohort = np.zeros(1000), [0, 1, 2]
    one, other = pairs(3, False)[0], pairs(3, False, RUN + 1)[0]
    sent = [one.hidden(zero, cohort, 1), one.hidden(zero, cohort, 2), other.hidden(zero, cohort, 1)]
    assert all((a != b).mean() > 0.99 for a in sent for b in sent if a is not b)


@pytest.mark.parametrize("self_masks", [False, True])
def test_a_server_that_lies_reads_one_upload_unless_there_are_self_masks(self_masks):
    everybody, cohort, n = pairs(4, self_masks), [0, 1, 2, 3], 3
    words = np.arange(4 * SIZE, dtype=np.uint32).reshape(4, SIZE)
    victim = everybody[0].hidden(words[0], cohort, n)
    # The others are told that client 0 has not answered, and client 0 that all have.
    revealed = [everybody[k].revealed(cohort, [1, 2, 3], n) for k in (1, 2, 3)]
    found = victim.copy()
    for k, seeds in zip((1, 2, 3), revealed, strict=True):
        at = [w[0] for w in masks.wanted(k, cohort, [1, 2, 3], everybody[k])].index("pair")
        mask = masks.stream(seeds[16 * at : 16 * at + 16], SIZE)
        found = found - masks.signed(mask, 0, k)
    assert (found == words[0]).all() == (not self_masks)


@given(st.lists(st.floats(-60, 60), min_size=3, max_size=9))
def test_the_mean_is_off_by_half_a_step_at_most(values):
    scale = Privacy(masks=True).scale(len(values))
    parts = np.array([[masks.words(np.array(v), scale, 64.0)] for v in values])
    mean = masks.mean(masks.added(parts), scale, 64.0, len(values))
    assert abs(mean[0] - np.mean(values)) <= 0.5 / scale + 1e-12


def test_a_value_that_is_no_number_is_the_end_of_the_range():
    found = masks.words(np.array([np.nan, np.inf, -np.inf, 1e9]), 100, 2.0).astype(np.int32)
    assert found.tolist() == [200, 200, -200, 200]


def test_masks_that_do_not_cancel_are_noticed():
    everybody, cohort = pairs(4, False), [0, 1, 2, 3]
    scale, noticed = Privacy(masks=True).scale(4), 0
    for n in range(50):
        sent = np.array([one.hidden(np.zeros(5), cohort, n) for one in everybody[:3]])
        try:
            masks.mean(masks.added(sent), scale, 64.0, 3)
        except ValueError:
            noticed += 1
    assert noticed == 50

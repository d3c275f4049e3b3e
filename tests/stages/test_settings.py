from __future__ import annotations

import pytest

from psofed import Experiment, FedAvg, InputError, OnlineFed, Privacy, PSOFed
from psofed.experiment import parse

MASKS = Privacy(masks=True)


def test_a_table_that_changes_nothing_leaves_the_file_as_it_was():
    assert "privacy" not in Experiment(privacy=Privacy()).to_table()


def test_what_is_set_is_written_and_read_back():
    privacy = Privacy(masks=True, least=4, epsilon=2.0, level="client", clip_change=0.5)
    there = Experiment(privacy=privacy, methods=(OnlineFed(),))
    assert parse(there.to_table()).privacy == privacy


@pytest.mark.parametrize(
    ("values", "field"),
    [({"least": 2}, "least"), ({"epsilon": 0.0}, "epsilon"), ({"delta": 1.0}, "delta"),
     ({"self_masks": True}, "self_masks"), ({"range": -1.0}, "range"), ({"level": "us"}, "level")],
)  # fmt: skip
def test_impossible_settings_are_refused_by_name(values, field):
    with pytest.raises(InputError) as caught:
        Privacy(**values)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("more", "field"),
    [({"cohort": 2}, "privacy.least"), ({"absent": 0.2}, "privacy.masks"),
     ({"methods": (PSOFed(5),)}, "methods[0].scheme"),
     ({"methods": (PSOFed(200, mask="block"),)}, "methods[0].scheme"),
     ({"methods": (PSOFed(5, "coordinated", wire="float16"),)}, "methods[0].wire")],
)  # fmt: skip
def test_masks_are_refused_where_a_sum_is_not_enough(more, field):
    with pytest.raises(InputError) as caught:
        Experiment(**{"methods": (OnlineFed(), FedAvg()), "privacy": MASKS} | more)
    assert caught.value.field == field

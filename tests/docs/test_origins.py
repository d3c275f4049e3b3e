"""The origin of methods and policies: each says what is as published, and what is not."""

import pytest
from methods_page import POINTS, points

from psofed.federation import schema

FOLDERS = ("psofed.methods", "psofed.policies")
EVERY = [(folder, name) for folder in FOLDERS for name in schema.names(folder)]


@pytest.mark.parametrize(("folder", "name"), EVERY, ids=[name for _, name in EVERY])
def test_a_method_or_policy_says_what_is_published_and_what_is_not(folder, name):
    module = schema.load(folder, name)
    origin, (first, *_) = points(module)
    assert tuple(origin) == POINTS, "four paragraphs, in this order: see docs/_tools/methods_page"
    assert all(text.strip().endswith(".") for text in origin.values())
    about = (module.__doc__ or "").strip().split("\n\n")
    assert about[0] == first
    assert [text.partition(":")[0] for text in about[1:5]] == list(POINTS), "right after the first"

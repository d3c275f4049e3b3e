"""The page of methods: each says what is published and what leaves a client, as the code does."""

import build_site
import leaves_table
import pytest
from methods_page import POINTS, points

from psofed.federation import schema
from psofed.methods import psofed

NAMES = schema.names("psofed.methods")
EVERY = [(f, name) for f in ("psofed.methods", "psofed.policies") for name in schema.names(f)]


@pytest.fixture(scope="module")
def page():
    return build_site.from_code()["methods"]


@pytest.mark.parametrize(("folder", "name"), EVERY, ids=[name for _, name in EVERY])
def test_a_method_or_policy_says_what_is_published_and_what_is_not(folder, name):
    module = schema.load(folder, name)
    origin, (first, *_) = points(module)
    assert tuple(origin) == POINTS, "four paragraphs, in this order: see docs/_tools/methods_page"
    assert all(text.strip().endswith(".") for text in origin.values())
    about = (module.__doc__ or "").strip().split("\n\n")
    assert about[0] == first
    assert [text.partition(":")[0] for text in about[1:5]] == list(POINTS), "right after the first"


def test_the_page_has_a_section_for_each_method_and_policy(page):
    for folder, mark in (("psofed.methods", "##"), ("psofed.policies", "###")):
        assert {n for n in schema.names(folder) if f"\n{mark} {n}\n" not in page} == set()


def test_every_method_says_what_its_uploads_are(page):
    assert set(leaves_table.METHODS) == set(NAMES)
    _, _, table = page.partition(leaves_table.HEAD)
    for name in NAMES:
        assert table.count(f"(#{name}) |") == 1, name


@pytest.mark.parametrize("name", NAMES)
def test_a_method_that_masks_cannot_hide_says_why_and_no_other_does(name):
    options = schema.load("psofed.methods", name).Options()
    refused = leaves_table.masked(options) == "no"
    assert refused == bool(leaves_table.METHODS[name].masks)


def test_noise_is_for_uploads_that_are_entries_of_a_model():
    found = {name: leaves_table.noised(schema.load("psofed.methods", name).Options())
             for name in NAMES}  # fmt: skip
    known = {name for name, word in found.items() if word == "yes"}
    assert known == {"psofed", "onlinefed", "fedavg"}
    clients = {name for name, word in found.items() if word == "client level"}
    assert clients == {"ditto", "fedpoe", "fedprox"}


def test_windows_that_move_by_one_entry_tell_of_the_newest_sample_alone_and_blocks_do_not():
    subset, block = (psofed.Options(shared=40, mask=mask) for mask in ("subset", "block"))
    assert leaves_table.fresh(subset) == pytest.approx(40 * 39 / 199, abs=0.3)  # by chance
    assert leaves_table.fresh(block) == 0
    assert leaves_table.fresh(psofed.Options(shared=120, mask="block")) == 120 - 80


def test_idle_learning_and_local_steps_make_more_unknowns():
    counted = {n: leaves_table.count(schema.load("psofed.methods", n).Options())
               for n in ("onlinefed", "psofed", "fedavg", "periodic", "local")}  # fmt: skip
    assert [round(c.samples) for c in counted.values()] == [1, 25, 5, 100, 0]
    assert [round(c.unknowns) for c in counted.values()] == [5, 125, 25, 500, 0]
    assert [round(c.signal) for c in counted.values()] == [5, 53, 13, 203, 0]

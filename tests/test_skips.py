"""A skip that nobody expects is noticed."""

from helpers.skips import EXPECTED, unexpected


def test_skips_are_those_that_are_listed_and_of_what_is_absent():
    listed = [f"{reason}: whatever" for reason in EXPECTED]
    assert unexpected([*listed, "needs promtool: it is somewhere"]) == []
    assert unexpected([*listed, "not today"]) == ["skipped: not today"]

"""A skip that nobody expects is noticed."""

from helpers.skips import EXPECTED, unexpected, untried

AS_LISTED = [f"{reason}: whatever" for reason, count in EXPECTED.items() for _ in range(count)]


def test_skips_are_those_that_are_listed_and_of_what_is_absent():
    absent = ["needs promtool: it is somewhere", "needs mosquitto: apt-get"]
    assert unexpected(AS_LISTED + absent) == []


def test_another_reason_one_skip_more_and_one_less_are_told():
    assert unexpected(AS_LISTED[1:]) == ["2 skipped, not 3: ByzFL cannot be imported"]
    assert unexpected([*AS_LISTED, "it does not go live"]) == [
        "4 skipped, not 3: it does not go live"
    ]
    assert unexpected([*AS_LISTED, "not today"]) == ["1 skipped, not 0: not today"]


def test_a_program_for_which_nothing_was_skipped_was_not_hidden():
    reasons = ["needs chromium: a", "needs mosquitto: b", "needs openssl: c", "needs promtool: d"]
    assert untried(reasons) == []
    assert untried(reasons[:3]) == ["nothing was skipped that needs promtool"]

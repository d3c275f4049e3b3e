"""A skip that nobody expects is noticed."""

from helpers.programs import ORIGINS
from helpers.skips import EXPECTED, LATER, unexpected, untried

AS_LISTED = [f"{reason}: whatever" for reason, count in EXPECTED.items() for _ in range(count)]


def test_skips_are_those_that_are_listed_and_of_what_is_absent():
    assert unexpected([*AS_LISTED, "needs promtool: it is somewhere"]) == []
    assert unexpected([*AS_LISTED, "not today"]) == ["1 skipped, not 0: not today"]
    reason, count = next(iter(EXPECTED.items()))
    assert unexpected(AS_LISTED[1:]) == [f"{count - 1} skipped, not {count}: {reason}"]


def test_a_program_for_which_nothing_was_skipped_was_not_hidden():
    reasons = [f"needs {name}: see there" for name in ORIGINS if name not in LATER]
    assert untried(reasons) == []
    assert untried(reasons[:-1]) == ["nothing was skipped that needs systemd_analyze"]

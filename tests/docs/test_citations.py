"""Every rule of the protocol that a docstring cites is on its page, and the other way round."""

import re

from helpers import ROOT

PAGE = ROOT / "docs" / "protocol.md"
CITED = re.compile(r"\b[Rr]ules? (\d+(?:(?:,| and|, and| to) \d+)*)")
# Rules about all of the code, or about what is not there: no one place keeps them.
NOT_CITED = {
    1: "a window is a closed form of the round, in core/schedule.py; nothing counts",
    2: "a round asks the schedule for n and n + 1; eq. (9) and (11) are cited there",
    14: "nothing in the protocol reads a clock",
}


def numbers(text):
    """The rules that a text cites, those of `8 and 11` and of `3 to 5` too.

    >>> sorted(numbers("Rules 8 and 11; rule 3, and rules 5 to 7"))
    [3, 5, 6, 7, 8, 11]
    """
    found = set()
    for words in CITED.findall(text):
        for part in re.split(r",? and |, ", words):
            first, _, last = part.partition(" to ")
            found |= set(range(int(first), int(last or first) + 1))
    return found


def test_the_source_cites_every_rule_of_the_page_and_no_other():
    text = PAGE.read_text(encoding="utf-8")
    rules = [int(number) for number in re.findall(r"^## Rule (\d+):", text, re.MULTILINE)]
    assert rules == list(range(1, len(rules) + 1))
    source = (path.read_text(encoding="utf-8") for path in (ROOT / "src" / "psofed").rglob("*.py"))
    assert set(rules) - set(NOT_CITED) == set().union(*map(numbers, source))

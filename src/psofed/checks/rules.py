"""A rule of a contract is a function that raises; its first line says what it asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from psofed import plugins
from psofed.errors import InputError

Rule = Callable[..., None]
TOLERANCE = 1e-12  # of models that must be the same


class BrokenError(AssertionError):
    """The rule does not hold; the message says what was found."""


class NotApplicableError(Exception):
    """The rule says nothing about this one; the message says why."""


@dataclass(frozen=True)
class Verdict:
    """What was found for one rule."""

    rule: str
    outcome: Literal["ok", "failed", "not applicable"]
    reason: str = ""

    def line(self) -> str:
        """As it is printed."""
        return f"{self.outcome:<14}  {self.rule}" + (f": {self.reason}" if self.reason else "")


def require(holds: Any, found: str) -> None:
    """Raise BrokenError with what was found, unless it holds."""
    if not holds:
        raise BrokenError(found)


def only_if(applies: Any, why: str) -> None:
    """Raise NotApplicableError unless the rule applies."""
    if not applies:
        raise NotApplicableError(why)


def refuses(act: Callable[[], Any], *words: str) -> None:
    """Require an InputError with these words."""
    try:
        act()
    except InputError as error:
        missing = [word for word in words if word not in str(error)]
        require(not missing, f"it is refused with {str(error)!r}, without {missing}")
        return
    raise BrokenError("it is accepted, and should be refused")


def title(rule: Rule) -> str:
    """What a rule asks: the first line of its text."""
    return (rule.__doc__ or rule.__name__).strip().splitlines()[0].rstrip(".")


def judge(rule: Rule, *arguments: Any) -> Verdict:
    """Try one rule; whatever goes wrong is a reason.

    >>> def even(number):
    ...     '''The number is even.'''
    ...     require(number % 2 == 0, f"{number} is odd")
    >>> judge(even, 3).line()
    'failed          The number is even: 3 is odd'
    """
    try:
        with np.errstate(all="ignore"):
            rule(*arguments)
    except NotApplicableError as error:
        return Verdict(title(rule), "not applicable", str(error))
    except BrokenError as error:
        return Verdict(title(rule), "failed", str(error))
    except Exception as error:
        told = plugins.blamed(error)
        what = f"{type(error).__name__}: {error}" if told is None else told.found
        return Verdict(title(rule), "failed", " ".join(str(what).split()))
    return Verdict(title(rule), "ok")


def obey(rule: Rule, *arguments: Any) -> None:
    """Raise unless the rule holds or does not apply."""
    try:
        rule(*arguments)
    except NotApplicableError:
        return


def largest(found: Any, expected: Any) -> float:
    """The largest difference; NaN is as far as can be."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape:
        return float("inf")
    apart = float(np.abs(found - expected).max(initial=0.0))
    return float("inf") if np.isnan(apart) else apart


def close(found: Any, expected: Any, what: str) -> None:
    """Require models that are the same."""
    apart = largest(found, expected)
    require(apart <= TOLERANCE, f"{what} differ by {apart:.1e}, not by {TOLERANCE:g} at most")

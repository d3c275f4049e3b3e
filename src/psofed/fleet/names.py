"""Names of clients: what operators read and write. Seeds, topics and records have numbers.

Those of the first clients are in the file of the run, which both ends have. Who joins later is
named once as NAME=K, and is then known to the server's record and to the authority's folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from psofed.errors import InputError

LONGEST = 40  # characters
TAKEN = ("server", "broker", "ca", "crl")  # files next to those of clients
MOST = 5  # clients that a line names
RIGHT = f"use up to {LONGEST} letters, digits, -, _ and ., and not digits alone"


def fits(name: str) -> bool:
    """Whether a certificate, a file and an access list can have this name.

    >>> [fits(name) for name in ("gw00", "plant.7-b", "7", "a/b", "+", "server", "über", "-x", "")]
    [True, True, False, False, False, False, False, False, False]
    """
    good = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) is not None
    return good and len(name) <= LONGEST and not name.isdecimal() and name.lower() not in TAKEN


class Names:
    """Which client has which name; one without a name is called by its number.

    >>> names = Names(["gw00", "1", "gw02"])
    >>> names(0), names(1), names(9), names.number("gw02"), names.number("3")
    ('gw00', '1', '9', 2, 3)
    >>> names.number("attic=7"), names(7), names.number("attic"), names.words([7, 0])
    (7, 'attic', 7, 'clients gw00, attic')
    """

    def __init__(self, listed: Iterable[str] = (), later: dict[int, str] | None = None) -> None:
        self.listed, self.later = tuple(listed), dict(later or {})

    def __call__(self, k: int) -> str:
        if 0 <= k < len(self.listed):
            return self.listed[k]
        return self.later.get(k, str(k))

    def copy(self) -> Names:
        """The same names, to which others can be added."""
        return Names(self.listed, self.later)

    def known(self) -> dict[int, str]:
        """By number, of all who have a name."""
        both = dict(enumerate(self.listed)) | self.later
        return {k: name for k, name in both.items() if name != str(k)}

    def number(self, text: str, free: int | None = None) -> int:
        """The number of who is called so, of NAME=K, or of a new name the next `free` one."""
        name, equals, digits = text.partition("=")
        if not equals and (known := self._numbers().get(name)) is not None:
            return known
        number = digits if equals else name
        if number.isascii() and number.isdecimal() and str(int(number[:20])) == number:
            k = int(number)
        elif free is not None and not equals:
            k = free
        else:
            right = "use the number of a client: 0, 1, 2, ..., or NAME=K for one that joins"
            raise InputError("the client", f"{text!r} is not known", right)
        if name != str(k):
            self._add(k, name)
        return k

    def words(self, clients: Iterable[int]) -> str:
        """The first few, and how many more there are."""
        found = sorted(clients)
        named = ", ".join(map(self, found[:MOST]))
        more = f" and {len(found) - MOST} more" if len(found) > MOST else ""
        return f"client{'s' if len(found) > 1 else ''} {named}{more}"

    def _numbers(self) -> dict[str, int]:
        return {name: k for k, name in self.known().items()}

    def _add(self, k: int, name: str) -> None:
        """A name is given once, as a number is."""
        if not fits(name):
            raise InputError("the client", f"{name!r} cannot be a name", RIGHT)
        if self(k) not in (name, str(k)) or self._numbers().get(name, k) != k:
            found = f"{name!r} cannot be client {k}: one of them is called otherwise already"
            raise InputError("the client", found, "give each client a name of its own")
        self.later[k] = name

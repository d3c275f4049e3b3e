"""Policies from outside the package: whom they invite and admit is looked at before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from psofed.core.foreign import broken, kind, members

CHECK = "see the contract at the top of psofed/policies/contract.py, or try `psofed check`"


@cache
def guarded(plain: Any, invited: Any, admitted: Any) -> Any:
    """The same policy, whose handlers have to give `Invited` and `Admitted`."""

    class Guarded(plain):  # type: ignore[misc]
        __doc__ = plain.__doc__

        def __init__(self, options: Any, federation: Any) -> None:
            super().__init__(options, federation)
            self._known = federation.clients

        def invite(self, state: Any, n: int, up_bytes: int, down_bytes: int) -> Any:
            """Clients that exist, each once."""
            found = super().invite(state, n, up_bytes, down_bytes)
            if not isinstance(found, invited):
                raise broken(plain, "invite", f"returns {kind(found)}, not Invited", CHECK)
            ids = members(plain, "invite", found[0], self._known, CHECK)
            return invited(ids.tolist(), *found[1:])

        def admit(self, state: Any, n: int, scores: Mapping[int, float]) -> Any:
            """Finite weights of those who asked; where clients do not report, of all of them."""
            found = super().admit(state, n, scores)
            if not isinstance(found, admitted) or not isinstance(found[0], dict):
                raise broken(plain, "admit", f"returns {kind(found)}, not Admitted", CHECK)
            weights = found[0]
            others = sorted(weights.keys() - scores.keys())
            if others:
                raise broken(plain, "admit", f"names client {others[0]}, who did not ask", CHECK)
            if self.options.scores != "client" and len(weights) < len(scores):
                lost = min(scores.keys() - weights.keys())
                text = f"gives no weight to client {lost}, who has uploaded"
                raise broken(plain, "admit", text, "give 0 to those who shall not count")
            for k, weight in weights.items():
                if not isinstance(weight, int | float | np.number) or not np.isfinite(weight):
                    raise broken(plain, "admit", f"gives client {k} the weight {weight!r}", CHECK)
            return found

    Guarded.__name__, Guarded.__qualname__ = plain.__name__, plain.__qualname__
    Guarded.__module__ = plain.__module__
    return Guarded

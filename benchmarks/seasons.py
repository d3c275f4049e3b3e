"""Honest streams that are not stationary, and honest clients that are not alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

from psofed.stages.defences.contract import Defended
from psofed.streams import paper


@dataclass(frozen=True, kw_only=True)
class Options(paper.Options):
    """f is multiplied by `factor` from round `begin` on, at once or slowly, or every night."""

    name: ClassVar[str] = "seasons"
    factor: float = 1.0
    begin: int = 600
    ramp: int = 0  # rounds until it has changed
    night: int = 0  # rounds of a night, and of a day
    odd: Literal["", "inputs", "target"] = ""  # in what one client is unlike the others
    who: int = 3  # this client

    @property
    def changes(self) -> bool:
        return self.factor != 1

    def later(self, x):
        return self.factor * self.function(x) if self.changes else None

    def blend(self, rounds):
        n = np.asarray(rounds)
        if self.night:
            return (n // self.night % 2).astype(float)
        return np.clip((n - self.begin + 1) / max(self.ramp, 1), 0.0, 1.0)

    def samples(self, seeds, clients, first, stop, dtype=np.float64, memory=None):
        drawn = super().samples(seeds, clients, first, stop, dtype, memory)
        here = np.flatnonzero(np.asarray(clients) == self.who)
        if not self.odd or not len(here):
            return drawn
        x, clean = np.array(drawn.x), drawn.clean.copy()
        if self.odd == "inputs":
            x[here] *= 3
            clean[here] = self.clean(x[here], first)
        else:
            clean[here] += 1
        return replace(drawn, x=x, clean=clean)


class Kept:
    """What a defence leaves of uploads: <left, U> / <U, U>, of each client in each run."""

    def __init__(self) -> None:
        self.last: dict[tuple[Any, int], float] = {}
        self.all: dict[tuple[Any, int], list[float]] = {}
        self.most = 0.0  # of those who were heard, the share that was down-weighted at once

    def see(self, k, changes, left, run: Any = 0) -> None:
        U, V = changes.astype(np.float64), left.astype(np.float64)
        for one, u, v in zip(k.tolist(), U, V, strict=True):
            if (u != 0).any():
                kept = float(v @ u / (u @ u))
                self.last[run, one] = kept
                self.all.setdefault((run, one), []).append(kept)

    def of(self, who: int) -> float:
        """What is left of a client's uploads on average, in all runs."""
        return float(np.mean([np.mean(all) for (_, one), all in self.all.items() if one == who]))

    def down(self, run: Any = 0) -> float:
        """The share of those who were heard of whom less than half was folded in."""
        mine = [kept for (r, _), kept in self.last.items() if r == run]
        return float(np.mean([kept < 0.5 for kept in mine])) if mine else 0.0


@contextmanager
def watched(silent: int = 0) -> Iterator[Kept]:
    """What defences leave, of all methods and runs, from the round `silent` on."""
    kept, original = Kept(), Defended._left

    def left_of(self, state, k, n, changes, entries, heard):
        left = original(self, state, k, n, changes, entries, heard)
        if n >= silent:
            for run in np.ndindex(k.shape[:-1]):
                here, mine = heard[run], (self.defence, run)
                kept.see(k[run][here], changes[run][here], left[run][here], mine)
                kept.most = max(kept.most, kept.down(mine))
        return left

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Defended, "_left", left_of)
        yield kept

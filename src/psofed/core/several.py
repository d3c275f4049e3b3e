"""Several Monte-Carlo runs at once: what one run draws, the run an axis before the client's.

Methods written for leading axes then compute all runs in one call; the numbers of each are those
that it has alone. Clients are named by their places: place i of run r is client ids[r, i], so that
clients that never take part need no place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psofed.core.schedule import Indices, UniformCohorts
from psofed.core.seeds import Seeds

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class SeveralSeeds(Seeds):
    """`Seeds` of several runs: draws have the axes [..., run, place, number]."""

    run: tuple[int, ...] = ()
    ids: Any = None  # [run, place]; None: places are the clients

    @property
    def world(self) -> SeveralSeeds:
        if self.shared_world is None:
            return self
        return SeveralSeeds(self.seed, (self.shared_world,) * len(self.run), ids=self.ids)

    def uniforms(
        self, purpose: str, *, client: ArrayLike = 0, round: ArrayLike = 0, count: int
    ) -> NDArray[np.float64]:
        """For each (run, place, round): `client` is [..., run, place] or broadcasts to it."""
        who = np.asarray(client)
        if self.ids is not None and who.ndim:
            # Tables are made for more places than there are.
            who = np.minimum(who, self.ids.shape[1] - 1)
            who = self.ids[np.arange(len(self.run))[:, None], who]
        return super().uniforms(purpose, client=who, round=round, count=count)

    def matrix(self, purpose: str, *shape: int) -> NDArray[np.float64]:
        """[run, *shape]."""
        return np.stack([Seeds(self.seed, run).matrix(purpose, *shape) for run in self.run])


@dataclass(frozen=True, eq=False)
class SeveralCohorts(UniformCohorts):
    """The cohorts of several runs, which were drawn before: [round, run, place]."""

    drawn: Any = None
    present_places: Any = None  # [run, place]

    def present(self) -> Indices:
        found: Indices = self.present_places
        return found

    def cohort(self, n: Any) -> Indices:
        found: Indices = self.drawn[n]
        return found

    def onward(self, n: int) -> Indices:
        found: Indices = self.drawn[n:]
        return found


@dataclass(frozen=True, eq=False)
class SeveralMaps:
    """The feature maps of several runs: x [run, ..., L] to z [run, ..., D]."""

    exact: ClassVar[bool] = False
    maps: tuple[Any, ...]
    all_at_once: Callable[[Array], Array]

    @property
    def dim(self) -> int:
        return int(self.maps[0].dim)

    def __call__(self, x: Array) -> Array:
        return self.all_at_once(x)

    def astype(self, dtype: Any) -> SeveralMaps:
        """The tasks of the runs have their precision already."""
        raise NotImplementedError

    def correlation(self, mean: Array, covariance: Array) -> Array:
        """Of one run only."""
        raise NotImplementedError

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
class PlacedSeeds(Seeds):
    """`Seeds` whose clients are named by their places: of one run, or of several."""

    ids: Any = None  # [place], or [run, place]; None: places are the clients

    @property
    def world(self) -> PlacedSeeds:
        if self.shared_world is None:
            return self
        one = isinstance(self.run, int)
        run = self.shared_world if one else (self.shared_world,) * len(self.run)  # type: ignore[arg-type]
        return PlacedSeeds(self.seed, run, ids=self.ids)

    def uniforms(
        self, purpose: str, *, client: ArrayLike | None = None, round: ArrayLike = 0, count: int
    ) -> NDArray[np.float64]:
        """For each (place, round), or (run, place, round): `client` is [..., run, place]."""
        whom = None if client is None else self.clients(client)
        return super().uniforms(purpose, client=whom, round=round, count=count)

    def normals(
        self, purpose: str, client: ArrayLike, count: int, round: ArrayLike = 0
    ) -> NDArray[np.float64]:
        """The same for standard normals."""
        return super().normals(purpose, self.clients(client), count, round)

    def clients(self, place: ArrayLike) -> Any:
        """Who is at these places."""
        if self.ids is None:
            return place
        # Tables are made for more places than there are.
        known = np.minimum(place, self.ids.shape[-1] - 1)
        runs = () if self.ids.ndim == 1 else (np.arange(len(self.ids))[:, None],)
        return self.ids[(*runs, known)]

    def matrix(self, purpose: str, *shape: int) -> NDArray[np.float64]:
        """[run, *shape]; of one run, [*shape]."""
        if isinstance(self.run, int):
            return super().matrix(purpose, *shape)
        return np.stack([Seeds(self.seed, run).matrix(purpose, *shape) for run in self.run])


@dataclass(frozen=True, eq=False)
class PlacedCohorts(UniformCohorts):
    """Cohorts that were drawn before: [round, place], or [round, run, place]."""

    drawn: Any = None
    all_places: Any = None  # [place], or [run, place]

    def present(self) -> Indices:
        found: Indices = self.all_places
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

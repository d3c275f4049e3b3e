"""How much noise an upload has, and what it then costs: the numbers of the mechanism.

docs/privacy.md has the mechanism and the proof. In short: at the level of a sample, a clipped step
moves a model by c = mu E max|z| at most, and all uploads together tell of it what one would; at the
level of a client, each of its T uploads tells a change of norm C at most.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError
from psofed.privacy import accountant
from psofed.privacy.settings import Level, Privacy

SPREADS = 2  # standard deviations by which a client may take part more often than the mean


@dataclass(frozen=True)
class Mechanism:
    """Noise of one upload, and the budget that it serves."""

    level: Level
    delta: float
    sensitivity: float  # c, or C
    sigma: float  # standard deviation of the noise that one client adds to each value
    uploads: int = 1  # T of a client; a sample is told of once, however many there are
    shares: int = 1  # members of a sum whose noise adds up, under masks

    @property
    def ratio(self) -> float:
        """The sensitivity over the noise that is left in what the server sees."""
        return self.sensitivity / (self.sigma * sqrt(self.shares))

    def epsilon(self, uploads: int) -> float:
        """What so many uploads of a client have spent."""
        told = min(uploads, self.uploads)
        return accountant.epsilon(self.ratio * sqrt(told), self.delta) if told else 0.0

    @property
    def planned(self) -> float:
        """Epsilon when the budget is spent."""
        return self.epsilon(self.uploads)

    def outside(self, share: float, contacts: int, idle: bool) -> float | None:
        """Epsilon for who sees models only, and knows neither the seed nor who took part.

        A client is in `contacts` rounds or blocks with probability `share`. None: the same as for a
        server, because a sample of a client that learns when idle is told at a later contact.
        """
        if self.level == "client":
            return accountant.amplified(self.ratio, self.delta, share, contacts)
        return None if idle else accountant.amplified(self.ratio, self.delta, share, 1)

    def in_words(self) -> str:
        """The guarantee, in a line.

        >>> Mechanism("sample", 1e-5, 0.5, 0.5).in_words()
        'epsilon 4.38 at delta 1e-05 for each sample; noise sigma 0.5 in a value'
        """
        whose = "each sample" if self.level == "sample" else "all samples of a client"
        count = f", {self.uploads:,} uploads" if self.level == "client" else ""
        shared = f", shared by {self.shares} members" if self.shares > 1 else ""
        told = f"epsilon {self.planned:.3g} at delta {self.delta:g} for {whose}{count}"
        return f"{told}; noise sigma {self.sigma:.3g} in a value{shared}"


def mechanism(
    privacy: Privacy, step: float, longest: float | None, uploads: int, shares: int
) -> Mechanism | None:
    """The noise for the budget; None if there is no epsilon."""
    if privacy.epsilon is None:
        return None
    sample = privacy.level == "sample"
    reach = (privacy.error or 0) * (longest or 0) if sample else privacy.change
    if not reach:  # a promise without noise would be the worst of all
        found = "have no known largest length, so it is not known how far a sample moves a model"
        raise InputError("features", found, 'use "cosine" or "exponential", or level = "client"')
    told, scale = (1, step) if sample else (uploads, 1.0)
    most = accountant.ratio(privacy.epsilon, privacy.delta) / sqrt(told)
    sigma = scale * (reach / (most * sqrt(shares)))
    return Mechanism(privacy.level, privacy.delta, scale * reach, sigma, told, shares)


def planned(privacy: Privacy, contacts: int, share: float) -> int:
    """T: as given, or the mean of a client's uploads and two standard deviations.

    Who is drawn more often has spent its budget before the end.

    >>> planned(Privacy(epsilon=1.0, level="client"), 1000, 0.04)
    53
    """
    if privacy.uploads is not None:
        return privacy.uploads
    mean = contacts * share
    return max(min(ceil(mean + SPREADS * sqrt(mean * (1 - share))), contacts), 1)


def secret_normals(*shape: int) -> NDArray[np.float64]:
    """Standard normals from the machine's own secret source, which no seed tells: Box-Muller."""
    count = int(np.prod(shape))
    words = np.frombuffer(os.urandom(16 * count), np.uint64).reshape(2, count)
    u, turn = ((words >> np.uint64(11)) + 1.0) * 2.0**-53
    return (np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * turn)).reshape(shape)

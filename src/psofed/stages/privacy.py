"""The table [privacy]: what the server may learn of a client, and how much noise that takes.

docs/privacy.md has the mechanism and the proof. In short: at the level of a sample, a clipped step
moves a model by c = mu E max|z| at most, and all uploads together release of it what one would; at
the level of a client, each of its T uploads releases a change of norm C at most.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from math import ceil, erfc, exp, inf, log, log1p, pi, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError
from psofed.federation import schema

Level = Literal["sample", "client"]
WORDS = 2**32  # masked values are whole numbers mod this: four bytes each
ROOM = 16  # times more than the largest sum needs, so that one that is wrong shows
FEWEST = 3  # with two in a sum, either of them can subtract its own part
ERROR, CHANGE = 1.0, 0.1  # the clips where epsilon is given and they are not
SPREADS = 2  # standard deviations by which a client may take part more often than the mean
FAR = 25.0  # beyond so many standard deviations a tail is computed by its logarithm
HALVINGS = 80


@dataclass(frozen=True)
class Privacy(schema.Fields):
    """Masks hide what is in a sum, noise hides what a sum reveals; both are off by default."""

    masks: bool = False  # the server learns sums over a cohort, not what a client sends
    self_masks: bool = False  # also if the server lies about who did not answer; costs bytes
    least: int | None = None  # members that a sum has at least; not set: more than half of a cohort
    range: float = 64.0  # values of a masked upload; a client with larger ones sends nothing
    epsilon: float | None = None  # the budget of differential privacy; not set: no noise
    delta: float = 1e-5  # the other number of that budget
    level: Level = "sample"  # what is hidden: one sample of a client, or all of them
    clip_error: float | None = None  # largest |error| that a client learns from a sample with
    clip_change: float | None = None  # largest norm of what an upload changes
    uploads: int | None = None  # of a client, that its budget is for; not set: from the rounds

    def __post_init__(self) -> None:
        schema.check(self)
        schema.positive(self, "range", "epsilon", "delta", "clip_error", "clip_change", "uploads")
        schema.require(self, "delta", self.delta < 1, "use less than 1, such as 1e-5")
        if self.least is not None and self.least < FEWEST:
            found = f"is {self.least}: of a sum of two, each can subtract its own part"
            raise InputError("least", found, f"use {FEWEST} or more")
        if self.uploads is not None and (self.epsilon is None or self.level != "client"):
            found = "is given, but a budget for uploads is that of a client"
            raise InputError("uploads", found, 'leave it out, or set epsilon and level = "client"')
        if self.self_masks and not self.masks:
            raise InputError("self_masks", "is true, but masks is not", "set both, or neither")

    @property
    def acts(self) -> bool:
        """Whether it changes what is sent."""
        return self.masks or self.noisy

    @property
    def noisy(self) -> bool:
        """Whether clients clip what they send, or add noise to it."""
        return any(each is not None for each in (self.epsilon, self.clip_error, self.clip_change))

    @property
    def hides_samples(self) -> bool:
        """Whether single samples are what the budget is for."""
        return self.epsilon is not None and self.level == "sample"

    @property
    def error(self) -> float | None:
        """The clip of errors that is used."""
        return ERROR if self.hides_samples and self.clip_error is None else self.clip_error

    @property
    def change(self) -> float | None:
        """The clip of changes that is used."""
        wanted = self.epsilon is not None and self.level == "client"
        return CHANGE if wanted and self.clip_change is None else self.clip_change

    def fewest(self, cohort: int) -> int:
        """Members that a sum has at least, 3 or more; with fewer the round is void.

        With more than half of a cohort, no two sums of a round can be of different members.

        >>> Privacy(masks=True).fewest(4), Privacy(masks=True).fewest(10)
        (3, 6)
        """
        return max(FEWEST, cohort // 2 + 1) if self.least is None else self.least

    def scale(self, cohort: int) -> int:
        """Steps of a masked value to 1: the sum over a cohort is within a 16th of all words.

        Masks that do not cancel leave any word, which is then not within it 15 times in 16.

        >>> Privacy(masks=True).scale(4), Privacy(masks=True, range=1000.0).scale(10)
        (524288, 13421)
        """
        return int(WORDS // 2 / (ROOM * self.range * cohort))

    def to_table(self) -> dict[str, Any]:
        """What is set to something else than the default."""
        found = schema.values(self)
        plain = {f.name: f.default for f in fields(self)}
        return {key: value for key, value in found.items() if value != plain[key]}


read = schema.section(partial(schema.build, Privacy))  # the table of an experiment file


@dataclass(frozen=True)
class Mechanism:
    """Noise of one upload, and the budget that it serves."""

    level: Level
    delta: float
    sensitivity: float  # c, or C
    sigma: float  # standard deviation of the noise that one client adds to each value
    uploads: int = 1  # T of a client; a sample is released once, however many there are
    shares: int = 1  # members of a sum whose noise adds up, under masks
    copies: int = 1  # samples that one measurement is in, as in a delay line

    @property
    def ratio(self) -> float:
        """The sensitivity over the noise that is left in what the server sees."""
        return self.sensitivity / (self.sigma * sqrt(self.shares))

    def epsilon(self, uploads: int) -> float:
        """What this many uploads of a client have spent."""
        spent = min(uploads, self.uploads)
        return epsilon(self.ratio * sqrt(spent), self.delta) if spent else 0.0

    @property
    def planned(self) -> float:
        """Epsilon when the budget is spent."""
        return self.epsilon(self.uploads)

    @property
    def measurement(self) -> float:
        """Epsilon of one measurement: m samples move a model by m c at most, not by c.

        >>> sample = mechanism(Privacy(epsilon=3.0), 0.5, 1.0, 1, 1, copies=4)
        >>> round(sample.planned, 2), round(sample.measurement, 2)
        (3.0, 15.79)
        """
        if self.level == "client":
            return self.planned
        return epsilon(self.ratio * self.copies, self.delta)

    def in_words(self) -> str:
        """The guarantee, in a line.

        >>> Mechanism("sample", 1e-5, 0.5, 0.5).in_words()
        'epsilon 4.38 at delta 1e-05 for each sample; noise sigma 0.5 in a value'
        """
        whose = "each sample" if self.level == "sample" else "all samples of a client"
        count = f", {self.uploads:,} uploads" if self.level == "client" else ""
        shared = f", shared by {self.shares} members" if self.shares > 1 else ""
        budget = f"epsilon {self.planned:.3g} at delta {self.delta:g} for {whose}{count}"
        if self.level == "sample" and self.copies > 1:
            budget += f", {self.measurement:.3g} for a measurement, which is in {self.copies}"
        return f"{budget}; noise sigma {self.sigma:.3g} in a value{shared}"


def mechanism(
    privacy: Privacy,
    step: float,
    longest: float | None,
    uploads: int,
    shares: int,
    copies: int = 1,
) -> Mechanism | None:
    """The noise for the budget; None if there is no epsilon."""
    if privacy.epsilon is None:
        return None
    sample = privacy.level == "sample"
    reach = (privacy.error or 0) * (longest or 0) if sample else privacy.change
    if not reach:  # never promise privacy without noise
        found = "have no known largest length, so it is not known how far a sample moves a model"
        raise InputError("features", found, 'use "cosine" or "exponential", or level = "client"')
    releases, scale = (1, step) if sample else (uploads, 1.0)
    most = ratio(privacy.epsilon, privacy.delta) / sqrt(releases)
    sigma = scale * (reach / (most * sqrt(shares)))
    return Mechanism(privacy.level, privacy.delta, scale * reach, sigma, releases, shares, copies)


@dataclass(frozen=True)
class Count:
    """What uploads tell of samples by counting: M numbers of a sum over at least c clients.

    T rounds are M T equations. Each member's newest sample has `new` unknowns that nothing before
    has: its error, and the inputs that are no older measurements, so there are c (new T + old)
    unknowns at least; other cohorts, or samples between rounds, only bring more. With M < c new the
    newest samples alone are more unknowns than a round has equations, whatever else is known. But
    laws of inputs are half known, and a server with a good model nearly knows errors, too.
    """

    shared: int  # M
    members: int  # c; 1 without masks
    new: int  # 2 in a delay line, L + 1 where inputs are independent; 0: nobody can count them
    old: int  # inputs of a first sample that later ones share: L - 1 in a delay line, or 0

    @property
    def closed(self) -> bool:
        """Whether at most a quarter of what would be needed comes up, in whatever rounds.

        >>> [Count(M, 10, 2, 3).closed for M in (5, 6)], Count(1, 10, 0, 3).closed
        ([True, False], False)
        """
        return 4 * self.shared <= self.members * self.new

    @property
    def rounds(self) -> int | None:
        """T from which all samples of the same members are determined; None: there is none.

        >>> Count(20, 5, 2, 3).rounds, Count(40, 10, 2, 3).rounds, Count(200, 5, 5, 0).rounds
        (2, 2, 1)
        """
        spare = self.shared - self.members * self.new
        if not self.new or spare < 0 or spare == 0 < self.old:
            return None
        return max(ceil(self.members * self.old / max(spare, 1)), 1)

    def in_words(self) -> str:
        """The verdict, in a line.

        >>> Count(20, 5, 2, 3).in_words()
        'a sum of 20 numbers over 5 clients is open after 2 rounds in a row: 10 unknowns a round'
        >>> Count(9, 6, 2, 3).in_words()
        'a sum of 9 numbers over 6 clients is not closed (3 would be): 12 unknowns a round'
        """
        most, numbers = self.members * self.new, f"{self.shared} number{'s' * (self.shared > 1)}"
        found = f"a sum of {numbers} over {self.members} clients is"
        if not self.new:
            return f"{found} not known to be closed: few digits, own laws, clips or gaps tell more"
        verdict = "closed" if self.closed else f"not closed ({most // 4} would be)"
        if self.rounds is not None:
            verdict = f"open after {self.rounds} round{'s in a row' if self.rounds > 1 else ''}"
        return f"{found} {verdict}: {most} unknowns a round"


def planned(privacy: Privacy, contacts: int, share: float) -> int:
    """T: as given, or the mean of a client's uploads and two standard deviations.

    A client that is drawn more often exhausts its budget early.

    >>> planned(Privacy(epsilon=1.0, level="client"), 1000, 0.04)
    53
    """
    if privacy.uploads is not None:
        return privacy.uploads
    mean = contacts * share
    return max(min(ceil(mean + SPREADS * sqrt(mean * (1 - share))), contacts), 1)


def secret_normals(*shape: int) -> NDArray[np.float64]:
    """Standard normals from the machine's own secret source, not from a seed: Box-Muller."""
    count = int(np.prod(shape))
    words = np.frombuffer(os.urandom(16 * count), np.uint64).reshape(2, count)
    u, turn = ((words >> np.uint64(11)) + 1.0) * 2.0**-53
    return (np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * turn)).reshape(shape)


def delta_of(epsilon: float, ratio: float) -> float:
    """The least delta at this epsilon: Phi(r/2 - epsilon/r) - e^epsilon Phi(-r/2 - epsilon/r).

    >>> round(delta_of(1.0, 1.0), 4)
    0.1269
    """
    if ratio <= 0:
        return 0.0
    left, right = epsilon / ratio - ratio / 2, epsilon / ratio + ratio / 2
    return max(_tail(left) - exp(min(epsilon + _log_tail(right), 0.0)), 0.0)


def epsilon(ratio: float, delta: float) -> float:
    """The least epsilon at this delta.

    >>> round(epsilon(1.0, 1e-5), 3), round(epsilon(0.1 * 50**0.5, 1e-5), 3)
    (4.377, 2.943)
    """
    most = ratio**2 / 2 + ratio * sqrt(2 * log(1 / delta))  # where the tail alone is below delta
    if delta_of(0.0, ratio) <= delta:
        return 0.0
    return _upper(lambda found: delta_of(found, ratio) <= delta, 0.0, most)


def ratio(epsilon: float, delta: float) -> float:
    """The largest shift, in units of the noise, that this epsilon and delta allow.

    >>> round(ratio(4.0, 1e-5), 4)
    0.9249
    """
    most = 1.0
    while delta_of(epsilon, most) <= delta:
        most *= 2
    # The upper end of 1/r is the lower one of r: never more than is allowed.
    least = 1 / most
    while delta_of(epsilon, 1 / least) > delta:
        least *= 2
    return 1 / _upper(lambda found: delta_of(epsilon, 1 / found) <= delta, least / 2, least)


def _upper(good: Callable[[float], bool], low: float, high: float) -> float:
    """The least good number of low..high, where all above it are good: rounded up."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if good(middle) else (middle, high)
    return high


def _tail(x: float) -> float:
    """Phi(-x)."""
    return erfc(x / sqrt(2)) / 2


def _log_tail(x: float) -> float:
    """log Phi(-x), also where Phi(-x) is too small for a number."""
    if x < FAR:
        tail = _tail(x)
        return log(tail) if tail > 0 else -inf
    return -x * x / 2 - log(x) - log(2 * pi) / 2 + log1p(-1 / x**2 + 3 / x**4)

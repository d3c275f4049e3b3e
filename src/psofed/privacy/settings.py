"""The table [privacy]: what the server may learn of a client, and what is done about it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from psofed import schema
from psofed.errors import InputError

Level = Literal["sample", "client"]
WORDS = 2**32  # masked values are whole numbers mod this: four bytes each
ROOM = 16  # times more than the largest sum needs, so that one that is wrong shows
FEWEST = 3  # with two in a sum, either of them can subtract its own part
ERROR, CHANGE = 1.0, 0.1  # the clips where epsilon is given and they are not


@dataclass(frozen=True)
class Privacy:
    """Masks hide what is in a sum, noise hides what a sum tells; both are off by default."""

    masks: bool = False  # the server learns sums over a cohort, not what a client sends
    self_masks: bool = False  # also if the server lies about who did not answer; costs bytes
    least: int | None = None  # members that a sum has at least; not set: more than half of a cohort
    range: float = 64.0  # values of a masked upload; who has larger ones sends nothing
    epsilon: float | None = None  # the budget of differential privacy; not set: no noise
    delta: float = 1e-5  # the other number of that budget
    level: Level = "sample"  # what is hidden: one sample of a client, or all of them
    clip_error: float | None = None  # largest |error| that a client learns from a sample with
    clip_change: float | None = None  # largest norm of what an upload changes
    uploads: int | None = None  # of a client, that its budget is for; not set: from the rounds

    def __post_init__(self) -> None:
        schema.check(self)
        schema.positive(self, "range", "epsilon", "delta", "clip_error", "clip_change", "uploads")
        if self.delta >= 1:
            raise InputError("delta", f"is {self.delta:g}", "use less than 1, such as 1e-5")
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


def read(key: str, table: Any) -> Privacy:
    """The table of an experiment file."""
    try:
        found: Privacy = schema.build(Privacy, schema.convert(key, table, dict))
        return found
    except InputError as error:
        raise error if error.field == key else error.inside(f"{key}.") from None

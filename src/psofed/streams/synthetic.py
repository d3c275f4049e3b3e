"""The one synthetic stream, of which the others are cases: inputs, a function f and noise.

One f is used for learning, for the test set, for the floors and by the theory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.streams import chance
from psofed.streams.contract import Samples, StreamOptions
from psofed.streams.inputs import Autoregressive, Independent, Inputs, Laws

Array = NDArray[Any]
Range = tuple[float, float]
LIMITS = {"theta": (-1, 1), "variance": (0, np.inf), "noise": (0, np.inf)}
OURS: dict[str, type[Autoregressive]] = {"ar1": Autoregressive, "iid": Independent}


class Synthetic(StreamOptions):
    """Eq. (1) with f_n = (1 - a_n) f + a_n later, a_n = `blend(n)`; f is constant by default.

    A derived class has the four ranges as fields, and `function`. Where f changes, `changes` is
    true and there are `later` and `blend`.
    """

    theta: Range
    mean: Range
    variance: Range
    noise: Any

    @property
    def taps(self) -> int:
        """L."""
        raise NotImplementedError

    @property
    def inputs(self) -> Any:
        """How the windows are drawn."""
        return "ar1"

    def __init_subclass__(cls) -> None:
        if "clean" in cls.__dict__ and cls.changes:
            right = "give it `function` and `later`, by which models are judged"
            raise InputError(cls.__qualname__, "has its own `clean`, but its f changes", right)

    def check_ranges(self) -> None:
        """Refuse ranges that are none, or in which there is no law."""
        for field in Laws._fields:
            given = getattr(self, field)
            try:
                low, high = (float(value) for value in given)
            except (TypeError, ValueError):
                right = "use two numbers, the smaller first"
                raise InputError(field, f"is {given!r}", right) from None
            least, most = LIMITS.get(field, (-np.inf, np.inf))
            if not (np.isfinite([low, high]).all() and low <= high):
                raise InputError(field, f"is [{low}, {high}]", "use two numbers, the smaller first")
            if low < least or high > most or (field == "theta" and max(-low, high) >= 1):
                right = "keep it inside (-1, 1)" if field == "theta" else "no value may be negative"
                raise InputError(field, f"is [{low}, {high}]", right)

    @property
    def source(self) -> Inputs:
        """Where the windows come from."""
        return OURS[self.inputs](self.taps)

    @property
    def independent(self) -> bool:  # type: ignore[override]
        """Whether the windows of a client are independent over time."""
        return self.source.independent

    def function(self, x: Array) -> Array:
        """The noise-free f(x) [...] of inputs x [..., L]."""
        raise NotImplementedError

    def clean(self, x: Array, first: int) -> Array:
        """The noise-free f_n(x) of rounds first, first + 1, ...; x is [..., round, L]."""
        if not self.changes:
            return self.function(x)
        a = self.blend(np.arange(first, first + x.shape[-2])).astype(x.dtype)
        later = self.later(x)
        assert later is not None
        return (1 - a) * self.function(x) + a * later

    def check_rounds(self, rounds: int) -> None:
        """Refuse a `clean` that changes over time and does not say so: it is judged by round 0."""
        if self.changes:
            return
        laws = self.laws(Seeds(0), np.arange(5))
        x = self.source.alone(Seeds(0), "probe", np.arange(5), laws, 15).x[:, None]
        first = self.clean(x, 0)
        if not all(np.array_equal(first, self.clean(x, n)) for n in (rounds // 2, rounds - 1)):
            right = "declare changes = True, and give it `function`, `later` and `blend`"
            raise InputError("stream", "has another `clean` in later rounds", right)

    def laws(self, seeds: Seeds, clients: Array) -> Laws:
        """The parameters of `clients`, each uniform in its range."""
        u = seeds.world.uniforms("law", client=clients, count=4)
        ranges = np.array([self.theta, self.mean, self.variance, self.noise])
        return Laws(*(ranges[:, 0] + u * np.diff(ranges).T).T)

    def input_law(self, seeds: Seeds, clients: Array) -> tuple[Array, Array] | None:
        """Mean [K, L] and covariance [K, L, L] of the windows, where they are Gaussian."""
        return self.source.law(self.laws(seeds, clients))

    def noise_law(self) -> chance.Law | None:
        """The law of the noise, of variance 1; None: it is normal."""
        return None

    def samples(
        self, seeds: Seeds, clients: Array, first: int, stop: int, dtype: Any = np.float64,
        memory: Any = None,
    ) -> Samples:  # fmt: skip
        """The samples of rounds first..stop-1; later rounds never change the earlier ones."""
        laws, law = self.laws(seeds, clients), self.noise_law()
        x, noise, memory = self.source.rounds(seeds, clients, laws, first, stop, dtype, memory)
        if law is not None:
            drawn = chance.blocks(law, seeds, "law", clients, first, stop, (), "stream.law")
            noise = drawn.astype(dtype, copy=False)
        noise *= np.sqrt(laws.noise).astype(dtype)[:, None]
        return Samples(x, self.clean(x, first), noise, memory)

    def snapshot(self, seeds: Seeds, purpose: str, clients: int | Array, count: int) -> Samples:
        """`count` independent samples that cover the laws of all clients, or of some, evenly."""
        if isinstance(clients, int):
            some = min(clients, count)
            clients = np.arange(some) * clients // some
        laws, law = self.laws(seeds, clients), self.noise_law()
        x, noise, _ = self.source.alone(seeds, purpose, clients, laws, count)
        if law is not None:
            to = f"law {purpose}"
            noise = chance.turns(law, seeds.world, to, clients, count, (), "stream.law")
        noise = np.sqrt(laws.noise)[np.arange(count) % len(clients)] * noise
        # Where f changes, models are judged by `blend` of f and `later`; else by `clean`.
        clean = self.function(x) if self.changes else self.clean(x[:, None], 0)[:, 0]
        return Samples(x, clean, noise)

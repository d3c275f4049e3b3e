"""Your own function: any f of the inputs, with inputs, noise and changes of your choice.

`f` is a function, or its place ("./mine.py:f"). The other keys say how the inputs are drawn, how
large the noise is, and whether f changes over time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from psofed.core.native import Array
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.federation import plugins, schema
from psofed.federation.foreign import PROBES, Vectorised, place, vectorised
from psofed.streams import own_laws
from psofed.streams.own_laws import Law, OwnInputs
from psofed.streams.synthetic import LIMITS, OURS, Range, Synthetic

MOST_TAPS = 64
NORMAL = "normal"
TEXTS = ("f", "inputs", "law", "change")  # keys that are a text or a function
Function = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class FunctionStream(Synthetic):
    """A stream of your own f: `psofed.Stream(f, taps=3)`.

    >>> FunctionStream(lambda x: x[..., 0] * x[..., 1], taps=2).taps
    2
    >>> FunctionStream("sin(3*x1)", taps=1)
    Traceback (most recent call last):
    psofed.errors.InputError: f is 'sin(3*x1)'; give a function of x, or its place: "./mine.py:f"
    """

    name: ClassVar[str] = "function"
    f: str | Function = field(kw_only=False)  # a function of x [..., L], or "./mine.py:f"
    taps: int = field(default=0, kw_only=False)  # L, how many inputs f has; it is needed
    inputs: Any = "ar1"  # "ar1" as in the paper, "iid", or "./mine.py:inputs"
    noise: Any = (0.005, 0.03)  # range of the variances of the noise, or its law
    law: str | Function = NORMAL  # of the noise: "laplace", "student", "uniform", "./mine.py:law"
    change: str | Function | None = None  # what f changes into, as f is given

    def __post_init__(self) -> None:
        schema.check(self, skip=(*LIMITS, *TEXTS))
        if not 1 <= self.taps <= MOST_TAPS:
            found = f"is {self.taps}" if self.taps else "is missing"
            raise InputError("taps", found, f"say how many inputs f has, 1 to {MOST_TAPS}")
        if isinstance(self.noise, str) or callable(self.noise):
            self._set("law", self.noise)  # of which the variance is the default, or its own
            own = callable(self.law) or ":" in self.law
            self._set("noise", (1.0, 1.0) if own else Options.noise)
        for key in LIMITS:
            if isinstance(getattr(self, key), list):
                self._set(key, tuple(getattr(self, key)))
        for key in TEXTS:
            if isinstance(getattr(self, key), str) and ":" in getattr(self, key):
                self._set(key, plugins.attribute(getattr(self, key), key))
        self.check_numbers()
        self._check_choices()
        try:  # all of it now, so that mistakes are found at the start
            if callable(self.inputs):
                self.source.check()
            if callable(self.law):
                own_laws.check_noise(self.law, "law")
            _ = self._f, self._later
        except InputError as error:
            key = error.field.removeprefix("stream.")
            raise InputError(key, error.found, error.right) from error

    def _set(self, key: str, value: Any) -> None:
        object.__setattr__(self, key, value)

    def _check_choices(self) -> None:
        for key, known in (("inputs", [*OURS]), ("law", [NORMAL, *own_laws.NOISES])):
            value = getattr(self, key)
            if not (callable(value) or (isinstance(value, str) and value in known)):
                right = f'use {", ".join(known)}, or a function, as in "./mine.py:{key}"'
                raise InputError(key, f"is {value!r}", right)
        for key in ("theta", "mean", "variance"):
            if callable(self.inputs) and getattr(self, key) != getattr(Options, key):
                found = "is given, but the inputs are drawn by a function"
                raise InputError(key, found, 'leave it out, or use inputs = "ar1" or "iid"')
        if (self.change is not None) != (self.at is not None or self.period is not None):
            found = "is missing" if self.change is None else "is given alone"
            right = "give what f changes into, and at = ROUND, or period = ROUNDS for a drift"
            raise InputError("change", found, right)

    def check_rounds(self, rounds: int) -> None:
        """Refuse a series whose law does not stay."""
        if callable(self.inputs) and not self.independent:
            self.source.check_rounds(rounds)

    @classmethod
    def readers(cls) -> Mapping[str, schema.Reader]:
        """The keys that may be text or something else."""

        def text(key: str, value: Any) -> Any:
            return schema.convert(key, value, str)

        def noise(key: str, value: Any) -> Any:
            return value if isinstance(value, str) else schema.convert(key, value, Range)

        return {"noise": noise, **dict.fromkeys(TEXTS, text)}

    def to_table(self) -> dict[str, Any]:
        """What is set, as plain values; a function by its place."""
        named = copy(self)
        for key in TEXTS:
            if callable(getattr(self, key)):
                named._set(key, place(f"stream.{key}", getattr(self, key)))
        return super(Options, named).to_table()

    def __getstate__(self) -> dict[str, Any]:
        """The fields; what is made of them is made again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def source(self) -> Any:
        """Where the windows come from."""
        return OwnInputs(self.taps, self.inputs) if callable(self.inputs) else super().source

    def noise_of(self, seeds: Seeds, clients: Array, first: int, normals: Array) -> Array:
        """Of variance 1, or the user's own."""
        if self.law == NORMAL:
            return normals
        stop = first + normals.shape[1]
        drawn = own_laws.blocks(self._law, seeds, "law", clients, first, stop, (), "stream.law")
        return drawn.astype(normals.dtype, copy=False)

    def noise_alone(self, seeds: Seeds, purpose: str, clients: Array, normals: Array) -> Array:
        """The same of independent samples."""
        if self.law == NORMAL:
            return normals
        to, count = f"law {purpose}", len(normals)
        return own_laws.turns(self._law, seeds.world, to, clients, count, (), "stream.law")

    @property
    def _law(self) -> Law:
        return self.law if callable(self.law) else own_laws.NOISES[self.law]

    def function(self, x: Array) -> Array:
        """f(x) [...]."""
        return self._f(x)

    def later(self, x: Array) -> Array | None:
        """What f changes into."""
        return None if self._later is None else self._later(x)

    @cached_property
    def _f(self) -> Vectorised:
        return self._tried("f")

    @cached_property
    def _later(self) -> Vectorised | None:
        return None if self.change is None else self._tried("change")

    def _tried(self, key: str) -> Vectorised:
        value = getattr(self, key)
        if not callable(value):
            right = 'give a function of x, or its place: "./mine.py:f"'
            raise InputError(key, f"is {value!r}", right)
        some = np.arange(5)
        laws = self.laws(Seeds(0), some)
        x = self.source.alone(Seeds(0), "probe", some, laws, PROBES).x
        return vectorised(value, x, f"stream.{key}")


Options = FunctionStream

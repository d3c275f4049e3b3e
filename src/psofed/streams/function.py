"""Your own function: any f of the inputs, with inputs, noise and changes of your choice.

`f` is an expression ("sin(3*x1) + x2*x3"), or a function in a file ("./mine.py:f"). The other keys
say how the inputs are drawn, how large the noise is, and whether f changes over time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psofed import plugins, schema
from psofed.core.foreign import place
from psofed.core.seeds import Seeds
from psofed.core.vectorised import PROBES, Vectorised, vectorised
from psofed.errors import InputError
from psofed.streams import chance, change, drift
from psofed.streams.expression import Expression
from psofed.streams.inputs import Inputs
from psofed.streams.own_inputs import OwnSeries, OwnWindows
from psofed.streams.switching import SWITCHES, Switching
from psofed.streams.synthetic import OURS, Range

Array = NDArray[Any]
MOST_TAPS = 64
NORMAL = "normal"
HEAVY = 1.7  # tail index of noise that is told; it is 2 where the variance ends, and an estimate
Function = Callable[..., Any]


@dataclass(frozen=True)
class Options(Switching):
    """A stream of your own f: `psofed.Stream(f, taps=3)`.

    >>> Options(lambda x: x[..., 0] * x[..., 1], taps=2).taps
    2
    >>> Options("sin(3*x1) + x4", taps=3)
    Traceback (most recent call last):
    psofed.errors.InputError: f uses x4, but taps is 3; use x1 to x3, or raise taps
    """

    name: ClassVar[str] = "function"
    f: str | Function  # an expression of x1, x2, ..., or "./mine.py:f"
    taps: int = 0  # L, how many inputs f has; it is needed
    inputs: str | Function = "ar1"  # "ar1" as in the paper, "iid", or "./mine.py:inputs"
    noise: Range | str | Function = (0.005, 0.03)  # range of the variances of the noise, or its law
    law: str | Function = NORMAL  # of the noise: "laplace", "student", "uniform", "./mine.py:law"
    theta: Range = (0.2, 0.9)  # correlation of the input
    mean: Range = (-0.2, 0.2)  # of its innovation
    variance: Range = (0.2, 1.2)  # of its innovation
    change: str | Function | None = None  # what f changes into: an expression, or "./mine.py:g"
    at: int | None = None  # the round at which it does
    period: int | None = None  # or the rounds in which it drifts there and back

    def __post_init__(self) -> None:
        if type(self.taps) is not int or not 0 <= self.taps <= MOST_TAPS:
            raise InputError("taps", f"is {self.taps!r}", f"use a whole number, 1 to {MOST_TAPS}")
        if not self.taps:
            raise InputError("taps", "is missing", "say how many inputs f has, as in taps = 3")
        if isinstance(self.noise, str) or callable(self.noise):
            self._set("law", self.noise)  # of which the variance is the default, or its own
            self._set("noise", (1.0, 1.0) if _is_own(self.law) else Options.noise)
        for key in ("noise", "theta", "mean", "variance"):
            if isinstance(getattr(self, key), list):
                self._set(key, tuple(getattr(self, key)))
        for key in ("f", "inputs", "law", "change"):
            if isinstance(getattr(self, key), str) and ":" in getattr(self, key):
                self._set(key, plugins.attribute(getattr(self, key), key))
        self.check_ranges()
        self._check_choices()
        self._check_change()
        try:
            self._check_laws()
            _ = self._f, self._later  # tried now, so that mistakes are told at the start
        except InputError as error:
            raise InputError(
                error.field.removeprefix("stream."), error.found, error.right
            ) from error

    def _set(self, key: str, value: Any) -> None:
        object.__setattr__(self, key, value)

    def _check_choices(self) -> None:
        for key, known in (("inputs", [*OURS]), ("law", [NORMAL, *chance.NOISES])):
            value = getattr(self, key)
            if not (callable(value) or (isinstance(value, str) and value in known)):
                right = f'use {", ".join(known)}, or a function, as in "./mine.py:{key}"'
                raise InputError(key, f"is {value!r}", right)
        if not isinstance(self.inputs, str):
            for key in ("theta", "mean", "variance"):
                if getattr(self, key) != getattr(Options, key):
                    found = "is given, but the inputs are drawn by a function"
                    raise InputError(key, found, 'leave it out, or use inputs = "ar1" or "iid"')

    def _check_change(self) -> None:
        given = [key for key in ("at", "period") if getattr(self, key) is not None]
        if self.change is None and given:
            raise InputError(given[0], "is given, but not what f changes into", "add change = ...")
        if self.change is not None and len(given) != 1:
            right = "add at = ROUND for an abrupt change, or period = ROUNDS for a drift"
            raise InputError("change", "is given" + (" with both" if given else " alone"), right)
        for key in given:
            if type(getattr(self, key)) is not int:
                raise InputError(key, f"is {getattr(self, key)!r}", "use a whole number")
        if self.at is not None:
            change.check_at(self.at)
        if self.period is not None:
            drift.check_period(self.period)

    def _check_laws(self) -> None:
        if isinstance(self.source, OwnWindows | OwnSeries):
            self.source.check()
        if callable(self.law):
            chance.check_law(self.law, (), "law")
            chance.check_noise(self.law, "law")

    def check_rounds(self, rounds: int) -> None:
        """Refuse a series whose law does not stay."""
        if isinstance(self.source, OwnSeries):
            self.source.check_rounds(rounds)

    def caution(self) -> str:
        """Noise whose squares have no mean: MSE says little, and LMS has no limit of its own."""
        if not callable(self.law):
            return ""
        index = chance.tail(self.law, "stream.law")
        if index > HEAVY:
            return ""
        return (
            f"its noise seems to have no finite variance (tail index about {index:.1f}, below 2),"
            " and LMS follows each outlier: expect curves that depend on the seed"
        )

    @classmethod
    def readers(cls) -> Mapping[str, schema.Reader]:
        """The keys that may be text or something else."""
        keys = ("f", "inputs", "law", "change")
        return {"noise": _noise, **dict.fromkeys(keys, lambda k, v: schema.convert(k, v, str))}

    def to_table(self) -> dict[str, Any]:
        """What is set, as plain values; a function by its place."""
        table: dict[str, Any] = {}
        for key, value in self.__getstate__().items():
            if callable(value):
                table[key] = place(f"stream.{key}", value)
            elif value is not None:
                table[key] = list(value) if isinstance(value, tuple) else value
        if not isinstance(self.inputs, str):
            for key in ("theta", "mean", "variance"):
                del table[key]
        return table if self.switches else {k: v for k, v in table.items() if k not in SWITCHES}

    def __getstate__(self) -> dict[str, Any]:
        """The fields; what is made of them is made again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def source(self) -> Inputs:
        """Where the windows come from: of a function with `yield`, a series."""
        if isinstance(self.inputs, str):
            return OURS[self.inputs](self.taps)
        series = inspect.isgeneratorfunction(inspect.unwrap(_bare(self.inputs)))
        return (OwnSeries if series else OwnWindows)(self.taps, self.inputs)

    def noise_law(self) -> chance.Law | None:
        """Of variance 1, or the user's own."""
        return self.law if callable(self.law) else chance.NOISES.get(self.law)

    def function(self, x: Array) -> Array:
        """f(x) [...]."""
        return self._f(x)

    @property
    def changes(self) -> bool:  # type: ignore[override]
        """Whether f changes over time."""
        return self.change is not None

    def later(self, x: Array) -> Array | None:
        """What f changes into."""
        return None if self._later is None else self._later(x)

    def blend(self, rounds: Array) -> Array:
        """A step at a round, or a wave."""
        if self.change is None:
            return np.zeros(len(rounds))
        if self.at is not None:
            return change.step(rounds, self.at)
        assert self.period is not None
        return drift.wave(rounds, self.period)

    @cached_property
    def _f(self) -> Vectorised:
        return self._tried("f")

    @cached_property
    def _later(self) -> Vectorised | None:
        return None if self.change is None else self._tried("change")

    def _tried(self, key: str) -> Vectorised:
        value = getattr(self, key)
        if isinstance(value, str):
            value = Expression(value, self.taps, key)
        if not callable(value):
            right = 'give a function of x, an expression or a place: "./mine.py:f"'
            raise InputError(key, f"is {value!r}", right)
        laws = self.laws(Seeds(0), np.arange(PROBES[0]))
        count = int(np.prod(PROBES))
        x = self.source.alone(Seeds(0), "probe", np.arange(PROBES[0]), laws, count).x
        return vectorised(value, x, f"stream.{key}")


def _bare(function: Any) -> Any:
    """The function in a partial one."""
    while hasattr(function, "func"):
        function = function.func
    return function


def _is_own(law: Any) -> bool:
    return callable(law) or ":" in law


def _noise(key: str, value: Any) -> Any:
    if isinstance(value, str):
        return value
    return schema.convert(key, value, tuple[float, float])

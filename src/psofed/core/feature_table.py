"""The [features] table: one of our feature functions, or one that a user brings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from psofed import plugins, schema
from psofed.core import foreign
from psofed.core.features import OwnMap
from psofed.core.seeds import Seeds
from psofed.core.vectorised import vectorised
from psofed.errors import InputError

Function = Callable[..., Any]
OURS = ("cosine", "exponential", "gaussian")  # feature functions


@dataclass(frozen=True)
class Features:
    """The [features] table: the feature function, D and the kernel width sigma.

    >>> Features(np.tanh, dim=4).title
    'tanh'
    """

    name: str | Function = "cosine"  # or "exponential", "gaussian", "./mine.py:z"
    dim: int = 200  # D
    width: float = 2.0  # sigma, the width of the kernel
    drawn: bool = False  # the function draws a map in each run: (generator, taps, dim, width) to z

    def __post_init__(self) -> None:
        schema.check(self, skip=("name",))
        schema.positive(self, "dim", "width")
        schema.at_most(self, {"dim": 100_000})
        if not 1e-6 <= self.width <= 1e6:
            raise InputError("width", f"is {self.width}", "use 1e-6 to 1e6")
        if self.name == "exponential" and self.dim % 2:
            right = f"use an even number, e.g. {self.dim + 1}"
            raise InputError("dim", f"is {self.dim}, but these features come in pairs", right)
        if isinstance(self.name, str) and self.name not in OURS:
            object.__setattr__(self, "name", self._found(self.name))
        if not (isinstance(self.name, str) or callable(self.name)):
            raise InputError("name", f"is {self.name!r}", "give a name or a function of x")
        if self.drawn and isinstance(self.name, str):
            found = f"is true, but {self.name} features are drawn anyway"
            raise InputError("drawn", found, "leave it out")

    def _found(self, name: str) -> Any:
        """The function that a text stands for."""
        offered = plugins.entries("psofed.features")
        if ":" in name:
            return plugins.attribute(name)
        if name in offered:
            return plugins.entry("psofed.features", name)
        if plugins.outside(name):
            raise InputError("name", f"is {name!r}", f'say which function in it: "{name}:z"')
        right = "use " + " or ".join(f'"{known}"' for known in (*OURS, *offered))
        raise InputError("name", f"is {name!r}", f"{right}, or a function: './mine.py:z'")

    @property
    def title(self) -> str:
        """What they are called."""
        return self.name if isinstance(self.name, str) else foreign.title(self.name)

    def to_table(self) -> dict[str, Any]:
        """As plain values; a function by its place."""
        own = not isinstance(self.name, str)
        name = foreign.place("features.name", self.name) if own else self.name
        drawn = {"drawn": True} if self.drawn else {}
        return {"name": name, "dim": self.dim, "width": self.width, **drawn}

    def own_map(self, seeds: Seeds, x: Any) -> OwnMap:
        """The user's map, after it was tried with a few inputs."""
        z: Any = self.name
        if self.drawn:
            generator = seeds.world.generator("features")
            z = foreign.call("features.name", z, generator, x.shape[-1], self.dim, self.width)
            if not callable(z):
                found = f"returns a {type(z).__name__}, but drawn is true"
                raise InputError("features.name", found, "return a function of x")
        one = np.shape(foreign.call("features.name", z, x[:1]))
        if len(one) == 2 and one[1] != self.dim:
            found = f"is {self.dim}, but {self.title} gives {one[1]} numbers"
            raise InputError("features.dim", found, f"use {one[1]}")
        return OwnMap(vectorised(z, x, "features.name", (self.dim,)), self.dim)


def read(key: str, table: Any) -> Features:
    """Features from plain values, as `to_table` makes them."""
    names = {"name": lambda key, value: schema.convert(key, value, str)}
    try:
        features: Features = schema.build(Features, schema.convert(key, table, dict), names)
        return features
    except InputError as error:
        raise error if error.field == key else error.inside(key + ".") from None

"""The [features] table: one of our feature functions, or one that a user brings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from psofed.core.features import FLAT, FeatureMap, OwnMap, guess, whiten
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.federation import foreign, plugins, schema
from psofed.federation.foreign import vectorised

Function = Callable[..., Any]
OURS = ("cosine", "exponential", "gaussian")  # feature functions
# The largest |z| of any x, of features that are drawn from the seed alone.
LONGEST = {"cosine": 2**0.5, "exponential": 1.0}
SIZE = 80  # d, where it is not set
MOST_WHITENED = 2000  # features whose eigenvectors are still found in seconds


BASIS = ("basis", "size", "whiten", "epsilon", "spread", "correlation")  # fields about it


@dataclass(frozen=True)
class Features(schema.Fields):
    """The [features] table: the feature function, D, the kernel width sigma, and a basis.

    With a basis the model has `size` numbers, those of u = T^T z: see `core/features.py`.

    >>> Features(np.tanh, dim=4).title
    'tanh'
    """

    name: str | Function = "cosine"  # or "exponential", "gaussian", "./mine.py:z"
    dim: int = 200  # D
    width: float = 2.0  # sigma, the width of the kernel
    drawn: bool = False  # the function draws a map in each run: (generator, taps, dim, width) to z
    basis: Literal["none", "whitened"] = "none"  # of the features, from a guessed law of x
    size: int | None = None  # d, entries of the model; not set: 80, or dim if that is less
    whiten: float = 0.5  # 1: all directions have the same power; 0: a rotation only
    epsilon: float = FLAT  # share of the largest power: smaller ones are raised less
    spread: float = 1.0  # variance of each input under the law that is guessed
    correlation: float = 0.5  # of any two inputs under that law
    widths: tuple[float, ...] = ()  # of several kernels, D split among them; not set: one, `width`

    def __post_init__(self) -> None:
        schema.check(self, skip=("name",))
        schema.positive(self, "dim", "width")
        schema.at_most(self, {"dim": 100_000})
        schema.require(self, "width", 1e-6 <= self.width <= 1e6, "use 1e-6 to 1e6")
        self._check_widths()
        self._check_basis()
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

    def _check_widths(self) -> None:
        """Several kernels have their own widths, and cosines."""
        if not self.widths:
            return
        if self.name != "cosine" or self.width != Features.width:
            what = "name" if self.name != "cosine" else "width"
            found = f"is given, but so is {what}"
            raise InputError("widths", found, f"leave out {what}: widths are those of cosines")
        if not all(1e-6 <= width <= 1e6 for width in self.widths):
            raise InputError("widths", f"is {list(self.widths)}", "use numbers from 1e-6 to 1e6")
        if len(self.widths) > self.dim:
            found = f"has {len(self.widths)} kernels for {self.dim} features"
            raise InputError("widths", found, "use fewer, or a larger dim")

    def _check_basis(self) -> None:
        """Numbers in their ranges, and none without a basis."""
        if self.basis == "none":
            for field in BASIS[1:]:
                if getattr(self, field) != getattr(Features, field):
                    right = 'leave it out, or add basis = "whitened"'
                    raise InputError(field, "is given, but there is no basis", right)
            return
        if self.dim > MOST_WHITENED:
            found = f"is {self.dim:,}, but a basis needs the eigenvectors of a dim x dim matrix"
            raise InputError("dim", found, f"use {MOST_WHITENED:,} at most")
        if self.size is not None and not 1 <= self.size <= self.dim:
            raise InputError("size", f"is {self.size}", f"use 1 to {self.dim}, which is dim")
        schema.require(self, "whiten", 0 <= self.whiten <= 1, "use 0 (a rotation) to 1 (whitened)")
        schema.require(self, "epsilon", 0 < self.epsilon <= 1, "use a number above 0, 1 at most")
        if not 1e-12 <= self.spread <= 1e12:
            raise InputError("spread", f"is {self.spread}", "use a variance, 1e-12 to 1e12")
        schema.require(self, "correlation", 0 <= self.correlation < 1, "use 0 to 1, below 1")

    def _found(self, name: str) -> Any:
        """The function that a text stands for."""
        if ":" in name:
            return plugins.attribute(name)
        if plugins.outside(name):
            raise InputError("name", f"is {name!r}", f'say which function in it: "{name}:z"')
        right = "use " + " or ".join(f'"{known}"' for known in OURS)
        raise InputError("name", f"is {name!r}", f"{right}, or a function: './mine.py:z'")

    @property
    def title(self) -> str:
        """What they are called."""
        return self.name if isinstance(self.name, str) else foreign.title(self.name)

    @property
    def scale(self) -> Any:
        """The width of the kernel, or [D, 1] of each feature's."""
        if not self.widths:
            return self.width
        parts = np.array_split(np.arange(self.dim), len(self.widths))
        return np.repeat(self.widths, [len(part) for part in parts])[:, None]

    @property
    def entries(self) -> int:
        """The numbers that a model is learned from: D, or d of a basis."""
        return self.dim if self.basis == "none" else self.size or min(SIZE, self.dim)

    @property
    def longest(self) -> float | None:
        """The largest |z| of any x; None: it is not known, or is a matter of the data."""
        known = self.basis == "none" and isinstance(self.name, str)
        return LONGEST.get(str(self.name)) if known else None

    def describe(self) -> str:
        """The features in short, as the title of a method has them."""
        if self.basis == "none":
            widths = " ".join(f"{width:g}" for width in self.widths)
            return f"{self.title} {self.dim}" + f", widths {widths}" * bool(widths)
        degree = {0.0: "rotated", 0.5: "half-whitened", 1.0: "whitened"}
        how = degree.get(self.whiten, f"{100 * self.whiten:.3g} % whitened")
        return f"{how} {self.entries}" + (f" of {self.title}" if self.name != "cosine" else "")

    def in_basis(self, base: FeatureMap, taps: int) -> FeatureMap:
        """The map in its basis, if there is one."""
        if self.basis == "none":
            return base
        law = guess(taps, self.spread, self.correlation)
        return whiten(base, law, self.entries, self.whiten, self.epsilon)

    def to_table(self) -> dict[str, Any]:
        """As plain values; a function by its place."""
        own = not isinstance(self.name, str)
        name = foreign.place("features.name", self.name) if own else self.name
        table: dict[str, Any] = {"name": name, "dim": self.dim, "width": self.width}
        table |= {"drawn": True} if self.drawn else {}
        if self.widths:
            table = {"name": name, "dim": self.dim, "widths": list(self.widths)}
        if self.basis != "none":
            table |= {field: getattr(self, field) for field in BASIS}
        return {field: value for field, value in table.items() if value is not None}

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


NAME = {"name": lambda key, value: schema.convert(key, value, str)}
read = schema.section(lambda table: schema.build(Features, table, NAME))  # what `to_table` makes

"""Your own function: any f of the inputs, with inputs, noise and changes of your choice.

`f` is an expression ("sin(3*x1) + x2*x3"), or a function in a file ("./mine.py:f"). The other keys
say how the inputs are drawn, how large the noise is, and whether f changes over time.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from psofed.core.seeds import Seeds
from psofed.errors import InputError, nearest
from psofed.federation import plugins, schema
from psofed.federation.foreign import PROBES, Vectorised, place, vectorised
from psofed.streams import change, drift, own_laws
from psofed.streams.own_laws import Law, OwnSeries, OwnWindows
from psofed.streams.synthetic import OURS, SWITCHES, Inputs, Range, Switching

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
            own = callable(self.law) or ":" in self.law
            self._set("noise", (1.0, 1.0) if own else Options.noise)
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
        for key, known in (("inputs", [*OURS]), ("law", [NORMAL, *own_laws.NOISES])):
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
            own_laws.check_law(self.law, (), "law")
            own_laws.check_noise(self.law, "law")

    def check_rounds(self, rounds: int) -> None:
        """Refuse a series whose law does not stay."""
        if isinstance(self.source, OwnSeries):
            self.source.check_rounds(rounds)

    def caution(self) -> str:
        """Noise whose squares have no mean: MSE says little, and LMS has no limit of its own."""
        if not callable(self.law):
            return ""
        index = own_laws.tail(self.law, "stream.law")
        if index > HEAVY:
            return ""
        return (
            f"its noise seems to have no finite variance (tail index about {index:.1f}, below 2),"
            " and LMS follows each outlier: expect curves that depend on the seed"
        )

    @classmethod
    def readers(cls) -> Mapping[str, schema.Reader]:
        """The keys that may be text or something else."""

        def text(key: str, value: Any) -> Any:
            return schema.convert(key, value, str)

        def noise(key: str, value: Any) -> Any:
            return value if isinstance(value, str) else schema.convert(key, value, Range)

        return {"noise": noise, **dict.fromkeys(("f", "inputs", "law", "change"), text)}

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
        return own_laws.inputs(self.taps, self.inputs)

    @property
    def _noise_law(self) -> Law | None:
        """None: it is normal."""
        return self.law if callable(self.law) else own_laws.NOISES.get(self.law)

    def noise_of(self, seeds: Seeds, clients: Array, first: int, normals: Array) -> Array:
        """Of variance 1, or the user's own."""
        if (law := self._noise_law) is None:
            return normals
        stop = first + normals.shape[1]
        drawn = own_laws.blocks(law, seeds, "law", clients, first, stop, (), "stream.law")
        return drawn.astype(normals.dtype, copy=False)

    def noise_alone(self, seeds: Seeds, purpose: str, clients: Array, normals: Array) -> Array:
        """The same of independent samples."""
        if (law := self._noise_law) is None:
            return normals
        to, count = f"law {purpose}", len(normals)
        return own_laws.turns(law, seeds.world, to, clients, count, (), "stream.law")

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


Part = Callable[[Array], Any]  # of x [..., L]
LONGEST, DEEPEST, MOST = 2000, 100, 500  # characters, levels and parts of an expression

CONSTANTS = {"pi": np.pi, "e": np.e}
FUNCTIONS: dict[str, tuple[int, Any]] = {
    **{name: (1, getattr(np, name)) for name in (
        "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "exp", "expm1",
        "log", "log1p", "log2", "log10", "sqrt", "cbrt", "square", "abs", "sign", "floor", "ceil",
        "sinc",
    )},
    **{name: (2, getattr(np, name)) for name in ("minimum", "maximum", "arctan2", "hypot")},
    "where": (3, np.where),
}  # fmt: skip
BINARY = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide,
    ast.Pow: lambda a, b: a**b,  # the operator is faster for small whole powers
}  # fmt: skip
UNARY = {ast.UAdd: np.positive, ast.USub: np.negative}
COMPARED = {
    ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal,
    ast.Eq: np.equal, ast.NotEq: np.not_equal,
}  # fmt: skip
HINTS: dict[type[ast.AST], str] = {
    ast.BitXor: "write a power as **",
    ast.IfExp: "write where(x1 > 0, a, b)",
    ast.BoolOp: "multiply conditions for and: (x1 > 0) * (x2 > 0)",
    ast.Subscript: "write x1, x2, ... for the inputs",
    ast.Attribute: "write sin, not np.sin",
}


class Expression:
    """f as a line of text, read by walking its syntax tree, never executed.

    Only what stands in the tables above has a meaning. Numbers are floating-point from the start,
    so that no power of integers can grow.

    >>> Expression("where(x1 > 0, x1**2, -x2)", taps=2)(np.array([[3.0, 1.0], [-1.0, 4.0]]))
    array([ 9., -4.])
    >>> Expression("9**9**9 + x1", taps=1)
    Traceback (most recent call last):
    psofed.errors.InputError: f has 9**9**9, which is inf; use finite numbers
    """

    def __init__(self, text: str, taps: int, field: str = "f") -> None:
        self.text, self.taps, self.field, self.count = text, taps, field, 0
        try:
            with np.errstate(all="ignore"):
                self.part = self._part(self._tree(), 0)
        except InputError as error:
            raise InputError(field, error.found, error.right) from None

    def __call__(self, x: Array) -> Array:
        """f(x) [...]."""
        value = self.part(x) if callable(self.part) else self.part
        return np.broadcast_to(np.asarray(value, x.dtype), x.shape[:-1])

    def _tree(self) -> ast.expr:
        if len(self.text) > LONGEST:
            found = f"has {len(self.text)} characters"
            raise InputError("", found, f"use {LONGEST} at most, or a file: './mine.py:f'")
        right = "write an expression of x1, x2, ..., as in sin(3*x1) + x2, or a file: './mine.py:f'"
        if not self.text.strip():
            raise InputError("", "is empty", right)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of strange syntax, which is refused below
                return ast.parse(" ".join(self.text.split()), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise InputError(
                "", f"is {_short(' '.join(self.text.split()))}, which cannot be read", right
            ) from None

    def _part(self, node: ast.AST, depth: int) -> Part | float:
        """A function of x, or a number where x does not matter."""
        self.count += 1
        if depth > DEEPEST or self.count > MOST:
            raise InputError("", "is too long to be an expression", "use a file: './mine.py:f'")
        if isinstance(node, ast.Constant):
            return self._number(node)
        if isinstance(node, ast.Name):
            return self._name(node.id)
        function, parts = self._applied(node)
        return self._join(node, function, [self._part(part, depth + 1) for part in parts])

    def _number(self, node: ast.Constant) -> float:
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            raise _refused(f"has {_short(str(node.value))}", "use numbers")
        try:
            return float(node.value)
        except OverflowError:
            raise InputError("", "has a number that is too large", "use finite numbers") from None

    def _name(self, name: str) -> Part | float:
        if name in CONSTANTS:
            return float(CONSTANTS[name])
        if re.fullmatch(r"x[1-9]\d{0,5}", name):
            i = int(name[1:]) - 1
            if i >= self.taps:
                found = f"uses {name}, but taps is {self.taps}"
                raise InputError("", found, f"use x1 to x{self.taps}, or raise taps")
            return lambda x: x[..., i]
        inputs = [f"x{i + 1}" for i in range(min(self.taps, 9))]
        right = nearest(name, [*inputs, *CONSTANTS, *FUNCTIONS])
        if re.fullmatch(r"x\d*", name):
            right = f"the inputs are x1 to x{self.taps}"
        raise InputError("", f"has {_short(name)}, which has no meaning", right)

    def _applied(self, node: ast.AST) -> tuple[Any, list[ast.expr]]:
        """The function that a node stands for, and the parts that it is applied to."""
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            return BINARY[type(node.op)], [node.left, node.right]
        if isinstance(node, ast.UnaryOp) and type(node.op) in UNARY:
            return UNARY[type(node.op)], [node.operand]
        if isinstance(node, ast.Compare) and all(type(op) in COMPARED for op in node.ops):
            return _chain([COMPARED[type(op)] for op in node.ops]), [node.left, *node.comparators]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self._named(node, node.func.id), node.args
        inner = [type(part) for part in ast.iter_child_nodes(node)]
        hints = [HINTS[kind] for kind in (type(node), *inner) if kind in HINTS]
        right = hints[0] if hints else (
            "use numbers, x1, x2, ..., + - * / **, comparisons and functions"
        )  # fmt: skip
        raise _refused(f"has {_short(ast.unparse(node))}", right)

    def _named(self, node: ast.Call, name: str) -> Any:
        if name not in FUNCTIONS:
            right = nearest(name, list(FUNCTIONS))
            raise InputError("", f"has {_short(name)}(...), which has no meaning", right)
        count, function = FUNCTIONS[name]
        if len(node.args) != count or node.keywords:
            found = f"gives {name} {len(node.args) + len(node.keywords)} values"
            raise InputError("", found, f"give it {count}, without names")
        return function

    def _join(self, node: ast.AST, function: Any, parts: list[Part | float]) -> Part | float:
        if any(callable(part) for part in parts):
            # Plain numbers, not NumPy's, because these leave float32 as it is.
            return lambda x: function(*(p(x) if callable(p) else p for p in parts))
        value = float(function(*(np.float64(part) for part in parts if not callable(part))))
        if not np.isfinite(value):
            found = f"has {_short(ast.unparse(node).replace(' ', ''))}, which is {value}"
            raise InputError("", found, "use finite numbers")
        return value


def _refused(found: str, right: str) -> InputError:
    return InputError("", f"{found}, which has no meaning here", right)


def _chain(operators: list[Any]) -> Any:
    """a < b < c, as Python reads it."""

    def compare(*parts: Any) -> Any:
        pairs = zip(operators, parts, parts[1:], strict=False)
        found = [operator(a, b) for operator, a, b in pairs]
        return found[0] if len(found) == 1 else np.logical_and.reduce(found)

    return compare


def _short(text: str) -> str:
    return text if len(text) < 40 else text[:30] + "..."
